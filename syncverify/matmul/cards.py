"""The cards that products are chosen for: coefficients of the model of their time (``matmul.cost``).

Fitted by ``benchmarks/hardware/matmul_fit.py`` to measured launches; docs/matmul.md tells to which, and how
far they are off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from syncverify.codegen import driver
from syncverify.matmul.cost import Coefficients


@dataclass(frozen=True)
class Card:
    """A card by a part of its name, as the driver gives it."""

    name: str
    coefficients: Coefficients


H200 = Card(
    "H200",
    Coefficients(
        clock=2000, products=1.442, operands=0.5, row=0.7415, crossing=2.5, filled=1.858,
        latency=2011, idle=0.5095, end=100, stored=0.06007, ragged=0.5898, beside=0.6674,
        restart=1649, cluster_restart=2820, hand_over=3289, each=197.7, sum=0.08781, memory=0.2915,
        launch=1.728, cluster_launch=0.5455, dependent=0, long=1.027, cluster=0.9953,
        one=1.236, three=0.9718, pending=0.85, split=0.9866, pace=7.028, whole=3.467,
        tiles={
            "128x128/1x2": 0.9139, "128x128/2": 0.9235, "128x160/2": 1.025, "128x192/2": 0.9695,
            "128x224/2": 1.008, "128x256/2": 0.9527, "128x64/1x2": 0.9692, "128x64/2": 1.105,
            "128x96/1x2": 0.9457, "128x96/2": 1.037, "192x128/3": 0.9676, "192x160/3": 0.9992,
            "192x192/3": 0.9925, "192x64/3": 1.047, "192x96/3": 0.996, "256x128/2": 0.9665,
            "256x160/2": 0.9849, "256x192/2": 0.9795, "256x64/2": 1.125, "256x96/2": 0.9696,
            "64x128/1": 0.9035, "64x128/1x2": 0.8098, "64x160/1": 1.203, "64x160/1x2": 1.057,
            "64x192/1": 1.09, "64x192/1x2": 0.9927, "64x256/1": 0.9908, "64x32/1": 0.999,
            "64x32/1x2": 1.002, "64x64/1": 1.135, "64x64/1x2": 0.9944, "64x64/1x3": 0.9254,
            "64x96/1": 1.256, "64x96/1x2": 0.9839,
        },
    ),
)  # fmt: skip
#: Not measured yet: the same, with the bandwidth of its memory (a copy moves 3.0 TB/s instead of 4.25).
H100 = Card("H100", replace(H200.coefficients, memory=H200.coefficients.memory * 4.25 / 3.0))
CARDS = (H200, H100)


def card_of(name: str) -> Card:
    """The card of a device's name; an H200 for others."""
    return next((c for c in CARDS if c.name in name), H200)


@lru_cache(maxsize=1)
def here() -> Card:
    """The card of this machine's first device; an H200 where there is none."""
    return card_of(driver.device_name(0)) if driver.available() else H200


__all__ = ["CARDS", "H100", "H200", "Card", "card_of", "here"]
