"""An algorithm of my own for Rheos: REINFORCE."""
