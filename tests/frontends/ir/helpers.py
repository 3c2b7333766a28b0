"""Kernels from text, and the events of one class, readable."""

from __future__ import annotations

from typing import Any

from syncverify.frontends.ir.systems import IrAgent, IrSystem, systems
from syncverify.ir.text.parser import parse
from syncverify.model.events import Ev, Event

LIMIT = 20_000


def build(body: str, header: str = "", **values: int) -> list[IrSystem]:
    """The systems of a one-kernel text; every one analysable."""
    (kernel,) = parse(f"kernel k {{\n{header}\n{body}\n}}\n")
    found = list(systems(kernel, values))
    assert all(isinstance(s, IrSystem) for s in found), found
    return [s for s in found if isinstance(s, IrSystem)]


def only(body: str, header: str = "", **values: int) -> IrSystem:
    (system,) = build(body, header, **values)
    return system


def run(agent: IrAgent, answer: int = 0) -> list[Event]:
    """Every event up to the end, the same answer to all."""
    out: list[Event] = []
    while len(out) < LIMIT:
        out.append(agent.step(answer))
        if out[-1][0] in (Ev.EXIT, Ev.UNKNOWN):
            return out
    raise AssertionError("the agent does not end")


def streams(system: IrSystem, answer: int = 0) -> dict[str, list[tuple[Any, ...]]]:
    """Per class name: its events without sites."""
    return {
        system.info.classes[a.cls].name: [(e[0].name, *e[2:]) for e in run(a, answer)]
        for a in system.agents()
    }


def one_lane(body: str, header: str = "", answer: int = 0) -> list[tuple[Any, ...]]:
    """The events of a block of one thread."""
    (events,) = streams(only(body, f"launch grid [1] block [1]\n{header}"), answer).values()
    return events
