"""Hill climbing in the space of weights: an algorithm without gradients, in plain NumPy."""
