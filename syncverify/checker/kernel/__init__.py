"""TRUSTED: accepts or rejects proofs of ring protocols for every size. See ``docs/kernel.md``."""

from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.proof import Proof, UnreadableError, read
from syncverify.checker.kernel.protocol import Protocol

__all__ = ["Accepted", "Proof", "Protocol", "Rejected", "UnreadableError", "accept", "read"]
