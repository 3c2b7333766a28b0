"""UNTRUSTED: searches for proofs that ``checker.kernel`` accepts. Nothing here can make a verdict wrong."""
