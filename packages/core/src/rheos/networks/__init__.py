"""Networks as specs, their weights by canonical name, and a forward pass in NumPy."""
