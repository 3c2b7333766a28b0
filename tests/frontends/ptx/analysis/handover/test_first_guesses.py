"""First guesses of a ``cas`` by a plain load (K28): whatever it brings, the loop ends with the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Literal

import pytest

import syncverify
from syncverify.frontends.ptx.analysis.handover.first_guesses import first_guesses, with_first_guesses
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.system.small_ptx import read

SMALL = Path(__file__).parents[4] / "system" / "small_ptx" / "first_guesses.kernels"
_KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1)
{{
.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %x<12>;
ld.param.u64 %x0, [p0];
ld.param.u64 %x1, [p1];
cvta.to.global.u64 %x0, %x0;
cvta.to.global.u64 %x1, %x1;
mov.u32 %r9, 0;
{guess}
L:
{turn}
atom.global.cas.b32 %r7, [%x0], %r5, %r6;
setp.ne.u32 %p1, %r7, %r5;
mov.u32 %r5, %r7;
@%p1 bra L;
st.global.u32 [%x1], {kept};
ret;
}}
"""
#: How the guess is loaded, and whether it may be of another word, or is of half of it.
_GUESSES = {
    "ld.global.u32 %r5, [%x0];": True,
    "ld.global.u32 %r8, [%x0]; mov.b32 %r5, %r8;": True,
    "ld.global.u32 %r5, [%x0+4];": False,
    "ld.global.u16 %r5, [%x0];": False,
}
#: What a turn makes of what it expects and of what it keeps, and the same by arithmetic of two bits.
_TURNS: Mapping[str, Callable[[int, int], tuple[int, int]]] = {
    "add.u32 %r6, %r5, 1;": lambda old, kept: ((old + 1) % 4, kept),
    "or.b32 %r6, %r5, 1; mov.u32 %r9, %r5;": lambda old, kept: (old | 1, old),
    "add.u32 %r6, %r5, 1; add.u32 %r9, %r9, 1;": lambda old, kept: ((old + 1) % 4, (kept + 1) % 4),
    "add.u32 %r6, %r5, %r9; or.b32 %r9, %r9, %r5;": lambda old, kept: ((old + kept) % 4, kept | old),
}


def _end(turn: str, word: int, guess: int) -> tuple[int, int, int]:
    """The word, what the ``cas`` found last, and what the loop keeps, where a thread runs alone."""
    expected, kept = guess, 0
    while True:
        new, kept = _TURNS[turn](expected, kept)
        found = word
        if found == expected:
            return new, found, kept
        expected = found


def test_a_guess_that_is_taken_says_nothing() -> None:
    taken = set()
    for (guess, same), turn, kept in product(_GUESSES.items(), _TURNS, ("%r7", "%r9")):
        flow = Flow(parse(_KERNEL.format(guess=guess, turn=turn, kept=kept)).entries[0])
        if first_guesses(flow):
            taken.add((turn, kept))
            assert same
            ends = [{_end(turn, word, any_) for any_ in range(4)} for word in range(4)]
            read = 1 if kept == "%r7" else 2
            assert all(len({(e[0], e[read]) for e in some}) == 1 for some in ends), (turn, kept)
    first, second, *_ = _TURNS
    assert {(first, "%r7"), (second, "%r7"), (second, "%r9")} <= taken


@pytest.mark.parametrize("more", ["st.global.u32 [%x1+8], %r5;", "setp.eq.u32 %p2, %r5, 0; @%p2 bra L;"])
def test_a_guess_that_goes_elsewhere_is_none(more: str) -> None:
    turn = next(iter(_TURNS))
    text = _KERNEL.format(guess=f"ld.global.u32 %r5, [%x0]; {more}", turn=turn, kept="%r7")
    function = parse(text).entries[0]
    assert with_first_guesses(function) == (function, [])


@pytest.mark.parametrize("policy", ["practical", "strict"])
def test_both_policies(policy: Literal["practical", "strict"]) -> None:
    k = next(read(SMALL))
    (report,) = syncverify.check(k.text, facts={"kernel": {"k": k.facts}}, policy=policy, advice=False)
    assert str(report.verdict) == ("proved" if policy == "practical" else "refuted")
    assert any("(K28)" in x for x in report.assumptions) == (policy == "practical")
