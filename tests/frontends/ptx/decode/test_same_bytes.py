"""Lanes of one store that write the same bytes: refuted unless data flow or numbers show one value."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.driver import files
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 32, 1, 1
{{
.reg .b32 %r<9>;
.shared .align 16 .b8 s[1024];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 1;
shl.b32 %r3, %r2, 2;
mov.u32 %r4, s;
add.u32 %r5, %r4, %r3;
{value}
{store}
ret;
}}
"""


def report(folder: Path, value: str, store: str = "st.shared.u32 [%r5], %r6;") -> KernelReport:
    file = folder / "k.ptx"
    file.write_text(KERNEL.format(value=value, store=store))
    return check_source(read_source(str(file)), repairs=False)[0]


@pytest.mark.parametrize(
    ("stored", "verdict"),
    [
        ("%r2", Verdict.PROVED),  # lanes 2k and 2k+1 store k
        ("7", Verdict.PROVED),
        ("%r1", Verdict.REFUTED),  # each its own number
    ],
)
def test_known_values_decide(tmp_path: Path, stored: str, verdict: Verdict) -> None:
    found = report(tmp_path, "", f"st.shared.u32 [%r5], {stored};")
    assert (found.verdict, found.assumptions) == (verdict, ())


def test_values_that_only_stores_use_are_computed(tmp_path: Path) -> None:
    assert report(
        tmp_path, "xor.b32 %r6, %r1, 1; add.u32 %r7, %r6, %r1;", "st.shared.u32 [%r5], %r7;"
    ).verdict is (
        Verdict.PROVED  # 4k + 1 for both lanes
    )
    found = report(tmp_path, "xor.b32 %r6, %r1, 3;")
    assert found.verdict is Verdict.REFUTED


def test_warps_that_store_different_values(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    text = KERNEL.replace("32, 1", "64, 1").format(
        value="shr.u32 %r6, %r1, 5;", store="st.shared.u32 [%r4], %r6;"
    )
    file.write_text(text)
    assert check_source(read_source(str(file)), repairs=False)[0].verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("ld.shared.u32 %r6, [%r4+512];", Verdict.PROVED),  # one word for all
        ("ld.shared.u32 %r6, [%r5+512];", Verdict.PROVED),  # one for both lanes that share bytes
        ("shl.b32 %r7, %r1, 2; add.u32 %r7, %r4, %r7; ld.shared.u32 %r6, [%r7+512];", Verdict.REFUTED),
        # others may write meanwhile, as far as the checker looks; here nobody does
        ("ld.volatile.shared.u32 %r6, [%r4+512];", Verdict.UNKNOWN),
    ],
)
def test_data_is_equal_where_it_comes_from_one_place(tmp_path: Path, value: str, verdict: Verdict) -> None:
    found = report(tmp_path, value)
    assert (found.verdict, found.assumptions) == (verdict, ())


def test_lanes_with_bytes_of_their_own_need_no_assumption(tmp_path: Path) -> None:
    found = report(tmp_path, "shl.b32 %r7, %r1, 2; add.u32 %r7, %r4, %r7;", "st.shared.u32 [%r7], %r8;")
    assert (found.verdict, found.assumptions) == (Verdict.PROVED, ())


def test_stores_that_overlap_in_part_differ(tmp_path: Path) -> None:
    found = report(tmp_path, "add.u32 %r7, %r4, %r1; shl.b32 %r7, %r7, 1;", "st.shared.u32 [%r7], %r2;")
    assert found.verdict is Verdict.REFUTED


SIZED = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
{{
.reg .pred %p<4>;
.reg .b32 %r<9>;
.shared .align 4 .b32 s;
ld.param.u32 %r7, [n];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
mov.u32 %r3, 0;
mov.u32 %r5, s;
and.b32 %r6, %r1, 31;
setp.eq.u32 %p2, %r6, 0;
$L:
setp.gt.u32 %p3, %r3, 2;
selp.u32 %r4, %r2, 0, %p3;
@%p2 st.shared.u32 [%r5], {value};
bar.sync 0;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r7;
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
0 = {u32 = "n"}
"""


def sized(folder: Path, value: str) -> tuple[Verdict, int | None]:
    """The verdict for every size, and the size that it is refuted for."""
    (folder / "k.ptx").write_text(SIZED.format(value=value))
    (folder / "k.toml").write_text(FACTS)
    facts = read_facts(folder / "k.toml")
    (found,) = files.check_source(
        files.read_source(folder / "k.ptx"), facts=facts, scope=ScopeKind.ALL, repairs=False
    )
    return found.verdict, found.scope.values.get("params.0")


def test_sizes_are_judged_by_what_their_own_launch_stores(tmp_path: Path) -> None:
    # from its fourth turn on each warp stores its number
    assert sized(tmp_path, "%r4") == (Verdict.REFUTED, 4)


def test_launches_may_store_different_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sized(tmp_path, "%r7")[0] is not Verdict.REFUTED
    nothing = ParametricResult(Verdict.UNKNOWN, reason="not looked at")
    monkeypatch.setattr("syncverify.driver.prover.prover", lambda _: lambda *_: nothing)
    assert sized(tmp_path, "%r7")[0] is Verdict.UNKNOWN  # the first few sizes do not refute it
    assert sized(tmp_path, "%r4") == (Verdict.REFUTED, 4)


MATRIX = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 64, 1, 1
{{
.reg .b32 %r<9>;
.reg .b64 %rd<3>;
.shared .align 16 .b8 s[1024];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
and.b32 %r3, %r1, 7;
shl.b32 %r3, %r3, 4;
mov.u32 %r4, s;
add.u32 %r5, %r4, %r3;
{value}
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {{%r6}};
{rest}
ret;
}}
"""


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("ld.global.u32 %r6, [%rd1];", Verdict.PROVED),
        ("mov.u32 %r6, 0;", Verdict.PROVED),
        ("and.b32 %r6, %r1, 31;", Verdict.PROVED),  # both warps bring the same fragments
        ("mov.u32 %r6, %r2;", Verdict.REFUTED),  # each warp its own
    ],
)
def test_warps_that_store_one_matrix(tmp_path: Path, value: str, verdict: Verdict) -> None:
    (tmp_path / "k.ptx").write_text(MATRIX.format(value=value, rest=""))
    (found,) = check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)
    assert (found.verdict, found.assumptions) == (verdict, ()), found.diagnostics


def test_a_matrix_read_before_the_other_warp_stored_it(tmp_path: Path) -> None:
    value, read = "ld.global.u32 %r6, [%rd1];", "ld.shared.u32 %r8, [%r4+124];"
    for barrier, verdict in (("", Verdict.REFUTED), ("bar.sync 0;", Verdict.PROVED)):
        (tmp_path / "k.ptx").write_text(MATRIX.format(value=value, rest=barrier + read))
        assert check_source(read_source(str(tmp_path / "k.ptx")), repairs=False)[0].verdict is verdict


BLOCKS = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n)
.reqntid 64, 1, 1
{{
.reg .pred %p<4>;
.reg .b32 %r<12>;
.shared .align 4 .b32 s;
ld.param.u32 %r11, [n];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
mov.u32 %r3, %ctaid.x;
mov.u32 %r8, %cluster_ctarank;
mov.u32 %r4, s;
{value}
barrier.cluster.arrive;
barrier.cluster.wait;
{store} [%r4], %r5;
barrier.cluster.arrive;
barrier.cluster.wait;
ld.shared::cluster.u32 %r6, [%r4];
barrier.cluster.arrive;
barrier.cluster.wait;
mov.u32 %r7, 0;
$L:
bar.sync 0;
add.u32 %r7, %r7, 1;
setp.lt.u32 %p1, %r7, %r6;
@%p1 bra $L;
ret;
}}
"""
TO_BLOCK_0 = "mapa.shared::cluster.u32 %r4, %r4, 0;"


@pytest.mark.parametrize(
    ("value", "store", "cluster", "verdict"),
    [
        ("add.u32 %r5, %r3, 1;", "st.shared.u32", 1, Verdict.PROVED),  # each block a number of its own
        ("setp.lt.u32 %p2, %r3, 1; selp.u32 %r5, 4, 3, %p2;", "st.shared.u32", 1, Verdict.PROVED),
        ("rem.u32 %r5, %r11, 3; add.u32 %r5, %r5, %r3;", "st.shared.u32", 1, Verdict.PROVED),
        ("add.u32 %r5, %r8, 1;", "st.shared.u32", 2, Verdict.PROVED),
        ("mul.lo.u32 %r5, %r3, %r2;", "st.shared.u32", 1, Verdict.REFUTED),  # the warps of one block differ
        ("setp.eq.u32 %p2, %r3, 3; selp.u32 %r5, %r2, 2, %p2;", "st.shared.u32", 1, Verdict.REFUTED),
        (f"add.u32 %r5, %r8, 1; {TO_BLOCK_0}", "st.shared::cluster.u32", 2, Verdict.REFUTED),  # to one place
        (f"mov.u32 %r5, 7; {TO_BLOCK_0}", "st.shared::cluster.u32", 2, Verdict.PROVED),
        ("mul.lo.u32 %r5, %r8, %r2;", "st.shared.u32", 2, Verdict.REFUTED),
    ],
)
def test_blocks_may_store_different_values(
    tmp_path: Path, value: str, store: str, cluster: int, verdict: Verdict
) -> None:
    (tmp_path / "k.ptx").write_text(BLOCKS.format(value=value, store=store))
    facts = f'[kernel."*"]\nblock = [64, 1, 1]\ncluster = [{cluster}, 1, 1]\ngrid = [4, 1, 1]\n'
    (tmp_path / "k.toml").write_text(facts + '[kernel."*".params]\n0 = {u32 = 7}\n')
    facts_ = read_facts(tmp_path / "k.toml")
    (found,) = files.check_source(files.read_source(tmp_path / "k.ptx"), facts=facts_, repairs=False)
    assert found.verdict is verdict, (found.reason, found.diagnostics)
