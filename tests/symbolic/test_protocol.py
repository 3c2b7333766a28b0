"""What the prover may ask of an agent stands in one protocol, and a front end need not answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from syncverify.frontends.ir.systems import IrAgent, IrSystem
from syncverify.frontends.ptx.exec.agent import PtxAgent
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.model.events import Ev, Event
from syncverify.symbolic.protocol import SymbolicAgent, SymbolicSystem

PACKAGE = Path(__file__).parents[2] / "syncverify"
#: Attributes of values that are read by name: a term or anything else; registers by lane or of all lanes.
OF_VALUES = {("symbolic/path_condition.py", "parts"), ("checker/induction/read.py", "lanes")}


class Bare(SymbolicAgent):
    """An agent that says nothing of its registers."""

    def __init__(self) -> None:
        self.cls = self.progress = 0

    def step(self, answer: int = 0) -> Event:
        return (Ev.EXIT, 0)

    def fork(self) -> Bare:
        return Bare()

    def snapshot(self) -> int:
        return 0

    normalize = place = snapshot

    def point(self) -> tuple[int]:
        return (0,)

    def live(self) -> dict[str, int]:
        return {}

    iterations = live

    def put(self, slot: object, value: object) -> None: ...

    def move(self, answer: int = 0) -> Event | None:
        return None


def test_by_default_nothing_is_known_of_registers() -> None:
    agent = Bare()
    registers = (
        agent.input_registers, agent.boolean_registers, agent.loop_invariant_registers,
        agent.rotation_invariant_registers, agent.iteration_counters, agent.per_cluster_symbols,
    )  # fmt: skip
    assert not any(registers)
    assert (agent.may_take_another_iteration, agent.shares, agent.lockstep_memo()) == (False, False, None)
    assert agent.step_in_lockstep(0, None) == agent.step()


@pytest.mark.parametrize("agent", [IrAgent, PtxAgent])
def test_agents_of_front_ends_declare_what_they_are(agent: type) -> None:
    """They derive from the protocol, so that a misspelt attribute is none; they have slots and no more."""
    assert SymbolicAgent in agent.__mro__
    assert agent.__dictoffset__ == 0


@pytest.mark.parametrize("system", [IrSystem, PtxSystem])
def test_systems_of_front_ends_derive_from_the_protocol(system: type) -> None:
    assert SymbolicSystem in system.__mro__


def read_by_name(tree: ast.AST) -> Iterator[str]:
    """Attributes that a module reads with ``getattr`` and a name that it writes down."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name)), *_]):
                yield name


def test_the_checker_reads_no_attribute_by_its_name() -> None:
    assert list(read_by_name(ast.parse("getattr(t.agent, 'speed', 0)"))) == ["speed"]
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for room in ("checker", "symbolic", "model", "driver")
        for path in (PACKAGE / room).rglob("*.py")
        for name in read_by_name(ast.parse(path.read_text("utf-8")))
    }
    assert found == OF_VALUES
