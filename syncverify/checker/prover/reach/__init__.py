"""Proofs for every size: exact runs, and repeated states between them. See ``docs/symbolic.md``."""
