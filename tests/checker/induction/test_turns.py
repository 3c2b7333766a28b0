"""Compiled rings whose loop stands in a loop over turns, and registers of which lanes are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from syncverify.checker.induction.claims import Claim, Header
from syncverify.checker.induction.read import Reader
from syncverify.checker.induction.stepping import Leaf, NotReadError
from syncverify.model.events import LANES_APART
from syncverify.symbolic.context import SymbolicContext
from tests.checker.induction.acceptance import of_ptx
from tests.checker.induction.bases import BEGUN, ENDED, PTX, PTX_FACTS, until_bytes

LOADS = "mov.u32 \t%r100, %r98;\n\n$L__BB0_10:\n"
LOADED = "\t@%p17 bra \t$L__BB0_10;\n"
ARRIVES = "\tmbarrier.arrive.shared::cta.b64 _, [%r59], %r60;\n"


def turned(begun: str, ended: str, counter: str, turn: str, label: str) -> tuple[str, str]:
    """A loop of B turns around a loop over N steps, which each turn asks of again."""
    head, loop = begun.rsplit("\n\n", 1)
    before = (
        f"{head}\n\tmov.u32 \t{turn}, 0;\n\tld.param.u32 \t%r112, [ring_param_2];\n\n${label}_turn:\n"
        f"\tsetp.lt.s32 \t%p18, %r20, 1;\n\t@%p18 bra \t${label}_over;\n\tmov.u32 \t{counter}, 0;\n\n{loop}"
    )
    behind = (
        f"{ended}\n${label}_over:\n\tadd.s32 \t{turn}, {turn}, 1;\n\tsetp.lt.s32 \t%p19, {turn}, %r112;\n"
        f"\t@%p19 bra \t${label}_turn;\n"
    )
    return before, behind


def persistent() -> str:
    """B blocks of B turns with N steps each; no turn begins with slot 0 again."""
    text = PTX.replace("%p<18>", "%p<20>").replace("%r<101>", "%r<114>")
    for begun, ended, counter, turn, label in (
        (BEGUN, ENDED, "%r95", "%r110", "math"),
        (LOADS, LOADED, "%r98", "%r111", "load"),
    ):
        before, behind = turned(begun, ended, counter, turn, label)
        assert begun in text and ended in text
        text = text.replace(begun, before).replace(ended, behind)
    return text


MISTAKES = {
    "a turn begins with the first slot again": ("$math_turn:\n", "$math_turn:\n\tmov.u32 \t%r97, 0;\n"),
    "a turn begins with the first phase again": ("$load_turn:\n", "$load_turn:\n\tmov.u32 \t%r99, 0;\n"),
    "nothing is released": (ARRIVES, ""),
    "one turn less is consumed": ("mov.u32 \t%r110, 0;", "mov.u32 \t%r110, 1;"),
}


def test_turns_that_ask_for_the_number_of_steps_again_are_accepted() -> None:
    found = of_ptx(persistent(), PTX_FACTS)
    assert found.accepted, found


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=[pytest.mark.slow] if "less" in x else []) for x in MISTAKES]
)
def test_a_mistake_is_not_accepted(what: str) -> None:
    old, new = MISTAKES[what]
    text = persistent()
    assert old in text
    found = of_ptx(text.replace(old, new), PTX_FACTS)
    assert not found.accepted and found.cause != "no kernel", found


@pytest.mark.parametrize(("more", "accepted"), [(0, True), (256, False), (128, False)])
def test_loops_that_go_on_until_their_bytes_are_as_many_as_asked(more: int, *, accepted: bool) -> None:
    """The consumer takes so many bytes more: a step more, which nobody loads, or half of one."""
    assert of_ptx(until_bytes(more), PTX_FACTS).accepted is accepted


def last_turn_is_short(steps: str = "2") -> str:
    """The last turn has another number of steps, which each turn of the inner loop chooses anew."""
    text = persistent().replace("%p<20>", "%p<24>").replace("%r<114>", "%r<124>")
    for asks, turn, n, p in (
        ("setp.lt.s32 \t%p11, %r95, %r20;", "%r110", "%r120", "%p20"),
        ("setp.lt.s32 \t%p17, %r98, %r20;", "%r111", "%r121", "%p21"),
    ):
        chosen = (
            f"add.s32 \t{n}, {turn}, 1;\n\tsetp.lt.s32 \t{p}, {n}, %r112;\n"
            f"\tselp.b32 \t{n}, %r20, {steps if turn == '%r110' else '2'}, {p};\n\t"
        )
        assert asks in text
        text = text.replace(asks, chosen + asks.replace("%r20", n))
    return text


def test_tiles_have_steps_by_what_their_loop_asks_about_them() -> None:
    found = of_ptx(last_turn_is_short(), PTX_FACTS)
    assert found.accepted, found


def test_numbers_of_steps_that_differ_between_roles_are_not_accepted() -> None:
    found = of_ptx(last_turn_is_short("3"), PTX_FACTS)
    assert not found.accepted and found.cause != "no kernel", found


@dataclass
class _Agent:
    """Stands at a header; its lanes hold ``apart`` more than the first one."""

    apart: tuple[int, ...]

    def point(self) -> int:
        return 7

    def live(self) -> dict[Any, Any]:
        return {5: 0, (LANES_APART, 5): self.apart}

    def put(self, slot: Any, value: Any) -> None:
        """Nothing of it changes."""


def test_lanes_are_apart_by_the_same_numbers_in_all_turns() -> None:
    space = SymbolicContext()
    header = Header(7, False, None, False, {(0, 0): {}})
    reader = Reader(space, space.path, Claim(1, 1, (header,)))

    def arrives(*apart: int) -> None:
        reader.arrive(Leaf(_Agent(apart), space.path.fork()), header, 0, 0, 0)

    arrives(0, 4)
    arrives(0, 4)
    with pytest.raises(NotReadError, match="apart"):
        arrives(0, 8)
