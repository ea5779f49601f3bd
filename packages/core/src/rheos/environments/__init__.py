"""Environments: what algorithms see of them, and those that are registered with Gymnasium."""
