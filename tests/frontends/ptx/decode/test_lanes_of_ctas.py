"""Lanes of one access that reach the shared memory of different CTAs of their cluster."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver import files
from syncverify.frontends.launch_facts import read_facts

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
.maxntid 64, 1, 1
{{
.reg .pred %p<3>;
.reg .b32 %r<12>;
.shared .align 16 .b8 s[1024];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %cluster_ctarank;
and.b32 %r3, %r1, 1;
shl.b32 %r4, %r1, 2;
mov.u32 %r5, s;
add.u32 %r6, %r5, %r4;
mapa.shared::cluster.u32 %r7, %r6, %r3;
setp.lt.u32 %p1, %r1, 3;
st.shared.u32 [%r6], %r1;
{first}
{access}
{last}
ret;
}}
"""
MEET = "barrier.cluster.arrive;\nbarrier.cluster.wait;"
READ = "ld.shared::cluster.u32 %r8, [%r7];"
#: to each CTA, at a place of the writer's rank, or at one place
APART = "shl.b32 %r9, %r2, 8; add.u32 %r10, %r7, %r9; st.shared::cluster.u32 [%r10+256], %r1;"
ONE = "st.shared::cluster.u32 [%r7+256], %r2;"


def check(folder: Path, **parts: str) -> tuple[Verdict, set[str]]:
    (folder / "k.ptx").write_text(KERNEL.format(**{"first": MEET, "access": READ, "last": MEET} | parts))
    facts = '[kernel."*"]\nblock = [64, 1, 1]\ncluster = [2, 1, 1]\ngrid = [4, 1, 1]\n'
    (folder / "k.toml").write_text(facts)
    (found,) = files.check_source(
        files.read_source(folder / "k.ptx"), facts=read_facts(folder / "k.toml"), repairs=False
    )
    return found.verdict, {d.rule for d in found.diagnostics}


@pytest.mark.parametrize("access", [READ, f"@%p1 {READ}", APART, f"@%p1 {READ} {APART}"])
def test_lanes_may_reach_several_ctas(tmp_path: Path, access: str) -> None:
    assert check(tmp_path, access=access) == (Verdict.PROVED, set())


@pytest.mark.parametrize(
    ("parts", "rule"),
    [
        ({"first": ""}, "SV114"),
        ({"first": MEET.replace("arrive", "arrive.relaxed")}, "SV110"),
        ({"last": ""}, "SV211"),
        ({"access": ONE}, "SV112"),  # from both CTAs to one place
        ({"access": f"@%p1 {ONE}"}, "SV112"),
        ({"access": READ + "st.shared.u32 [%r6], %r2;"}, "SV111"),
        ({"access": "add.u32 %r7, %r7, 1;" + READ}, "SV701"),
        ({"access": "mapa.shared::cluster.u32 %r7, %r6, 257;" + READ}, "SV114"),
        ({"access": "add.u32 %r3, %r3, 256; mapa.shared::cluster.u32 %r7, %r6, %r3;" + READ}, "SV114"),
        ({"access": "mov.u32 %r3, 5; mapa.shared::cluster.u32 %r7, %r6, %r1;" + READ}, "SV114"),
    ],
)
def test_each_cta_is_judged(tmp_path: Path, parts: dict[str, str], rule: str) -> None:
    verdict, rules = check(tmp_path, **parts)
    assert verdict is Verdict.REFUTED and rule in rules, rules
