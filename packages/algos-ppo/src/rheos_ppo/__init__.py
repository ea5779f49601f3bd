"""Proximal policy optimisation for Rheos."""
