"""Lanes of a warp: who comes to a collective, which lanes they are, and what they exchange."""
