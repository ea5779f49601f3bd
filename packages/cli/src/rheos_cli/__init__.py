"""The command line of Rheos: Hydra configs, live progress, plots."""
