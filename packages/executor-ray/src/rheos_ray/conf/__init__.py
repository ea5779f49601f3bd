"""The configuration files of rheos-backend-tf, found by Hydra and never imported by Rheos."""
