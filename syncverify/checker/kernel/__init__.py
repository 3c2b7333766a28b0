"""Trusted: what accepts proofs. It imports the model, nothing else of the checker."""
