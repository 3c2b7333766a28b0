"""TRUSTED: accepts or rejects proofs of ring protocols for every size. See ``docs/kernel.md``."""
