"""The array namespace over which losses, targets and distributions are written once."""
