"""The cards that products are chosen for: coefficients of the model of their time (``matmul.cost``).

Fitted by ``benchmarks/hardware/matmul_fit.py`` to measured launches; docs/choice.md tells to which, and how
far they are off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.matmul.cost import Coefficients


@dataclass(frozen=True)
class Card:
    """A card by a part of its name, as the driver gives it. ``trees``: the file of what the formula with
    these coefficients is off by (``matmul.estimate``); ``more``: of what these leave on this card. ``fours``:
    clusters of four that run at one time, where the card was asked (``cost.Processors``). ``crowded``: the
    factor of the time of launches of 16 such clusters that memory limits (``estimate``)."""

    name: str
    coefficients: Coefficients
    trees: Path | None = None
    more: Path | None = None
    fours: int | None = None
    crowded: float = 1.0


#: Shared memory of a block that has an SM for itself.
BLOCK_BYTES = 160 * 1024
TREES, H100_TREES = (Path(__file__).with_name(f"{name}.trees") for name in ("h200", "h100"))


H200 = Card(
    "H200",
    Coefficients(
        clock=2000, products=1.426, operands=0.5, row=0.7167, crossing=2.5, filled=1.936,
        latency=1941, idle=0.568, end=100, stored=0.05718, ragged=0.6619, turned=1.419,
        beside=0.6931, restart=2478, cluster_restart=1993, hand_over=3181, each=171.5, sum=0.0898,
        memory=0.2921, launch=1.802, cluster_launch=0.4529, dependent=0, long=1.019, cluster=1.002,
        one=1.201, three=0.9743, pending=0.85, split=0.9952, pace=6.342, whole=3.411,
        tiles={
            "128x128/1x2": 0.9375, "128x128/2": 0.9229, "128x160/2": 1.022, "128x192/2": 0.9705,
            "128x224/2": 1.007, "128x256/2": 0.9594, "128x64/1x2": 0.9576, "128x64/2": 1.118,
            "128x96/1x2": 0.9137, "128x96/2": 1.016, "192x128/3": 0.9677, "192x160/3": 0.9982,
            "192x192/3": 0.9988, "192x64/3": 1.053, "192x96/3": 0.9857, "256x128/2": 0.9707,
            "256x160/2": 0.9891, "256x192/2": 0.9872, "256x64/2": 1.097, "256x96/2": 0.9769,
            "64x128/1": 0.9275, "64x128/1x2": 0.7878, "64x160/1": 1.256, "64x160/1x2": 1.061,
            "64x192/1": 1.095, "64x192/1x2": 1.015, "64x256/1": 0.9938, "64x32/1": 0.9973,
            "64x32/1x2": 1.004, "64x64/1": 1.068, "64x64/1x2": 0.9795, "64x64/1x3": 0.9207,
            "64x96/1": 1.26, "64x96/1x2": 0.9797, "64x224/1": 1.026,
        },
    ),
    TREES,
    crowded=1.35,
)  # fmt: skip
#: The same, with the bandwidth of its memory (a copy moves 3.0 TB/s instead of 4.25).
_OF_H100 = replace(H200.coefficients, memory=H200.coefficients.memory * 4.25 / 3.0)
H100 = Card("H100", _OF_H100, TREES, H100_TREES)
CARDS = (H200, H100)


def card_of(name: str) -> Card:
    """The card of a device's name; an H200 for others."""
    return next((c for c in CARDS if c.name in name), H200)


@lru_cache(maxsize=1)
def here() -> Card:
    """The card of this machine's first device; an H200 where there is none."""
    if not driver.available():
        return H200
    card = card_of(driver.device_name(0))
    try:
        return replace(card, fours=driver.clusters_at_once(0, 4, BLOCK_BYTES))
    except InputError:  # a driver that does not tell: the card is taken for one of those that were measured
        return card


__all__ = ["CARDS", "H100", "H200", "Card", "card_of", "here"]
