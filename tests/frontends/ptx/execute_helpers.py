"""Kernels from a few lines of PTX, and the events that their agents emit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.values.register_values import Unknown
from syncverify.model.elected_lane import ElectedLane
from syncverify.model.events import Ev, Event

#: What a PTX file begins with.
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = """
    .reg .pred %p<20>;
    .reg .b16 %rs<20>;
    .reg .b32 %r<60>;
    .reg .b64 %rd<40>;
    .reg .f32 %f<30>;
    .reg .b64 %state;
"""


def module_text(body: str, params: str = ".param .u32 k_n", outside: str = "", bounds: str = "") -> str:
    """A PTX file with one kernel ``k``; ``bounds``: what stands between its head and its body."""
    return f"""
{HEAD}{outside}
.visible .entry k({params}) {bounds}
{{{REGISTERS}
{body}
}}
"""


def function(body: str, **more: str) -> Function:
    """The kernel of a body."""
    return parse(module_text(body, **more), "k.ptx").entries[0]


def system(
    body: str,
    threads: int = 32,
    values: Mapping[str, int] | None = None,
    cluster: int = 1,
    elected: int = 0,
    grid: tuple[int, int, int] | None = (1, 1, 1),
    **more: str,
) -> PtxSystem:
    """A launch; ``values``: parameters by name, the others are unknown."""
    module = parse(module_text(body, **more), "k.ptx")
    known = values or {}
    missing: dict[str, Unknown] = {}

    def parameter(name: str, offset: int, type_: str) -> Any:
        return known.get(name, missing.setdefault(name, Unknown(name, "param", ("param", name))))

    launch = Launch((threads, 1, 1), (cluster, 1, 1), grid, None, None, parameter)
    where = 0 if grid == (cluster, 1, 1) or grid == (1, 1, 1) else None
    return PtxSystem.fresh(Program(module, module.entries[0]), launch, where, ElectedLane(elected))


def events(of: PtxSystem, cls: int = 0, answer: int = 0, limit: int = 200) -> list[Event]:
    """The events of one class that runs alone, every wait passing, without their sites."""
    agent = of.agents()[cls]
    out: list[Event] = []
    for _ in range(limit):
        e = agent.step(answer)
        if e[0] == Ev.EXIT:
            return out
        out.append((e[0].name, *e[2:]))
        if e[0] == Ev.UNKNOWN:
            return out
    raise AssertionError("the agent does not come to an end")


def value(instructions: str, register: str = "%r0", threads: int = 32, **more: Any) -> list[int]:
    """What each lane of warp 0 holds in a register after some instructions: as the counts of barriers."""
    body = f"""
    .shared .align 8 .b8 bar[8];
    {instructions}
    add.u32 %r59, {register}, 1;
    mbarrier.init.shared::cta.b64 [bar], %r59;
    ret;
    """
    s = system(body, threads, **more)
    lanes: dict[int, int] = {}
    for i, c in enumerate(s.info.classes):
        if c.warp == 0 and c.cta == 0:
            (event,) = [e for e in events(s, i) if e[0] == "INIT"]
            lanes |= {lane: event[2] - 1 for lane in range(32) if c.lanes >> lane & 1}
    return [lanes[i] for i in sorted(lanes)]
