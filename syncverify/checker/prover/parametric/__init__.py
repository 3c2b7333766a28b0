"""Proofs for every size of a kernel, and the smallest size that refutes it."""
