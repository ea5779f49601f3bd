"""DQN and its family for Rheos: double, dueling, n-step, prioritised, noisy, distributional, and Ape-X."""
