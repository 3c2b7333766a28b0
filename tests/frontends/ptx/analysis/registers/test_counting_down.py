"""For every size: loops that count down from 0 until their count and a size add up to 0, as LLVM turns
reversed loops round."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.driver import files
from syncverify.frontends.launch_facts import read_facts

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{{
.reg .pred %p<4>;
.reg .b{bits} %a<9>;
.reg .b32 %r<9>;
.shared .align 4 .b8 s[256];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
xor.b32 %r3, %r2, 128;
mov.u32 %r4, s;
add.u32 %r5, %r4, %r2;
add.u32 %r6, %r4, %r3;
ld.param.s32 %a1, [n];
max.s{bits} %a2, %a1, 1;
mad.lo.s{bits} %a6, %a2, 1024, {more};
mov.b{bits} %a3, 0;
$L:
st.shared.u32 [%r5], %r1;
{first}
ld.shared.u32 %r7, [%r6];
{second}
add.s{bits} %a3, %a3, -1024;
add.s{bits} %a4, %a6, %a3;
setp.ne.b{bits} %p1, %a4, 0;
@%p1 bra $L;
ret;
}}
"""
FACTS = """[kernel."*"]
block = [64, 1, 1]
grid = [1, 1, 1]
cluster = [1, 1, 1]
assume = ["n >= 1"]
[kernel."*".params]
0 = {i32 = "n"}
"""
BAR = "bar.sync 0;"


def report(folder: Path, bits: int, first: str = BAR, second: str = BAR, more: int = 0) -> KernelReport:
    (folder / "k.ptx").write_text(KERNEL.format(bits=bits, first=first, second=second, more=more))
    (folder / "k.toml").write_text(FACTS)
    facts = read_facts(folder / "k.toml")
    (found,) = files.check_source(
        files.read_source(folder / "k.ptx"), facts=facts, scope=ScopeKind.ALL, repairs=False
    )
    return found


@pytest.mark.parametrize("bits", [32, 64])
def test_a_reversed_loop_is_proved(tmp_path: Path, bits: int) -> None:
    found = report(tmp_path, bits)
    assert (found.verdict, found.scope.values.get("params.0")) == (Verdict.PROVED, None)


@pytest.mark.parametrize(("first", "second", "turns"), [("", BAR, None), (BAR, "", 2)])
def test_a_race_in_it_is_refuted_at_its_smallest_size(
    tmp_path: Path, first: str, second: str, turns: int | None
) -> None:
    found = report(tmp_path, 64, first, second)
    assert (found.verdict, found.scope.values.get("params.0")) == (Verdict.REFUTED, turns)


@pytest.mark.slow
def test_one_that_steps_over_its_end_is_not_proved(tmp_path: Path) -> None:
    assert report(tmp_path, 64, more=512).verdict is not Verdict.PROVED
