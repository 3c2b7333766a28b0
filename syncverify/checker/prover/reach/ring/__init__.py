"""Rings of slots, and the symmetry of their rotation."""
