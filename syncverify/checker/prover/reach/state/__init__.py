"""Symbolic states: what of a run later events depend on."""
