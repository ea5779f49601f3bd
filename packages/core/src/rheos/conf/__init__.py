"""The configuration files of rheos-core, found by Hydra and never imported by Rheos."""
