"""The configuration files of rheos-algos-ppo, found by Hydra and never imported by Rheos."""
