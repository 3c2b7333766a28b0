"""Shuffles that bring nothing: each lane takes a value from a lane that the mask leaves out."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Verdict
from syncverify.frontends.ptx.analysis.warps.stray_exchanges import stray_exchanges
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text


def asked(*lines: str) -> list[tuple[int, int]]:
    body = "\n".join((*lines, "ret;"))
    return [(lane, j) for _, lane, j in stray_exchanges(parse(module_text(body), "k.ptx").entries[0])]


@pytest.mark.parametrize(
    ("exchange", "lanes"),
    [
        ("bfly.b32 %r1, %r2, 16, 31, 0xffff", (0, 16)),
        ("down.b32 %r1, %r2, 16, 31, 0xffff", (0, 16)),
        ("up.b32 %r1, %r2, 16, 0, 0xffff0000", (16, 0)),
        ("idx.b32 %r1, %r2, 20, 31, 0xffff", (0, 20)),
    ],
)
def test_a_shuffle_brings_nothing(exchange: str, lanes: tuple[int, int]) -> None:
    assert asked(f"shfl.sync.{exchange};") == [lanes]


@pytest.mark.parametrize(
    "exchange",
    [
        "bfly.b32 %r1, %r2, 16, 31, -1",
        "bfly.b32 %r1, %r2, 8, 31, 0xffff",
        "down.b32 %r1, %r2, 8, 31, 0xffff",  # a tree of sums: its upper lanes' sums are not needed
        "down.b32 %r1, %r2, 16, 0x100f, 0xffff",  # out of its segment each lane takes its own
        "up.b32 %r1, %r2, 16, 0, 0xffff",
        "idx.b32 %r1, %r2, 3, 31, 0xffff",
        "idx.b32 %r1, %r2, %r3, 31, 0xffff",
    ],
)
def test_another_brings_something(exchange: str) -> None:
    assert asked(f"shfl.sync.{exchange};") == []


def test_numbers_may_be_in_registers() -> None:
    lines = ("mov.u32 %r3, 16;", "mov.u32 %r4, 65535;", "shfl.sync.bfly.b32 %r1, %r2, %r3, 31, %r4;")
    assert asked(*lines) == [(0, 16)]
    assert asked("mov.u32 %r3, 8;", *lines) == []


@pytest.mark.parametrize(("step", "warned"), [(16, True), (8, False)])
def test_the_proof_stands_with_a_warning(step: int, *, warned: bool) -> None:
    exchange = f"shfl.sync.bfly.b32 %r1, %r2, {step}, 31, 0xffff;"
    text = module_text(f"mov.u32 %r2, %tid.x;\nsetp.ge.u32 %p1, %r2, 16;\n@%p1 ret;\n{exchange}\nret;")
    (report,) = syncverify.check(text, facts={"kernel": {"*": {"grid": [1], "block": [32]}}}, advice=False)
    assert report.verdict is Verdict.PROVED
    found = [d.span.line for d in report.diagnostics if "which the mask leaves out" in d.message]
    assert found == ([1 + text.splitlines().index(exchange)] if warned else [])
