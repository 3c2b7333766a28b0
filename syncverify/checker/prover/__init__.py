"""Untrusted: proofs for every size. Whatever it finds, others accept."""
