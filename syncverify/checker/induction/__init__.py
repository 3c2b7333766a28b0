"""TRUSTED: from a system of agents to its protocol, by induction over its loops. See ``docs/kernel.md``."""
