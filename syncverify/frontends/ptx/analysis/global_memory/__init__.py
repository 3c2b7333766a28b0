"""Accesses to global memory: which pointers they go by, and copies from there."""
