"""Normal forms: what they drop makes no difference, and what they keep does."""

from __future__ import annotations

from math import lcm
from pathlib import Path

import pytest

from syncverify.frontends.ir.agent_canonical import periods
from syncverify.frontends.ir.code_text import ENTRY, FIRST_REGISTER, PC, QUEUED
from syncverify.frontends.ir.systems import IrAgent, IrSystem, systems
from syncverify.ir.expr import Binary, Call, Expr, Int, Var
from syncverify.ir.text.parser import parse_file
from tests.frontends.ir.helpers import only, run

CORPUS = sorted(Path(__file__).parents[3].glob("corpus/**/*.syncir"))

COUNTERS = """
  let k = 0
  let q = 0
  for t in 0..20 {
    mbarrier.wait full[k % 3], (k // 3) % 2
    bar.sync (q >> 1) & 3, 32
    k = k + 1
    q = q + 3
    let dead = k * 7
    let twice = dead + 1
  }
"""


def slots(agent: IrAgent, pc: int) -> dict[int, int | None]:
    return dict(agent.code.kept(pc))


def test_counters_are_kept_modulo_their_period() -> None:
    system = only(COUNTERS, "launch grid [1] block [1]\n mbarrier full[3]")
    agent = system.agents()[0]
    for _ in range(5):
        agent.step()
    kept = slots(agent, agent.r[PC])
    names = {slot: name for name, slot in agent.code.slots.items()}
    shown = {names[s].split("@")[0]: p for s, p in kept.items() if s in names}
    assert shown == {"k": 6, "q": 8, "t": None}


def perturbed(agent: IrAgent, by: int) -> IrAgent:
    """A copy whose registers differ only in what the normal form does not show."""
    twin = agent.fork()
    kept = slots(agent, twin.r[PC])
    for slot in range(FIRST_REGISTER, len(twin.r)):
        period = kept.get(slot, 1)
        if period is not None and isinstance(twin.r[slot], int):
            twin.r[slot] += by * period
    return twin


@pytest.mark.parametrize("path", CORPUS[::3], ids=[p.name for p in CORPUS[::3]])
def test_equal_normal_forms_go_on_alike(path: Path) -> None:
    for kernel in parse_file(path):
        found = next(iter(systems(kernel, {})))
        assert isinstance(found, IrSystem)
        for agent in found.agents()[-3:]:
            for at in range(40):
                if agent.r[PC] != QUEUED and at % 7 == 0:
                    twin = perturbed(agent, 1 + at % 3)
                    assert twin.normalize() == agent.normalize()
                    assert run(twin, 1) == run(agent.fork(), 1)
                if agent.step(1)[0] <= 2:
                    break


def test_different_futures_have_different_normal_forms() -> None:
    agent = only(COUNTERS, "launch grid [1] block [1]\n mbarrier full[3]").agents()[0]
    forms: dict[object, object] = {}
    while True:
        form = agent.normalize()
        future = tuple(run(agent.fork()))
        assert forms.setdefault(form, future) == future
        if agent.step()[0] <= 2:
            break
    assert len(set(forms.values())) == len(forms)


def test_a_fresh_agent_keeps_nothing_that_is_set_before_use() -> None:
    agent = only(COUNTERS, "launch grid [1] block [1]\n mbarrier full[3]").agents()[0]
    assert agent.r[PC] == ENTRY
    assert agent.normalize() == (0, ENTRY, ())


x, y = Var("x"), Var("y")
PERIODS: list[tuple[list[Expr], int | None]] = [
    ([x], None),
    ([Binary("%", x, Int(6))], 6),
    ([Binary("%", x, Int(6)), Binary("%", x, Int(4))], 12),
    ([Binary("%", Binary("//", x, Int(4)), Int(2))], 8),
    ([Binary("%", Binary("*", x, Int(4)), Int(6))], 3),
    ([Binary("%", Binary("+", x, Binary("*", y, y)), Int(5))], 5),
    ([Binary("&", x, Int(7))], 8),
    ([Binary("&", x, Int(6))], None),
    ([Binary("%", Binary(">>", x, Int(3)), Int(2))], 16),
    ([Binary("<", Binary("%", x, Int(3)), y)], 3),
    ([Binary("<", x, y)], None),
    ([Binary("%", Call("min", (x, y)), Int(3))], None),
    ([Binary("//", Int(8), Binary("%", x, Int(3)))], 3),
    ([Binary("%", Binary("%", x, Int(5)), Int(3))], 5),
    ([], 1),
]


@pytest.mark.parametrize(("exact", "expected"), PERIODS)
def test_period(exact: list[Expr], expected: int | None) -> None:
    step = Binary("+", x, Int(1))
    assert periods(exact, {"x": [Int(0), step]})["x"] == expected


def test_periods_flow_through_registers() -> None:
    found = periods(
        [Binary("%", y, Int(4))],
        {"x": [Int(0), Binary("+", x, Int(1))], "y": [Binary("//", x, Int(3))], "z": [Binary("+", y, x)]},
    )
    assert found == {"x": lcm(3 * 4), "y": 4, "z": 1}
