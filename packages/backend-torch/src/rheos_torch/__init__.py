"""The PyTorch backend of Rheos."""
