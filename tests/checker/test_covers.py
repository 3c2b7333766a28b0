"""Footprints entered by covers: whoever touches only the gaps does not meet them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import pytest

from syncverify.checker import check
from syncverify.diagnostics import Verdict
from syncverify.model.events import (
    Agent,
    Ev,
    Event,
    Footprint,
    LaneSplit,
    Site,
    System,
    SystemInfo,
    ThreadClass,
)
from syncverify.source import Span


@dataclass
class Script:
    """An agent that emits what it is told."""

    cls: int
    events: Sequence[Event]
    at: int = 0

    def step(self, answer: int = 0) -> Event:
        self.at += 1
        return self.events[self.at - 1]

    def fork(self) -> Script:
        return Script(self.cls, self.events, self.at)

    def snapshot(self) -> Hashable:
        return (self.cls, self.at)

    normalize = snapshot


@dataclass
class Scripts:
    """Warps of one lane each, without any synchronization."""

    footprints: list[Footprint]
    events: Sequence[Sequence[Event]]
    info: SystemInfo = field(init=False)

    def __post_init__(self) -> None:
        warps = len(self.events)
        self.info = SystemInfo(
            "scripts", "s", {}, (0, 0, 0), 1, warps, 32 * warps, None,
            [ThreadClass(0, w, 1) for w in range(warps)],
            footprints=self.footprints, sites=[Site(Span("s", i + 1), f"line {i}") for i in range(8)],
        )  # fmt: skip

    def agents(self) -> Sequence[Agent]:
        return [Script(i, e) for i, e in enumerate(self.events)]

    def refined(self, split: LaneSplit) -> System:
        raise AssertionError("scripts never split")


SCATTERED = Footprint(0, ((0, 32), (128, 160), (256, 288)), cover=((0, 288),))
EXIT = (Ev.EXIT, 7)


def verdict(write: Footprint, read_first: bool) -> Verdict:
    reader = [(Ev.READ, 0, 0, -1), EXIT]
    writer = [(Ev.WRITE, 1, 1), EXIT]
    return check(Scripts([SCATTERED, write], [reader, writer] if read_first else [writer, reader])).verdict


@pytest.mark.parametrize("read_first", [True, False])
@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        (((32, 128),), Verdict.PROVED),
        (((32, 64), (160, 256)), Verdict.PROVED),
        (((288, 320),), Verdict.PROVED),
        (((31, 64),), Verdict.REFUTED),
        (((100, 200),), Verdict.REFUTED),
        (((40, 50), (287, 300)), Verdict.REFUTED),
        (((0, 512),), Verdict.REFUTED),
    ],
)
def test_gaps(intervals: tuple[tuple[int, int], ...], expected: Verdict, read_first: bool) -> None:
    assert verdict(Footprint(0, intervals), read_first) == expected


def test_two_covers_that_only_overlap_outside_their_bytes() -> None:
    other = Footprint(0, ((32, 64), (160, 192)), cover=((32, 192),))
    assert verdict(other, read_first=True) == Verdict.PROVED
