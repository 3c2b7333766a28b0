"""Meetings that all steps of a tile but its first attend: they are counted by a function of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from benchmarks.checker.kernel_accepts import of_menu
from syncverify.checker.induction.assemble import Assembly
from syncverify.checker.induction.read import TilesText
from syncverify.checker.kernel.linear import apply
from syncverify.checker.kernel.protocol import Kind, Loop, N, Op, Protocol, Tiles, U
from syncverify.checker.prover.rings.by_induction import protocols
from tests.checker.induction.acceptance import PLAIN, Answer, answered, of_ptx, of_text, refuted
from tests.checker.induction.bases import IR, PTX_FACTS
from tests.checker.induction.test_read import posed
from tests.checker.induction.test_turns import persistent

MEET = "      if i > 0 {\n        bar.sync 1, 64\n      }\n"
SIZES = [{"B": 1, "T": 2, "N": n} for n in (1, 2, 3)]


def tiles(meet: str) -> str:
    """Tiles of N steps, whose two consumers meet."""
    text = IR["tiles"].text
    release = "      mbarrier.arrive empty[n % 3]\n"
    for old, new in (
        ("block [64]", "block [96]"), ("empty[s], 32", "empty[s], 64"),
        ("math warps 1..2", "math warps 1..3"), (release, meet + release),
    ):  # fmt: skip
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def compiled(threads: int = 32) -> str:
    """The compiled ring in tiles, whose consumer meets in all steps but the first of a tile."""
    wait, register = "\t@%p9 bra \t$L__BB0_6;\n", ".pred \t%p<20>"
    meet = f"\tsetp.gt.s32 \t%p20, %r95, 0;\n\t@%p20 bar.sync \t1, {threads};\n"
    text = persistent()
    assert text.count(wait) == text.count(register) == 1
    return text.replace(wait, wait + meet).replace(register, ".pred \t%p<21>")


def meetings(p: Protocol) -> list[Op]:
    """What is met at in the steps of tiles."""
    loops = [q for r in p.roles for x in r.body if isinstance(x, Tiles) for q in x.body]
    return [op for q in loops if isinstance(q, Loop) for op in q.body if op.kind is Kind.SYNC]


def test_they_are_counted_without_the_first_steps() -> None:
    (p,) = protocols(posed(tiles(MEET)))
    met = meetings(p)
    assert met and {op.index for op in met} == {N - apply("P", U) - 1 + apply("P_fewer", U)}
    (p,) = protocols(posed(tiles("      bar.sync 1, 64\n")))
    assert {op.index for op in meetings(p)} == {N} and p.prefix == ("P",)


def test_they_are_not_where_a_tile_may_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """There the function would fall."""
    real = Assembly.tiles

    def some_empty(self: Assembly) -> dict[str, list[TilesText]]:
        return {f: [replace(t, full=False) for t in some] for f, some in real(self).items()}

    monkeypatch.setattr(Assembly, "tiles", some_empty)
    (p,) = protocols(posed(tiles(MEET)))
    assert {op.index for op in meetings(p)} == {N} and p.prefix == ("P",)


WRONG = {
    "one also meets in the first step": MEET.replace("i > 0", "i + warp > 1"),
    "one does not meet": MEET.replace("i > 0", "i * (2 - warp) > 0"),
    "one begins a step later": MEET.replace("i > 0", "i > warp - 1"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_not_accepted(what: str) -> None:
    text = tiles(WRONG[what])
    assert refuted(text, sizes=SIZES)
    found = of_text(text)
    assert not found.accepted and found.cause != "no kernel", found


def test_a_barrier_of_other_threads_is_not_accepted() -> None:
    assert not of_ptx(compiled(64), PTX_FACTS).accepted


def _of_menu(stage: str) -> Answer:
    problem = of_menu("64x128p+", stage)
    assert problem is not None
    return answered(problem, PLAIN)


def test_a_product_is_read_in_cases_of_its_steps() -> None:
    """No claim fits tiles of any number of steps: it says too little of those that come to no loop."""
    problem = of_menu("64x128p+", "ir")
    assert problem is not None
    assert {"P_fewer" in p.prefix for p in protocols(problem)} == {False, True}


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        partial(of_text, tiles(MEET)),
        partial(of_ptx, compiled(), PTX_FACTS),
        partial(_of_menu, "ir"),
        partial(_of_menu, "ptx"),
    ],
    ids=["IR", "PTX", "product, IR", "product, PTX"],
)
def test_they_are_accepted(answer: Callable[[], Answer]) -> None:
    found = answer()
    assert found.accepted, found
    assert any("P_fewer" in p.prefix for p, _ in found.known)


def halves(barrier: str, parted: bool = True) -> str:
    """Halves of each warp come to a barrier at sites of their own, or at one."""
    way = f"    {barrier} 1, 64\n"
    met = f"  if lane < 16 {{\n{way}  }} else {{\n{way}  }}\n" if parted else way
    return (
        "kernel halves {\n  launch grid [1] block [64]\n  param N : i32 = 2\n  assume N >= 1\n"
        f"{met}  for i in 0..N {{\n    bar.sync 2, 64\n  }}\n}}\n"
    )


#: A half of a warp arrives at two barriers in the other order: each of the two sites is one.
SWAPPED = halves("bar.sync", parted=False).replace(
    "    bar.sync 1, 64\n",
    "  if warp == 0 {\n    bar.sync 1, 64\n    bar.sync 3, 64\n  } else {\n    for j in 0..2 {\n"
    "      if (j + lane // 16) % 2 == 0 {\n        bar.arrive 1, 64\n      } else {\n"
    "        bar.arrive 3, 64\n      }\n    }\n  }\n",
)


@pytest.mark.parametrize("text", [halves("bar.sync"), SWAPPED], ids=["two sites", "another order"])
def test_an_aligned_barrier_is_executed_by_a_warp_as_one(text: str) -> None:
    assert not of_text(text).accepted and refuted(text, sizes=[{"N": 1}])


@pytest.mark.parametrize("text", [halves("barrier.sync"), halves("bar.sync", parted=False)])
def test_halves_of_a_warp_meet_where_nothing_is_aligned_or_at_one_site(text: str) -> None:
    assert of_text(text).accepted
