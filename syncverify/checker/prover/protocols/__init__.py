"""The deductive prover of ring protocols. See ``docs/kernel.md``."""

from syncverify.checker.prover.protocols.claims import NotFoundError
from syncverify.checker.prover.protocols.prove import Proved, prove, search

__all__ = ["NotFoundError", "Proved", "prove", "search"]
