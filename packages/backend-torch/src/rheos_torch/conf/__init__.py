"""The configuration files of rheos-backend-torch, found by Hydra and never imported by Rheos."""
