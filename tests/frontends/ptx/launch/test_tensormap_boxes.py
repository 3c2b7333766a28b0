"""Boxes of tensor maps that a launch file leaves out: what a kernel implies, and what each is worth."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import syncverify
from syncverify.cli.main import run as command
from syncverify.frontends.ptx.launch.tensormap_box_run import BoxFindings, Equation
from syncverify.frontends.ptx.launch.tensormap_box_solve import solve
from tests.corpus.entries import CORPUS
from tests.driver.ptx.test_check import RING
from tests.frontends.ptx.execute_helpers import module_text

MAPS = ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]"
LAUNCH = """
[kernel.k]
grid = [1, 1, 1]
block = [32, 1, 1]
"""
#: Two barriers; ``ISSUE`` is done by one thread, ``REST`` by all.
KERNEL = """
    .shared .align 128 .b8 buf[SIZE];
    .shared .align 8 .b8 full[16];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, 0;
    mov.b64 %rd10, a;
    cvta.param.u64 %rd1, %rd10;
    mov.b64 %rd11, b;
    cvta.param.u64 %rd2, %rd11;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
    READY:
    bar.sync 0;
    @%p1 bra REST;
    ISSUE
    REST:
    TAIL
    ret;
"""


def kernel(issue: list[str], rest: list[str], size: int = 4096, params: str = MAPS) -> str:
    body = KERNEL.replace("SIZE", str(size)).replace("ISSUE", "\n    ".join(issue))
    return module_text(body.replace("TAIL", "\n    ".join(rest)), params=params)


def load(to: int, tensor_map: int, bar: int = 0) -> str:
    return (
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        f"[buf+{to}], [%rd{tensor_map}, {{%r3}}], [full+{bar}];"
    )


def expect(count: int | str, bar: int = 0) -> str:
    return f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [full+{bar}], {count};"


def wait(label: str, bar: int = 0, parity: int = 0) -> str:
    return (
        f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full+{bar}], {parity}; @!%p4 bra {label};"
    )


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if part in line)


Checked = tuple[int, dict[str, Any]]
Check = Callable[..., Checked]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs the command line: exit status and the report."""

    def run(text: str, facts: str = LAUNCH, *options: str) -> Checked:
        (tmp_path / "k.ptx").write_text(text)
        (tmp_path / "k.ptx.launch.toml").write_text(facts)
        status = command(["check", str(tmp_path / "k.ptx"), "--format", "json", *options])
        (report,) = json.loads(capsys.readouterr().out)["kernels"]
        return status, report

    return run


def errors(report: dict[str, Any]) -> list[str]:
    return [d["rule"] for d in report["diagnostics"] if d["severity"] == "error"]


ONE = kernel([expect(2048), load(0, 1)], [wait("W1")])


def test_a_box_is_what_its_phase_expects(check: Check) -> None:
    status, report = check(ONE)
    assert (status, report["verdict"]) == (0, "proved")
    line = line_of(ONE, "expect_tx")
    assert report["assumptions"] == [f"box of tensor map 0 is 2048 bytes: from expect_tx, line {line}"]


def test_a_map_at_an_address_that_nobody_wrote_is_none(check: Check) -> None:
    status, report = check(ONE.replace("mov.b64 %rd10, a;", ""))
    assert (status, report["verdict"]) == (1, "refuted")
    assert "a register that nothing has written" in report["diagnostics"][0]["message"]


def test_nothing_is_inferred_if_the_caller_says_so(check: Check) -> None:
    status, report = check(ONE, LAUNCH, "--no-infer")
    assert (status, report["verdict"], report["assumptions"]) == (3, "unknown", [])
    assert "the box of tensor map param 0 (a) is not given" in report["reason"]


def test_a_given_box_wins_and_disagrees(check: Check) -> None:
    given = LAUNCH + '[kernel.k.params]\n0 = {tensormap = "A", dtype = "f32", box = [256]}\n'
    status, report = check(ONE, given)
    assert (status, errors(report), report["assumptions"]) == (1, ["SV203"], [])


def test_a_map_behind_a_pointer_is_its_parameters(check: Check) -> None:
    text = kernel([expect(2048), load(0, 1)], [wait("W1")], params=".param .u64 a, .param .u64 b")
    for name in "ab":
        text = text.replace(
            f"mov.b64 %rd1{'ab'.index(name)}, {name};", f"ld.param.u64 %rd1{'ab'.index(name)}, [{name}];"
        )
    text = text.replace("cvta.param.u64", "mov.b64")
    status, report = check(text, LAUNCH + '[kernel.k.params]\n0 = {ptr = "A"}\n')
    assert status == 0 and report["assumptions"][0].startswith("box of tensor map 0 is 2048 bytes")
    status, report = check(text)
    assert status == 0 and report["assumptions"][0].startswith("box of tensor map 0 is 2048 bytes")
    for bytes_, verdict in ((2048, "proved"), (1024, "refuted")):
        given = LAUNCH + f'[kernel.k.params]\n0 = {{ptr = "A", bytes = {bytes_}}}\n'
        _, report = check(text, given)
        assert (report["verdict"], report["assumptions"]) == (verdict, [])
    behind = text.replace("mov.b64 %rd1, %rd10;", "add.u64 %rd1, %rd10, 128;")
    _, report = check(behind, LAUNCH + '[kernel.k.params]\n0 = {ptr = "A"}\n', "--no-infer")
    assert "the box of tensor map 128 bytes behind param 0 (a) is not given" in report["reason"]


def test_phases_together_determine_boxes(check: Check) -> None:
    issue = [expect(3072), load(0, 1), load(2048, 2), expect(1024, 8), load(3072, 2, 8)]
    status, report = check(kernel(issue, [wait("W1"), wait("W2", 8)]))
    assert status == 0
    assert [a.split(":")[0] for a in report["assumptions"]] == [
        "box of tensor map 0 is 2048 bytes",
        "box of tensor map 1 is 1024 bytes",
    ]


def test_copies_that_just_fill_their_places(check: Check) -> None:
    text = kernel([expect(4096), load(0, 1), load(1024, 2)], [wait("W1")])
    status, report = check(text)
    assert status == 0
    assert [a.split(":")[0] for a in report["assumptions"]] == [
        "box of tensor map 0 is 1024 bytes",
        "box of tensor map 1 is 3072 bytes",
    ]


def test_boxes_that_could_be_otherwise_are_asked_for(check: Check) -> None:
    status, report = check(kernel([expect(2048), load(0, 1), load(2048, 2)], [wait("W1")]))
    assert (status, report["verdict"]) == (3, "unknown")
    assert "the box of tensor map param 0 (a) is not given: give its dtype and box" in report["reason"]


def test_phases_that_no_box_fits_are_refuted(check: Check) -> None:
    issue = [expect(2048), load(0, 1), expect(1024, 8), load(2048, 1, 8)]
    text = kernel(issue, [wait("W1"), wait("W2", 8)])
    status, report = check(text)
    assert (status, errors(report)[0]) == (1, "SV203")
    first, second = line_of(text, ", 2048;"), line_of(text, ", 1024;")
    found = report["diagnostics"][0]
    assert found["line"] == second
    assert f"those expected at line {first}" in found["message"]


def test_bytes_that_no_box_can_have(check: Check) -> None:
    status, report = check(kernel([expect(2040), load(0, 1)], [wait("W1")]))
    assert status != 0
    assert not any("2040" in a for a in report["assumptions"])


def test_expected_bytes_from_a_parameter_are_asked_for(check: Check) -> None:
    params = MAPS + ", .param .u32 k_bytes"
    issue = ["ld.param.u32 %r4, [k_bytes];", expect("%r4"), load(0, 1)]
    status, report = check(kernel(issue, [wait("W1")], params=params))
    assert (status, report["assumptions"]) == (3, [])
    given = LAUNCH + "[kernel.k.params]\n2 = 2048\n"
    status, report = check(kernel(issue, [wait("W1")], params=params), given)
    assert (status, len(report["assumptions"])) == (0, 1)


STORE = "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd2, {%r3}], [buf];"


def store(*before: str) -> str:
    rest = [
        "shl.b32 %r5, %r2, 4;", "mov.u32 %r6, buf;", "add.u32 %r6, %r6, %r5;",
        "st.shared.v4.f32 [%r6], {%f1, %f1, %f1, %f1};", *before, "bar.sync 0;", "@%p1 bra END;",
        STORE, "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;", "END:",
    ]  # fmt: skip
    return kernel([], rest)


def test_a_store_takes_at_most_what_was_written(check: Check) -> None:
    status, report = check(store("fence.proxy.async.shared::cta;"))
    assert (status, report["verdict"]) == (0, "proved")
    (line,) = report["assumptions"]
    assert line.startswith("box of tensor map 1 is at most 512 bytes")


def test_a_store_without_its_fence_is_wrong_with_any_box(check: Check) -> None:
    status, report = check(store())
    assert (status, errors(report)) == (1, ["SV101"])


def suggested(*rest: str) -> str:
    """Two boxes of 3072 bytes together; what another copy brings later begins where the second would end."""
    later = (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf+3072], [%rd3], 16, [full+8];"
    )
    issue = ["ld.param.u64 %rd3, [k_in];", expect(3072), load(0, 1), load(2048, 2), expect(16, 8), later]
    return kernel(issue, [*rest, wait("W2", 8)], size=8192, params=MAPS + ", .param .u64 k_in")


def test_a_box_that_only_the_layout_suggests_serves_a_proof(check: Check) -> None:
    status, report = check(suggested(wait("W1")))
    assert status == 0
    assert [a.split(":")[0] for a in report["assumptions"]] == [
        "box of tensor map 0 is 2048 bytes",
        "box of tensor map 1 is 1024 bytes",
    ]
    assert all(a.endswith("and the layout") for a in report["assumptions"])


def test_a_box_that_only_the_layout_suggests_does_not_refute(check: Check) -> None:
    status, report = check(suggested())
    assert (status, report["verdict"]) == (3, "unknown")
    assert "depends on the boxes of param 0 (a) (taken as 2048 bytes)" in report["reason"]


@pytest.mark.parametrize(("announced", "doubted"), [(4096, False), (2048, True), (6144, True)])
def test_bytes_that_do_not_fill_the_places_of_their_copies_are_told(
    check: Check, announced: int, doubted: bool
) -> None:
    """Two boxes with room for 2048 bytes each: with other bytes only the boxes can tell what is wrong."""
    text = kernel([expect(announced), load(0, 1), load(2048, 2)], [wait("W1")])
    status, report = check(text)
    assert (status, report["verdict"]) == ((3, "unknown") if doubted else (0, "proved"))
    warned = [d for d in report["diagnostics"] if d["rule"] == "SV203"]
    assert [(d["line"], d["severity"]) for d in warned] == [(line_of(text, "expect_tx"), "warning")] * doubted
    assert report["diagnostics"][:1] == warned
    if doubted:
        assert f"{announced} bytes are announced here" in warned[0]["message"]
        assert "room for 4096" in warned[0]["message"]


OPEN = """
[kernel.k]
block = [64, 1, 1]
assume = ["N >= 0", "N <= 1000"]
[kernel.k.params]
1 = {i32 = "N"}
"""


def test_a_ring_of_tensor_copies_for_every_trip_count(check: Check) -> None:
    body = RING.replace("BYTES", "2048").replace("FENCE", "fence.proxy.async.shared::cta;")
    body = body.replace("ld.param.u64 %rd1, [k_in];", "mov.b64 %rd10, a;\n cvta.param.u64 %rd1, %rd10;")
    body = body.replace("[%r11], [%rd1], 2048, [%r8]", "[%r11], [%rd1, {%r4}], [%r8]")
    body = body.replace(
        "cp.async.bulk.shared::cluster.global", "cp.async.bulk.tensor.1d.shared::cluster.global.tile"
    )
    text = module_text(body, params=".param .align 64 .b8 a[128], .param .u32 k_n")
    status, report = check(text, OPEN)
    assert (status, report["verdict"], report["scope"]["kind"]) == (0, "proved", "all")
    said = "box of tensor map 0 is 2048 bytes: from expect_tx"
    assert any(a.startswith(said) for a in report["assumptions"])


@pytest.mark.parametrize("seed", range(20))
def test_no_solved_box_is_wrong(seed: int) -> None:
    """Phases made up from known boxes, in places that have room for them."""
    rng = random.Random(seed)
    true = {m: 16 * rng.randint(1, 64) for m in range(5)}
    found = BoxFindings()
    for site in range(rng.randint(1, 5)):
        chosen = rng.sample(range(5), rng.randint(1, 3))
        boxes = tuple(sorted((m, rng.randint(1, 2)) for m in chosen))
        found.equations[Equation(boxes, sum(true[m] * n for m, n in boxes), site)] = None
        for m in chosen:
            found.sites.setdefault(m, site)
            found.room[m] = true[m] + rng.choice((0, 16, 128))
    solution = solve(found)
    assert not solution.conflicts
    assert {m: s.bytes for m, s in solution.boxes.items() if s.forced} == {
        m: true[m] for m, s in solution.boxes.items() if s.forced
    }


#: A tile leaves by a tensor store whose box nobody gives; threads write ``PLACE`` while the copy may read.
BEHIND = """
    .shared .align 128 .b8 sm[4608];
    mov.b64 %rd1, k_map;
    cvta.param.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, sm;
    shl.b32 %r3, %r1, 5;
    add.u32 %r4, %r2, %r3;
    st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};
    st.shared.v4.u32 [%r4+16], {%r1, %r1, %r1, %r1};
    shl.b32 %r5, %r1, 2;
    add.u32 %r6, %r2, %r5;
    st.shared.u32 [%r6+4096], %r1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra REST;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {0, 0}], [%r2];
    cp.async.bulk.commit_group;
REST:
    st.shared.u32 [%r6+PLACE], %r3;
    @%p1 bra END;
    cp.async.bulk.wait_group 0;
END:
    ret;
"""


@pytest.mark.parametrize(("place", "verdict"), [(0, "refuted"), (4096, "unknown")])
def test_a_refutation_stands_with_the_smallest_box(check: Check, place: int, verdict: str) -> None:
    """What lies behind the tile belongs to the box only if it is as large as can be."""
    text = module_text(BEHIND.replace("PLACE", str(place)), params=".param .align 64 .b8 k_map[128]")
    _, report = check(text, "[kernel.k]\nblock = [128]\ncluster = [1]\n")
    assert report["verdict"] == verdict


@pytest.mark.parametrize(("name", "verdict"), [("good", "proved"), ("bad", "refuted")])
def test_the_first_phases_give_a_box_whatever_comes_later(name: str, verdict: str) -> None:
    """Behind the hang of the wrong kernel, copies come to phases that nobody has announced."""
    facts = {"kernel": {"multicast_release": {"grid": [2], "params": {"1": "ptr", "2": {"i32": 5}}}}}
    (report,) = syncverify.check(CORPUS / "ptx" / f"multicast_release.{name}.ptx", facts=facts, advice=False)
    assert str(report.verdict) == verdict, report.reason
    assert any("is 2048 bytes: from expect_tx" in text for text in report.assumptions)
