"""Proofs for blocks that nothing gives: a part for each block with which an entry was proved.

A certificate says which blocks these are. It proves nothing of others, nor of a launch that has a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from syncverify.base.certificate_data import RejectedError, listed, number, take
from syncverify.driver.rechecked import Rechecked
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.launch.facts import ptx_facts
from syncverify.frontends.ptx.launch.usual_blocks import blocks_in_words
from syncverify.frontends.ptx.syntax.nodes import Module

Block = tuple[int, int, int]
#: The kind of such proofs.
BLOCKS = "blocks"


def with_block(facts: LaunchFacts, name: str, block: Block) -> LaunchFacts:
    """The facts with a block for the kernel of that name."""
    own = {**facts.tables.get(name, {}), "block": list(block)}
    return replace(facts, tables={**facts.tables, name: own})


def parts_of(
    proof: Any, where: str, module: Module, name: str, facts: LaunchFacts
) -> list[tuple[Block, Any]]:
    """The blocks of a proof with what it says of each. RejectedError where the launch has a block."""
    _, parts = take(proof, where, "kind", "parts")
    entry = next(f for f in module.entries if f.name == name)
    if ptx_facts(facts, entry, module).block is not None:
        raise RejectedError(where, "the launch has a block, and the proof is for blocks that nothing gives")
    found: list[tuple[Block, Any]] = []
    for i, part in enumerate(listed(parts, f"{where}.parts")):
        at = f"{where}.parts[{i}]"
        sides, own = take(part, at, "block", "proof")
        numbers = tuple(number(x, f"{at}.block", 1) for x in listed(sides, f"{at}.block"))
        if len(numbers) != 3 or numbers in [block for block, _ in found]:
            raise RejectedError(f"{at}.block", f"{list(numbers)} is no block, or is there twice")
        found.append(((numbers[0], numbers[1], numbers[2]), own))
    if not found:
        raise RejectedError(f"{where}.parts", "nothing is proved")
    return found


def taken(blocks: Sequence[Block]) -> str:
    """What a proof for some blocks rests on."""
    dimensions = max((i + 1 for block in blocks for i in (1, 2) if block[i] > 1), default=1)
    return f"block = {blocks_in_words([b[:dimensions] for b in blocks])}: nothing gives it"


def same_launches(parts: Sequence[Rechecked], where: str) -> None:
    """Demands that all parts are of the same launches but for the block."""
    if any((part.scope, part.values) != (parts[0].scope, parts[0].values) for part in parts):
        raise RejectedError(where, "the parts are not of the same launches")


__all__ = ["BLOCKS", "Block", "parts_of", "same_launches", "taken", "with_block"]
