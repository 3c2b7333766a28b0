"""The check of PTX files: verdicts, scopes, facts asked for by name, several entries, exit statuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from syncverify.cli.main import run as command
from tests.frontends.ptx.execute_helpers import module_text

RING = """
    .shared .align 128 .b8 buf[4096];
    .shared .align 8 .b8 full[16];
    .shared .align 8 .b8 empty[16];
    ld.param.u32 %r1, [k_n];
    ld.param.u64 %rd1, [k_in];
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
    mbarrier.init.shared::cta.b64 [empty+8], 32;
    READY:
    bar.sync 0;
    shr.u32 %r3, %r2, 5;
    mov.u32 %r4, 0;
    setp.eq.u32 %p2, %r3, 1;
    @%p2 bra CONSUMER;
    @%p1 bra END;
    PRODUCER:
    setp.ge.s32 %p3, %r4, %r1;
    @%p3 bra END;
    and.b32 %r5, %r4, 1;
    shl.b32 %r6, %r5, 3;
    mov.u32 %r7, empty;
    add.u32 %r7, %r7, %r6;
    mov.u32 %r8, full;
    add.u32 %r8, %r8, %r6;
    bfe.u32 %r9, %r4, 1, 1;
    xor.b32 %r9, %r9, 1;
    W1: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], %r9;
    @!%p4 bra W1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], BYTES;
    shl.b32 %r10, %r5, 11;
    mov.u32 %r11, buf;
    add.u32 %r11, %r11, %r10;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 2048, [%r8];
    add.u32 %r4, %r4, 1;
    bra PRODUCER;
    CONSUMER:
    setp.ge.s32 %p3, %r4, %r1;
    @%p3 bra END;
    and.b32 %r5, %r4, 1;
    shl.b32 %r6, %r5, 3;
    mov.u32 %r7, empty;
    add.u32 %r7, %r7, %r6;
    mov.u32 %r8, full;
    add.u32 %r8, %r8, %r6;
    bfe.u32 %r9, %r4, 1, 1;
    W2: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r9;
    @!%p4 bra W2;
    shl.b32 %r10, %r5, 11;
    shl.b32 %r12, %r2, 4;
    mov.u32 %r11, buf;
    add.u32 %r11, %r11, %r10;
    add.u32 %r11, %r11, %r12;
    ld.shared.f32 %f1, [%r11+-512];
    add.f32 %f2, %f1, %f1;
    FENCE
    mbarrier.arrive.shared::cta.b64 _, [%r7];
    add.u32 %r4, %r4, 1;
    bra CONSUMER;
    END: ret;
"""
PARAMS = ".param .u64 k_in, .param .u32 k_n"
GIVEN = """
[kernel.k]
grid = [8, 1, 1]
block = [64, 1, 1]
[kernel.k.params]
1 = 5
"""


def ring(bytes_: int = 2048, fence: str = "fence.proxy.async.shared::cta;") -> str:
    body = RING.replace("BYTES", str(bytes_)).replace("FENCE", fence)
    return module_text(body, params=PARAMS)


Checked = tuple[int, list[dict[str, Any]], str]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Checked]:
    """Runs the command line: exit status, the reports, and what was said on stderr."""

    def run(text: str, facts: str = GIVEN, *options: str) -> Checked:
        (tmp_path / "k.ptx").write_text(text)
        (tmp_path / "k.ptx.launch.toml").write_text(facts)
        status = command(["check", str(tmp_path / "k.ptx"), "--format", "json", *options])
        said = capsys.readouterr()
        return status, json.loads(said.out)["kernels"] if said.out else [], said.err

    return run


Check = Callable[..., Checked]


def test_a_correct_ring_is_proved(check: Check) -> None:
    status, (report,), _ = check(ring())
    assert (status, report["verdict"]) == (0, "proved")
    assert report["scope"]["values"] == {"grid.x": 8, "grid.y": 1, "grid.z": 1, "params.1": 5}


def test_too_many_bytes_hang(check: Check) -> None:
    status, (report,), _ = check(ring(bytes_=4096))
    assert (status, report["verdict"]) == (1, "refuted")
    assert {d["rule"] for d in report["diagnostics"] if d["severity"] == "error"} == {"SV203"}


def test_strict_mode_wants_the_fence(check: Check) -> None:
    assert check(ring(fence=""))[0] == 0
    status, (report,), _ = check(ring(fence=""), GIVEN, "--policy", "strict")
    assert status == 1
    assert report["diagnostics"][0]["rule"] == "SV105"


def test_a_missing_size_is_asked_for_by_name(check: Check) -> None:
    facts = "[kernel.k]\ngrid = [8, 1, 1]\nblock = [64, 1, 1]\n"
    status, (report,), _ = check(ring(), facts)
    if report["verdict"] == "unknown":
        assert status == 3
        assert "param 1 (k_n), u32 at offset 0" in report["reason"]


def test_a_missing_block_is_asked_for(check: Check) -> None:
    status, (report,), _ = check(ring(), "")
    assert status == 3
    assert "give block" in report["reason"] and ".ptx.launch.toml, with" in report["reason"]


def test_the_block_may_come_from_the_kernel(check: Check) -> None:
    text = ring().replace(f"k({PARAMS})", f"k({PARAMS}) .reqntid 64, 1, 1")
    status, _, _ = check(text, GIVEN.replace("block = [64, 1, 1]", ""))
    assert status == 0


def test_sizes_that_nothing_depends_on_may_stay_open(check: Check) -> None:
    text = module_text("mov.u32 %r1, %ctaid.x; bar.sync 0; ret;")
    status, (report,), _ = check(text, "[kernel.k]\nblock = 64\n")
    assert (status, report["scope"]["kind"]) == (0, "all")


PLACE = """
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %ctaid.x;
    setp.ne.u32 %p1, %r1, 3;
    mov.u32 %r2, %tid.x;
    setp.ne.or.u32 %p2, %r2, 0, %p1;
    @%p2 bra END;
    mbarrier.init.shared::cta.b64 [bar], 1;
    mov.u32 %r3, 0;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], %r3;
    @!%p3 bra W;
    END: ret;"""


@pytest.mark.parametrize(("grid", "verdict"), [(3, "proved"), (4, "refuted"), (100, "refuted")])
def test_every_block_that_differs_is_run(check: Check, grid: int, verdict: str) -> None:
    facts = f"[kernel.k]\nblock = 32\ngrid = {grid}\n"
    _, (report,), _ = check(module_text(PLACE), facts)
    assert report["verdict"] == verdict


def test_an_open_grid_is_refuted_by_the_smallest_in_which_a_block_is_wrong(check: Check) -> None:
    status, (report,), _ = check(module_text(PLACE), "[kernel.k]\nblock = 32\n")
    assert status == 1
    assert report["scope"]["values"]["grid.x"] == 4


NULL = """
    .shared .align 8 .b8 bar[8];
    ld.param.u64 %rd1, [k_n];
    setp.eq.s64 %p1, %rd1, 0;
    @%p1 bra SKIP;
    bar.sync 1;
    SKIP:
    setp.ne.s64 %p2, %rd1, 0;
    @WHICH%p2 bra END;
    bar.sync 1;
    END: ret;"""


@pytest.mark.parametrize("which", ["", "!"])
def test_a_question_has_one_answer_for_all_agents(check: Check, which: str) -> None:
    text = module_text(NULL.replace("WHICH", which), params=".param .u64 k_n")
    _, (report,), _ = check(text, "[kernel.k]\nblock = 64\n")
    assert report["verdict"] == "proved"


def test_several_entries_are_checked_and_selected(check: Check) -> None:
    one = module_text("bar.sync 0; ret;")
    both = one + one[one.index(".visible") :].replace("k(", "other(").replace("k_n", "other_n")
    facts = '[kernel."*"]\nblock = 32\n'
    assert [r["name"] for r in check(both, facts)[1]] == ["k", "other"]
    assert [r["name"] for r in check(both, facts, "--kernel", "oth*")[1]] == ["other"]
    assert check(both, facts, "--kernel", "nobody")[0] == 2


def test_a_file_without_entry_is_bad_input(check: Check) -> None:
    status, _, said = check(".version 8.6\n.target sm_90a\n.address_size 64\n", "")
    assert status == 2
    assert "no kernel" in said


def test_what_goes_wrong_for_some_answer_of_the_host_is_unknown(check: Check) -> None:
    """All threads read one word: its author may know that it is never null."""
    body = """
    ld.param.u64 %rd1, [k_n];
    ld.global.u64 %rd2, [%rd1];
    setp.eq.s64 %p1, %rd2, 0;
    @%p1 bra END;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p2, %r1, 32;
    @%p2 bar.sync 1, 64;
    END:
    ret;"""
    text, facts = module_text(body, params=".param .u64 k_n"), "[kernel.k]\nblock = 64\n"
    status, (report,), _ = check(text, facts)
    assert status == 3
    assert "whether this goes wrong depends on data" in report["reason"]


@pytest.mark.parametrize(
    ("directives", "entry"),
    [(".reqntid 384 .maxnreg 168", 168), (".reqntid 384", 168), (".reqntid 256", 240), (".reqntid 128", 240)],
)
def test_registers_at_entry_are_those_that_ptxas_gives(check: Check, directives: str, entry: int) -> None:
    """A later inc by warps that gave registers back says nothing about the entry."""
    body = """
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 128;
    @%p1 bra TAKE;
    setmaxnreg.dec.sync.aligned.u32 24;
    bar.sync 1, 128;
    setmaxnreg.inc.sync.aligned.u32 120;
    ret;
    TAKE:
    setmaxnreg.inc.sync.aligned.u32 240;
    ret;
    """
    text = module_text(body, "").replace("k()", f"k() {directives}")
    _, (report,), _ = check(text, "[kernel.k]\ngrid = [1, 1, 1]\n")
    assert f"{entry} registers per thread at entry" in report["assumptions"]


def test_a_field_is_asked_for_as_it_is_written(check: Check) -> None:
    text = module_text("ld.param.u32 %r1, [k_a+8]; bar.sync 1, %r1; ret;", ".param .align 8 .b8 k_a[16]")
    facts = "[kernel.k]\ngrid = [1, 1, 1]\nblock = [64, 1, 1]\n"
    field = "0 = [{u32 = N, at = 8}]"
    _, (report,), _ = check(text, facts)
    assert report["verdict"] == "unknown" and field in report["reason"]
    _, (report,), _ = check(text, f"{facts}[kernel.k.params]\n{field.replace('N', '64')}\n")
    assert report["verdict"] == "proved"


def test_one_store_of_a_known_value_by_two_warps_is_only_for_strict_mode(check: Check) -> None:
    text = module_text("st.shared.b32 [flags], 7; bar.sync 0; ret;", "", ".shared .align 4 .b8 flags[4];")
    facts = "[kernel.k]\ngrid = [1, 1, 1]\nblock = [64, 1, 1]\n"
    status, (report,), _ = check(text, facts)
    assert (status, report["diagnostics"]) == (0, [])
    status, (report,), _ = check(text, facts, "--policy", "strict")
    assert (status, report["diagnostics"][0]["rule"]) == (1, "SV112")
