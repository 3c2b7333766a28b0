"""Alignment that no declaration promises is assumed where the layout cannot take it away, and only there."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Policy

HEAD = """.version 8.0
.target sm_80
.address_size 64

.visible .entry k(.param .u64 a)
{
.reg .b32 %r<20>; .reg .b64 %rd<9>;
VARIABLES
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, x; add.u32 %r3, %r2, %r1;
"""
WIDE = "st.shared.v4.u32 [%r3], {%r0, %r0, %r0, %r0};"
PAIR = "st.shared.v2.u32 [%r3], {%r0, %r0};"
X = ".shared .align 4 .b8 x[1024];"
ONE_ASSUMED = "the static shared memory begins at a multiple of {} bytes; `x` is declared with alignment 4"


def report(variables: str, body: str, policy: Policy = Policy.PRACTICAL) -> syncverify.KernelReport:
    text = HEAD.replace("VARIABLES", variables) + body + "\nret;\n}\n"
    facts = {"kernel": {"k": {"block": [64], "grid": [1]}}}
    (found,) = syncverify.check(text, facts=facts, policy=policy, replay=False, advice=False)
    return found


#: Variables, what else is done, and the alignment that is assumed; 0: none is.
CASES = {
    "alone": (X, WIDE, 16),
    "alone, of any size": (".shared .align 4 .b8 x[1036];", WIDE, 16),
    "beside a multiple": (X + ".shared .align 4 .b8 y[48];", WIDE, 16),
    "beside one of more alignment": (X + ".shared .align 64 .b8 y[16];", WIDE, 16),
    "beside 12 bytes": (X + ".shared .align 4 .b8 y[12];", WIDE, 0),
    "beside 8 bytes": (".shared .align 8 .b8 y[8];" + X, WIDE, 0),
    "pairs beside 8 bytes": (".shared .align 4 .b8 y[8];" + X, PAIR, 8),
    "pairs beside 12 bytes": (".shared .align 4 .b8 y[12];" + X, PAIR, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_sizes_decide(case: str) -> None:
    variables, body, unit = CASES[case]
    found = report(variables, body)
    if unit:
        assert str(found.verdict) == "proved"
        assert any(ONE_ASSUMED.format(unit) in x for x in found.assumptions)
    else:
        assert str(found.verdict) == "unknown" and "is declared with alignment 4" in (found.reason or "")


def test_what_is_used_as_declared_needs_nothing() -> None:
    found = report(X, "st.shared.u32 [%r3], %r0;")
    assert str(found.verdict) == "proved" and not any("begins at" in x for x in found.assumptions)


def test_strict_takes_the_declaration() -> None:
    assert str(report(X, WIDE, Policy.STRICT).verdict) == "unknown"


def test_a_place_between_is_a_mistake() -> None:
    found = report(".shared .align 4 .b8 x[1040];", WIDE.replace("[%r3]", "[%r3+4]"))
    assert str(found.verdict) == "refuted"


def test_dynamic_memory_of_less_alignment_is_named() -> None:
    text = HEAD.replace(".visible", ".extern .shared .align 4 .b8 x[];\n.visible").replace("VARIABLES", "")
    facts = {"kernel": {"k": {"block": [64], "grid": [1], "dynamic_smem": 1024}}}
    (found,) = syncverify.check(f"{text}{WIDE}\nret;\n}}\n", facts=facts, replay=False, advice=False)
    assert str(found.verdict) == "proved"
    assert any(ONE_ASSUMED.format(16).replace("static", "dynamic") in x for x in found.assumptions)
