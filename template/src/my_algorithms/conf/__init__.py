"""The configuration files, found by the command line and never imported."""
