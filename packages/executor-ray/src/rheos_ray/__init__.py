"""The Ray executor of Rheos: the same program on many processes and machines."""
