"""Synchronization objects as small state machines, one module each."""
