"""The configuration files of rheos-cli, found by Hydra and never imported by Rheos."""
