"""Configuration: dataclasses of settings, checked where plain data becomes a run's configuration."""
