"""Tiles whose number is a product of quotients of sizes; loops of tiles that go on until a counter is met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import syncverify
from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.checker.induction import read
from syncverify.checker.induction.program import parameters
from syncverify.checker.induction.quotients import (
    Product,
    UnnamedSizeError,
    nameable,
    unnamed,
    with_product,
)
from syncverify.checker.induction.stepping import NotReadError
from syncverify.symbolic.context import SymbolicContext
from tests.checker.induction.acceptance import of_ptx
from tests.checker.induction.tiled import COUNTED, FACTS, TILED, tiled

READS = "\tmov.u32 \t%r106, %ctaid.x;\n\tsetp.ge.s32 \t%p18, %r106, "
GOES_ON = "\tsetp.lt.s32 \t%p18, %r106, "
ENDS = (("\tadd.s32 \t%r107, %r95, %r20;\n", "%r107"), ("\tadd.s32 \t%r109, %r98, %r20;\n", "%r109"))


def _other_tiles() -> str:
    """The reader takes as many lines as columns of tiles."""
    return tiled(
        (COUNTED, COUNTED + "\tmul.lo.s32 \t%r111, %r102, %r102;\n"), (f"{READS}%r103", f"{READS}%r111"),
        (f"{GOES_ON}%r103", f"{GOES_ON}%r111"),
    )  # fmt: skip


def _one_step_less() -> str:
    """N - 1 steps in each tile; the loader makes one where N is 1, and the reader then goes on for ever."""
    fewer = [(text, text + f"\tadd.s32 \t{end}, {end}, -1;\n") for text, end in ENDS]
    return tiled(*fewer, ("setp.ne.s32 \t%p17", "setp.lt.s32 \t%p17"))


def _changed_inside() -> str:
    """Behind step 700 the reader takes a number for its tile's that is none, and releases no slot."""
    step, release = "\tadd.s32 \t%r95, %r95, 1;\n", "\tmbarrier.arrive.shared::cta.b64 _, [%r59], %r60;\n"
    return tiled(
        (ENDS[0][0], ENDS[0][0] + "\tmov.u32 \t%r113, %r106;\n"),
        (release, f"\t@%p19 {release.strip()}\n"),
        (
            "\tadd.s32 \t%r59, %r55, 792;\n",
            "\tadd.s32 \t%r59, %r55, 792;\n\tsetp.lt.s32 \t%p19, %r113, %r103;\n",
        ),
        (step, step + "\tsetp.eq.s32 \t%p19, %r95, 700;\n\t@%p19 add.s32 \t%r113, %r113, 90000;\n"),
    )


def _products_alike(patch: pytest.MonkeyPatch) -> None:
    """All products with one size are the same."""
    first: dict[tuple[int, int], int] = {}
    real = SymbolicContext._product

    def product(self: SymbolicContext, a: int, b: int) -> int:
        return first.setdefault((id(self), max(a, b)), real(self, a, b))

    patch.setattr(SymbolicContext, "_product", product)


def _never_empty(patch: pytest.MonkeyPatch) -> None:
    """Every tile is taken to have a step."""
    patch.setattr(read.Reader, "positive", lambda *_: True)


@dataclass(frozen=True)
class Wrong:
    """``sizes``: where it is refuted. ``off``: leaves out a rule, without which it is accepted."""

    text: str
    sizes: dict[str, int]
    off: Callable[[pytest.MonkeyPatch], None] | None = None
    slow: bool = False


SMALL = {"M": 20, "L": 17, "N": 2, "B": 1}
WRONG = {
    "the reader takes other tiles": Wrong(_other_tiles(), {**SMALL, "L": 40}, _products_alike),
    "a tile ends below its counter": Wrong(_one_step_less(), {**SMALL, "N": 1}, _never_empty, slow=True),
    "the number of the tile changes in a step": Wrong(_changed_inside(), {**SMALL, "N": 400}, slow=True),
    "the slot is not released": Wrong(
        tiled(("\tmbarrier.arrive.shared::cta.b64 _, [%r59], %r60;\n", "")), {**SMALL, "N": 4}
    ),
    "the loader's tiles have a step more": Wrong(
        tiled((ENDS[1][0], ENDS[1][0] + "\tadd.s32 \t%r109, %r109, 1;\n")), SMALL
    ),
}


def refuted(wrong: Wrong) -> bool:
    """Whether the exact check refutes it at its sizes."""
    facts = {k: v for k, v in FACTS.items() if k != "assume"}
    values = {"2": wrong.sizes["B"], "3": wrong.sizes["N"], "4": wrong.sizes["M"], "5": wrong.sizes["L"]}
    numbers = {k: {"i32": x} for k, x in values.items()}
    facts |= {"grid": [wrong.sizes["B"], 1, 1], "params": {**FACTS["params"], **numbers}}
    (report,) = syncverify.check(
        wrong.text, facts={"kernel": {"ring": facts}}, timeout=200, replay=False, advice=False
    )
    assert report.scope.kind is ScopeKind.EXACT
    return report.verdict is Verdict.REFUTED


def test_tiles_whose_number_is_a_product_are_accepted() -> None:
    found = of_ptx(TILED, FACTS)
    assert found.accepted, found
    assert any(x.startswith("turns_product_of") for p, _ in found.known for x in p.parameters)


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=[pytest.mark.slow] * w.slow) for x, w in WRONG.items()]
)
def test_a_mistake_is_not_accepted(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is refuted at some size; one that a rule keeps out is accepted without it."""
    wrong = WRONG[what]
    assert refuted(wrong)
    found = of_ptx(wrong.text, FACTS)
    assert not found.accepted and found.cause != "no kernel", found
    if wrong.off is not None:
        wrong.off(monkeypatch)
        assert of_ptx(wrong.text, FACTS).accepted


def _sizes() -> tuple[SymbolicContext, dict[int, str], Any, Any]:
    space = SymbolicContext(may_havoc=False)
    x, y = (space.symbol(name, 1, 100) for name in "MN")
    return space, parameters(space, space.path), x, y


def test_a_product_of_sizes_gets_a_name() -> None:
    space, names, x, y = _sizes()
    ((a, _),) = space.product(x, y).parts
    assert nameable(space, names, a) and a not in names
    with pytest.raises(UnnamedSizeError) as e:
        unnamed(space, names, a)
    assert e.value.size == Product(("M", "N"))
    path = with_product(space, space.path, names, ("N", "M"))
    assert parameters(space, path)[a] == "product_of_M_and_N"
    with pytest.raises(NotReadError, match="a product that has a name"):
        with_product(space, path, names, ("M", "N"))
    with pytest.raises(NotReadError, match="a product of no sizes"):
        with_product(space, path, names, ("M", "K"))


def test_a_product_of_what_is_no_size_gets_no_name() -> None:
    space, names, x, _ = _sizes()
    data = space.symbol("any")
    ((a, _),) = space.product(x, data).parts
    unnamed(space, names, a)
    assert not nameable(space, names, a)
