"""Systems whose agents emit given events: for what no kernel text of the IR can say."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from syncverify.base.source import Span
from syncverify.model.events import (
    Agent,
    Event,
    Footprint,
    LaneSplit,
    Site,
    System,
    SystemInfo,
    ThreadClass,
)


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
    """A block whose classes do what they are told."""

    footprints: list[Footprint]
    events: Sequence[Sequence[Event]]
    classes: Sequence[ThreadClass] | None = None  # by default lane 0 of a warp each
    info: SystemInfo = field(init=False)

    def __post_init__(self) -> None:
        classes = list(self.classes or [ThreadClass(0, w, 1) for w in range(len(self.events))])
        warps = 1 + max(c.warp for c in classes)
        self.info = SystemInfo(
            "scripts", "s", {}, (0, 0, 0), 1, warps, 32 * warps, None,
            classes,
            footprints=self.footprints, sites=[Site(Span("s", i + 1), f"line {i}") for i in range(8)],
            maps=["m"],
        )  # fmt: skip

    def agents(self) -> Sequence[Agent]:
        return [Script(i, e) for i, e in enumerate(self.events)]

    def refined(self, split: LaneSplit) -> System:
        raise AssertionError("scripts never split")
