"""Runs: from settings to a folder of results, and from there back to a policy that acts."""
