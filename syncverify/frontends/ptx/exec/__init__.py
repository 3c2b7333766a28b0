"""The agents that run compiled functions, and the systems of a launch."""
