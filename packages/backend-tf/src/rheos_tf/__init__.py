"""The TensorFlow backend of Rheos."""
