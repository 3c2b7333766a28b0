"""Simulators: oracles that share no semantics with the checker."""
