"""Whether all mathematics is the same everywhere: on NumPy, and on every backend define-by-run and compiled."""
