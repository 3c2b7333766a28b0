"""Synchronization objects as small state machines, one module each, shared by every schedule of the checker."""
