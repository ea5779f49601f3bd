"""The configuration files of rheos-algos-apex, found by Hydra and never imported by Rheos."""
