"""A rank that no block of the cluster has, as a finding says it: a text that carries its numbers.

The finding's advice is not that of an index outside of a buffer. Code asks for the type, never for the words.
"""

from __future__ import annotations

from typing import Self


class AbsentBlock(str):
    """What a finding says of a rank that a cluster of so many blocks lacks."""

    rank: int
    blocks: int

    def __new__(cls, rank: int, blocks: int) -> Self:
        made = super().__new__(cls, f"rank {rank} is no CTA of the cluster, which has {blocks}")
        made.rank, made.blocks = rank, blocks
        return made

    @property
    def advice(self) -> str:
        """What to do about it."""
        ranks = f"{self.blocks} blocks, of ranks 0 to {self.blocks - 1}"
        has = ranks if self.blocks > 1 else "one block, of rank 0"
        return f"the cluster has {has}: map the address to one of them, or launch clusters of more blocks"


__all__ = ["AbsentBlock"]
