"""PTX whose blocks share global memory in block groups, in grids of any size; relatives that must not be
proved.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.strategy import Entry
from syncverify.cli.main import run as command
from syncverify.driver import files
from syncverify.driver.certificates import RejectedError, dumps
from syncverify.driver.prover import prover
from syncverify.driver.ptx.check import check_module
from syncverify.driver.ptx.task import Checker, CheckTask, EntryCode, compiled
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.launch.block_group_detection import detect_block_groups, group_size
from syncverify.frontends.ptx.launch.facts import ptx_facts
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.symbolic.context import NotConcrete
from tests.frontends.ptx.execute_helpers import module_text
from tests.frontends.ptx.team_programs import Team

PARAMS = ".param .u64 k_sums, .param .u64 k_flag, .param .u64 k_out, .param .u32 k_turns"
FACTS = {
    "grid": ["T * 3", "1", "1"],
    "block": [64, 1, 1],
    "assume": ["T >= 1"],
    "params": {"0": {"ptr": "sums"}, "1": {"ptr": "flag"}, "2": {"ptr": "out"}, "3": {"i32": "N"}},
}
#: ``%r2`` team and ``%r3`` place of 3; the first lane of all waits, works, and lets the next go on.
_HEAD = """
    .shared .align 128 .b8 tile[512];
    ld.param.u64 %rd1, [k_sums];
    ld.param.u64 %rd2, [k_flag];
    ld.param.u64 %rd9, [k_out];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r4, %tid.x;
    div.u32 %r2, %r1, 3;
    mul.lo.u32 %r9, %r2, 3;
    sub.u32 %r3, %r1, %r9;
    setp.ne.u32 %p2, %r4, 0;
    mul.wide.u32 %rd3, %r2, 4;
    add.u64 %rd4, %rd2, %rd3;
    shl.b32 %r5, %r2, 9;
    shl.b32 %r6, %r4, 3;
    add.u32 %r7, %r5, %r6;
    cvt.u64.u32 %rd5, %r7;
    add.u64 %rd6, %rd1, %rd5;
    mov.u32 %r10, tile;
    add.u32 %r11, %r10, %r6;
"""
_WAIT = """
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra WORK;
    @%p2 bra MET;
    SPIN:
    ld.acquire.gpu.global.u32 %r8, [%rd4];
    setp.lt.u32 %p3, %r8, %r3;
    @%p3 bra SPIN;
    MET:
    bar.sync 0;
    WORK:
"""
_WORK = """
    ld.global.v2.f32 {%f1, %f2}, [%rd6];
    add.f32 %f1, %f1, %f2;
    st.global.v2.f32 [%rd6], {%f1, %f2};
"""
_GO = """
    bar.sync 0;
    @%p2 bra DONE;
    fence.acq_rel.gpu;
    red.relaxed.gpu.global.add.u32 [%rd4], 1;
    DONE:
"""
#: Each stores a tile by the async proxy, and waits until it is written.
_BULK = """
    mov.f32 %f1, 0f3F800000;
    st.shared.v2.f32 [%r11], {%f1, %f1};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p2 bra ADDED;
    cvt.u64.u32 %rd7, %r5;
    add.u64 %rd8, %rd1, %rd7;
    cp.async.bulk.global.shared::cta.bulk_group [%rd8], [%r10], 512;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ADDED:
"""
_AHEAD = _WAIT.replace("    MET:", "    fence.proxy.async.global;\n    MET:")
_ADDED = _BULK.replace(
    "cp.async.bulk.global.shared::cta.bulk_group",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32",
)
#: The last waits for both others, reads what they left, and sets the flag back.
_LAST = _WAIT.replace("eq.u32 %p1, %r3, 0", "ne.u32 %p1, %r3, 2").replace("%r8, %r3", "%r8, 2")
_PARTS = """
    mul.lo.u32 %r12, %r1, 512;
    add.u32 %r13, %r12, %r6;
    cvt.u64.u32 %rd5, %r13;
    add.u64 %rd6, %rd1, %rd5;
    @%p1 bra LEAVE;
    ld.global.v2.f32 {%f1, %f2}, [%rd6+-512];
    ld.global.v2.f32 {%f1, %f2}, [%rd6+-1024];
    bar.sync 0;
    @%p2 bra DONE;
    st.relaxed.gpu.global.u32 [%rd4], 0;
    bra DONE;
    LEAVE:
    st.global.v2.f32 [%rd6], {%f1, %f2};
"""
_TURNS = """
    ld.param.u32 %r14, [k_turns];
    mov.u32 %r15, 0;
    TURN:
    setp.ge.s32 %p4, %r15, %r14;
    @%p4 bra TURNED;
    {work}
    add.u32 %r15, %r15, 1;
    bra TURN;
    TURNED:
"""
_OUT = """
    mad.lo.u32 %r16, %r1, {}, %r4;
    mul.wide.u32 %rd10, %r16, 4;
    add.u64 %rd11, %rd9, %rd10;
    st.global.u32 [%rd11], %r4;
"""


def _team(wait: str = _WAIT, work: str = _WORK, go: str = _GO, head: str = _HEAD) -> str:
    return module_text(f"{head}{wait}{work}{go}\n    ret;", params=PARAMS)


def _facts(**more: Any) -> dict[str, Any]:
    return {**FACTS, **more}


GOOD = {
    "each after the one before": _team(),
    "a signed division": _team(head=_HEAD.replace("div.u32", "div.s32")),
    "a product instead of a division": _team(
        head=_HEAD.replace(
            "div.u32 %r2, %r1, 3;", "mul.hi.u32 %r18, %r1, -1431655765;\n    shr.u32 %r2, %r18, 1;"
        )
    ),
    "a remainder": _team(head=_HEAD.replace("sub.u32 %r3, %r1, %r9", "rem.u32 %r3, %r1, 3")),
    "a release": _team(go=_GO.replace("    fence.acq_rel.gpu;\n", "").replace("red.relaxed", "red.release")),
    "by the async proxy": _team(_AHEAD, _BULK),
    "added by the async proxy": _team(_AHEAD, _ADDED),
    "the last collects": _team(_LAST, _PARTS),
    "results of their own": _team(work=_WORK + _OUT.format(64)),
    "results at places that a size tells": _team(
        work=_WORK + "    ld.param.u32 %r17, [k_turns];\n" + _OUT.format("%r17")
    ),
    "any number of turns": _team(work=_TURNS.format(work=_WORK)),
}
#: Flags are as they were found.
RESTORED = {"the last collects"}
#: None may be proved; the number of block groups that refutes them.
BAD: dict[str, tuple[str, int]] = {
    "the flag first": (_team(work="", go=_GO + _WORK), 1),
    "no acquire": (_team(_WAIT.replace("ld.acquire.gpu", "ld.relaxed.gpu")), 1),
    "an acquire of one CTA": (_team(_WAIT.replace("ld.acquire.gpu", "ld.acquire.cta")), 1),
    "no fence": (_team(go=_GO.replace("    fence.acq_rel.gpu;\n", "")), 1),
    "a fence of one CTA": (_team(go=_GO.replace("acq_rel.gpu", "acq_rel.cta")), 1),
    "the others do not wait": (_team(_WAIT.replace("    bar.sync 0;\n", "")), 1),
    "the others are not waited for": (_team(go=_GO.replace("    bar.sync 0;\n", "")), 1),
    "waits for less": (_team(_WAIT.replace("%r8, %r3", "%r8, 1")), 1),
    "waits for more": (_team(_WAIT.replace("setp.lt.u32", "setp.le.u32")), 1),
    "the last does not wait": (_team(_WAIT.replace("eq.u32 %p1, %r3, 0", "ne.u32 %p1, %r3, 1")), 1),
    "the source alone is waited for": (_team(_AHEAD, _BULK.replace("wait_group 0", "wait_group.read 0")), 1),
    "the copy is not waited for": (_team(_AHEAD, _BULK.replace("    cp.async.bulk.wait_group 0;\n", "")), 1),
    "the last looks too early": (_team(_LAST.replace("%r8, 2", "%r8, 1"), _PARTS), 1),
    "the flag of the next team": (_team(_WAIT.replace("%r8, [%rd4]", "%r8, [%rd4+4]")), 1),
    "raises the next team's": (_team(go=_GO.replace("u32 [%rd4]", "u32 [%rd4+4]")), 1),
    "sums that overlap": (_team(work=_WORK.replace("st.global.v2.f32 [%rd6", "st.global.v2.f32 [%rd6+8")), 1),
    "sums of the next team": (
        _team(work=_WORK + "    ld.global.v2.f32 {%f3, %f4}, [%rd6+512];\n", go=_GO), 2
    ),
    "sums too close": (_team(head=_HEAD.replace("shl.b32 %r5, %r2, 9", "mul.lo.u32 %r5, %r2, 504")), 2),
    "sums of all": (_team(head=_HEAD.replace("shl.b32 %r5, %r2, 9", "mov.u32 %r5, 0")), 2),
    "results that overlap": (_team(work=_WORK + _OUT.format(63)), 0),  # an exact check leaves them alone
    "teams of another size": (_team(head=_HEAD.replace("%r1, 3", "%r1, 2").replace("%r2, 3", "%r2, 2")), 0),
    "one flag for all": (_team(head=_HEAD.replace("mul.wide.u32 %rd3, %r2, 4", "mov.u64 %rd3, 0")), 0),
    "a flag of two teams": (
        _team(head=_HEAD.replace("mul.wide.u32 %rd3, %r2", "shr.u32 %r18, %r2, 1;\nmul.wide.u32 %rd3, %r18")),
        0,
    ),
    "waits for higher numbers": (
        _team(_WAIT.replace("eq.u32 %p1, %r3, 0", "eq.u32 %p1, %r3, 2").replace("%r8, %r3", "%r8, 1")), 0
    ),
    "control by what is read": (
        _team(work=_WORK + "    ld.global.u32 %r17, [%rd6];\n    setp.eq.u32 %p2, %r17, 0;\n"), 0
    ),
    "turns after the flag": (_team(go=_GO + _TURNS.format(work=_WORK)), 1),
}  # fmt: skip


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The report of one kernel, for all sizes that its launch file leaves open."""

    def run(text: str, facts: dict[str, Any], *options: str) -> dict[str, Any]:
        (tmp_path / "k.ptx").write_text(text)
        lines = [f"{key} = {json.dumps(value)}" for key, value in facts.items() if key != "params"]
        params = [
            f"{i} = {{{', '.join(f'{k} = {json.dumps(v)}' for k, v in x.items())}}}"
            for i, x in facts["params"].items()
        ]
        toml = "\n".join(["[kernel.k]", *lines, "[kernel.k.params]", *params])
        (tmp_path / "k.ptx.launch.toml").write_text(toml + "\n")
        command(["check", str(tmp_path / "k.ptx"), "--format", "json", "--no-advice", *options])
        out = capsys.readouterr()
        (found,) = json.loads(out.out)["kernels"] or [out.err]
        return dict(found)

    return run


@pytest.mark.parametrize("name", GOOD)
def test_teams(name: str, report: Any) -> None:
    found = report(GOOD[name], FACTS)
    assert (found["verdict"], found["scope"]["values"]) == ("proved", {"grid.y": 1, "grid.z": 1}), found.get(
        "reason"
    )
    left = "every launch leaves the flags as it finds them"
    assert (left in found["assumptions"]) is (name in RESTORED)
    assert "flags and counters in global memory are zero at launch" in found["assumptions"]
    assert "blocks start in the order of their numbers" in found["assumptions"]
    own = "no place of out is written twice"
    assert (own in found["assumptions"]) is (name == "results at places that a size tells")
    for teams in (1, 2, 4):
        exact = report(GOOD[name], _facts(grid=[3 * teams, 1, 1], assume=[]), "--param", "N=2")
        assert exact["verdict"] == "proved"


@pytest.mark.parametrize("name", BAD)
def test_no_teams(name: str, report: Any) -> None:
    text, teams = BAD[name]
    assert report(text, FACTS, "--no-replay")["verdict"] != "proved"
    if teams:
        exact = report(text, _facts(grid=[3 * teams, 1, 1], assume=[]), "--param", "N=1")
        assert exact["verdict"] == "refuted"


@pytest.mark.parametrize("grid", ["T * 3 + 1", "T", "T * 2"])
def test_a_grid_is_a_whole_number_of_teams(grid: str, report: Any) -> None:
    assert (
        report(GOOD["each after the one before"], _facts(grid=[grid, "1", "1"]), "--no-replay")["verdict"]
        != "proved"
    )


@pytest.mark.parametrize(("assume", "verdict"), [("B == T * 3", "proved"), ("B >= T * 3", "unknown")])
def test_which_facts_may_say(assume: str, verdict: str, report: Any) -> None:
    text = GOOD["each after the one before"].replace("k_turns", "k_turns, .param .u32 k_teams")
    params = {**FACTS["params"], "4": {"i32": "T"}}
    facts = _facts(grid=["B", "1", "1"], assume=["T >= 1", "B >= 1", assume], params=params)
    assert report(text, facts)["verdict"] == verdict


def test_a_grid_of_several_dimensions_is_none(report: Any) -> None:
    found = report(GOOD["each after the one before"], _facts(grid=["T * 3", "T", "1"]))
    assert found["verdict"] != "proved"


def test_pointers_that_may_be_the_same_are_none(report: Any) -> None:
    facts = _facts(params={**FACTS["params"], "1": {"ptr": "sums"}})
    assert report(GOOD["each after the one before"], facts)["verdict"] != "proved"


# ---------------------------------------------------------------- the text


def _kernel(text: str, facts: dict[str, Any]) -> Any:
    module = parse(text, "k.ptx")
    (f,) = module.entries
    known = ptx_facts(LaunchFacts({"k": facts}, "the launch"), f)
    k = CheckTask(EntryCode(module, f, known), known, Policy.PRACTICAL, None, "")  # type: ignore[arg-type]
    return compiled(k)[1]


@pytest.mark.parametrize("name", GOOD)
def test_the_text_says_how_many_blocks_a_team_has(name: str) -> None:
    assert group_size(_kernel(GOOD[name], FACTS), 1) == 3


@pytest.mark.parametrize(
    ("divided", "size"),
    [
        ("div.u32 %r21, %r1, 4", 0),
        ("and.b32 %r21, %r1, -4", 0),
        ("add.u32 %r21, %r1, 4", 3),
        ("div.u32 %r21, %r1, 6", 6),
    ],
)
def test_all_divisors_must_fit(divided: str, size: int) -> None:
    """``4`` beside ``3`` does not; another sum is no divisor; ``6`` is two block groups of 3."""
    more = f"{divided};\n    sub.u32 %r22, %r21, %r21;\n    add.u32 %r23, %r2, %r22;\n    "
    text = _team(head=_HEAD.replace("mul.wide.u32 %rd3, %r2", f"{more}mul.wide.u32 %rd3, %r23"))
    assert group_size(_kernel(text, FACTS), 1) == size


def test_what_is_compared() -> None:
    program = _kernel(GOOD["results at places that a size tells"], FACTS)
    found = detect_block_groups(program, (1, 1, 1), (None, 1, 1))
    lines = {program.body[k].op for k in found.tracked}
    assert (found.size, lines, found.written) == (3, {"ld", "st", "red"}, ("k_out+0",))
    assert [program.body[k].op for k in found.quiet] == ["st"]


def test_atomics_beside_bulk_reductions_are_none() -> None:
    text = _team(_AHEAD, _ADDED + "    red.global.add.f32 [%rd6], %f1;\n")
    with pytest.raises(NotConcrete, match="atomics and bulk reductions"):
        detect_block_groups(_kernel(text, FACTS), (1, 1, 1), (None, 1, 1))


SEEDS = range(60)


@cache
def _random(seed: int, grid: str | int) -> Verdict:
    """The verdict on a random kernel, for every size or for one."""
    module = parse(Team(seed).text(), "k.ptx")
    params = {"0": {"ptr": "sums"}, "1": {"ptr": "flag"}}
    size = 3 if ", 3;" in Team(seed).text().split("div.u32")[1].split("\n")[0] else 2
    at = f"T * {size}" if isinstance(grid, str) else grid * size
    facts = {"grid": [at, 1, 1], "block": [64, 1, 1], "params": params}
    facts |= {"assume": ["T >= 1"]} if isinstance(grid, str) else {}
    checker = Checker(run_system, prover(Entry.PTX))
    scope = ScopeKind.ALL if isinstance(grid, str) else ScopeKind.EXACT
    (found,) = check_module(
        module, LaunchFacts({"k": facts}, "the launch"), Policy.PRACTICAL, checker, scope=scope
    )
    return found.verdict


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_proved_is_right_in_small_grids(seed: int) -> None:
    if _random(seed, "all") is Verdict.PROVED:
        for teams in range(1, 4):
            assert _random(seed, teams) is Verdict.PROVED


def test_random_teams_are_of_both_kinds() -> None:
    right = [seed for seed in SEEDS[::2] if _random(seed, "all") is Verdict.PROVED]
    assert len(SEEDS) // 16 < len(right) < len(SEEDS) * 7 // 16


def test_its_certificate(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(GOOD["any number of turns"])
    source, facts = files.read_source(tmp_path / "k.ptx"), LaunchFacts({"k": FACTS}, "the launch")
    reports = files.check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    assert [r.verdict for r in reports] == [Verdict.PROVED]
    data = dumps(files.certificates(source, facts, {}, reports))
    (done,) = files.recheck(data, "c.json", source, facts)
    assert (done.kind, done.scope) == ("ptx", ScopeKind.PARTIAL)
    other = LaunchFacts({"k": _facts(grid=["T * 6", "1", "1"])}, "another launch")
    with pytest.raises(RejectedError):
        files.recheck(data, "c.json", source, other)
