"""Programmatic launch: what a kernel touches before griddepcontrol.wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy, Severity, Verdict
from syncverify.cli.main import run as command
from syncverify.driver.verdicts import run_system
from syncverify.gate.ptx_check import launch_facts
from syncverify.matmul import product
from syncverify.matmul.pipeline import build
from syncverify.matmul.schedule import Schedule
from tests.frontends.ptx.execute_helpers import module_text, system
from tests.frontends.ptx.global_helpers import FACTS, PARAMS, first, line

EARLY_READ = """
    .shared .align 8 .b8 full[8];
    .shared .align 128 .b8 tile[128];
    mov.u64 %rd1, 65536;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 128, [full];
    READY:
    griddepcontrol.wait;
    bar.sync 0;
    WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra WAIT;
    ret;
"""
EARLY_WRITE = """
    .shared .align 128 .b8 tile[128];
    mov.u64 %rd1, 65536;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    READY:
    griddepcontrol.wait;
    ret;
"""


def judge(body: str, policy: Policy) -> tuple[Verdict, list[tuple[str, Severity]]]:
    outcome = run_system(system(body), policy)
    return outcome.verdict, [(d.rule, d.severity) for d in outcome.diagnostics]


def test_an_early_read_is_right_if_the_grid_before_leaves_its_source_alone() -> None:
    verdict, found = judge(EARLY_READ, Policy.PRACTICAL)
    assert verdict is Verdict.PROVED
    assert found == [("SV503", Severity.WARNING)]


@pytest.mark.parametrize(("body", "policy"), [(EARLY_READ, Policy.STRICT), (EARLY_WRITE, Policy.PRACTICAL)])
def test_early_reads_in_strict_mode_and_early_writes_are_refuted(body: str, policy: Policy) -> None:
    verdict, found = judge(body, policy)
    assert verdict is Verdict.REFUTED
    assert ("SV503", Severity.ERROR) in found


# ---------------------------------------------------------------- the launch file says it

LAUNCHED = FACTS.replace("block = [32]", "block = [64]\ndependent = true")
#: Two warps; each place at which something may stand is by its name.
WARPS = """
    .shared .align 8 .b8 flag[8];
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, 32;
    setp.ge.u32 %p2, %r1, {N};
    {FIRST}
    @%p1 bra MET;
    {BY_ONE_WARP}
    MET: bar.sync 0;
    {LAST}
    ret;
"""
WAIT = "griddepcontrol.wait;"
#: The same accesses, in several forms.
ACCESSES = [
    "ld.global.u32 %r2, [%rd1];",
    "ld.global.nc.u32 %r2, [%rd1];",
    "st.global.u32 [%rd1], %r1;",
    "red.global.add.u32 [%rd1], 1;",
    "atom.global.add.u32 %r2, [%rd1], 1;",
    "ld.u32 %r2, [%rd1];",
    "@!%p2 st.u32 [%rd1], %r1;",
    "cp.async.ca.shared.global [flag], [%rd1], 8;\n    cp.async.wait_all;",
]


def warps(first: str = "", by_one_warp: str = "", last: str = "", n: int = 8) -> str:
    body = WARPS.replace("{FIRST}", first).replace("{BY_ONE_WARP}", by_one_warp).replace("{LAST}", last)
    return module_text(body.replace("{N}", str(n)), params=PARAMS)


@pytest.mark.parametrize("access", ACCESSES)
def test_a_dependent_launch_has_to_wait_before_it_accesses_global_memory(check: Any, access: str) -> None:
    early = warps(by_one_warp=first_lane(access), last=WAIT)
    assert first(check(early, 2, LAUNCHED)) == ("SV503", line(early, access.split(";")[0]))
    never = warps(by_one_warp=first_lane(access))
    assert first(check(never, 2, LAUNCHED)) == ("SV503", line(never, access.split(";")[0]))
    good = warps(first=WAIT, by_one_warp=first_lane(access))
    assert check(good, 2, LAUNCHED)["verdict"] == "proved"


def first_lane(access: str) -> str:
    return f"setp.ne.u32 %p3, %r1, 0;\n    @%p3 bra MET;\n    {access}"


def test_nothing_is_asked_where_no_launch_fact_says_so(check: Any) -> None:
    without = LAUNCHED.replace("dependent = true\n", "")
    for facts in (without, LAUNCHED.replace("true", "false")):
        assert check(warps(last=ACCESSES[0]), 2, facts)["verdict"] == "proved"


def test_another_warp_s_wait_counts_behind_a_barrier(check: Any) -> None:
    assert check(warps(by_one_warp=WAIT, last=ACCESSES[2]), 2, LAUNCHED)["verdict"] == "proved"
    text = warps(first=ACCESSES[2].replace("st.", "@%p1 st."), by_one_warp=WAIT)
    assert first(check(text, 2, LAUNCHED)) == ("SV503", line(text, "@%p1 st.global"))


def test_what_a_kernel_reads_of_itself_need_not_wait(check: Any) -> None:
    own = "st.shared.u32 [flag], %r1;\n    ld.shared.u32 %r2, [flag];\n    prefetch.global.L2 [%rd1];"
    assert (
        check(warps(by_one_warp=first_lane(own), last=f"{WAIT}\n    {ACCESSES[0]}"), 2, LAUNCHED)["verdict"]
        == "proved"
    )


def test_for_every_size_as_well(check: Any) -> None:
    body = """
    .shared .align 8 .b8 full[8];
    .shared .align 128 .b8 tile[128];
    ld.param.u64 %rd1, [k_out];
    ld.param.u32 %r3, [k_n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r4, 0;
    {WAIT}
    LOOP:
    bar.sync 0;
    st.global.u32 [%rd1], %r4;
    add.u32 %r4, %r4, 1;
    setp.lt.s32 %p1, %r4, %r3;
    @%p1 bra LOOP;
    ret;
"""
    facts = LAUNCHED.replace("i32 = 3", 'i32 = "n"')
    assert "n" in facts
    good = check(module_text(body.replace("{WAIT}", WAIT), params=PARAMS), 2, facts)
    assert (good["verdict"], good["scope"]["kind"]) == ("proved", "partial")
    assert first(check(module_text(body.replace("{WAIT}", ""), params=PARAMS), 2, facts))[0] == "SV503"


def test_the_witness_can_be_stepped_through(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(warps(first=f"{ACCESSES[2]}\n    {WAIT}"))
    (tmp_path / "k.ptx.launch.toml").write_text(LAUNCHED.format(grid=1))
    assert command(["check", str(path), "--witness-dir", str(tmp_path), "-o", str(tmp_path / "r")]) == 1
    assert command(["replay", str(tmp_path / "k.json"), "--quiet"]) == 0


@pytest.mark.parametrize("value", ["1", '"yes"', "[true]"])
def test_the_fact_is_true_or_false(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(warps())
    launch = tmp_path / "k.ptx.launch.toml"
    launch.write_text(LAUNCHED.format(grid=1).replace("true", value))
    assert command(["check", str(path)]) == 2
    assert f"{launch}: dependent: give true or false" in capsys.readouterr().err


def test_a_kernel_of_the_text_form_says_it_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.syncir"
    path.write_text("kernel k {\n  launch grid [1] block [32] dependent\n  griddep.wait\n}\n")
    launch = tmp_path / "k.toml"
    launch.write_text("[kernel.k]\ndependent = true\n")
    assert command(["check", str(path), "--launch", str(launch)]) == 0
    launch.write_text("[kernel.k]\ndependent = false\n")
    assert command(["check", str(path), "--launch", str(launch)]) == 2
    assert "states itself is dependent" in capsys.readouterr().err


def test_the_gate_says_it_of_products() -> None:
    told = {d: launch_facts(build(product(), Schedule(dependent=d))).tables["matmul"] for d in (False, True)}
    assert "dependent" not in told[False]
    assert told[True]["dependent"] is True


WEIGHTS = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 w, .param .u64 x, .param .u64 o)
.maxntid 32, 1, 1
{{
.reg .b32 %r<9>;
.reg .f32 %f<9>;
.reg .b64 %rd<9>;
ld.param.u64 %rd1, [w];
ld.param.u64 %rd2, [x];
ld.param.u64 %rd3, [o];
ld.global.f32 %f1, [{first}];
griddepcontrol.wait;
ld.global.f32 %f2, [%rd2];
add.f32 %f3, %f1, %f2;
st.global.f32 [%rd3], %f3;
ret;
}}
"""
LAUNCH = """[kernel.k]
grid = [1, 1, 1]
dependent = true
[kernel.k.params]
0 = {{ptr = "W"{told}}}
1 = {{ptr = "X"}}
2 = {{ptr = "O"}}
"""


@pytest.mark.parametrize(
    ("first", "told", "status"),
    [("%rd1", "", 1), ("%rd1", ", written_before = false", 0), ("%rd2", ", written_before = false", 1)],
)
def test_weights_that_the_grid_before_does_not_write(
    tmp_path: Path, first: str, told: str, status: int
) -> None:
    (tmp_path / "k.ptx").write_text(WEIGHTS.format(first=first))
    (tmp_path / "k.ptx.launch.toml").write_text(LAUNCH.format(told=told))
    assert command(["check", str(tmp_path / "k.ptx")]) == status


def test_what_is_written_before_is_true_or_false(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "k.ptx").write_text(WEIGHTS.format(first="%rd1"))
    (tmp_path / "k.ptx.launch.toml").write_text(LAUNCH.format(told=', written_before = "no"'))
    assert command(["check", str(tmp_path / "k.ptx")]) == 2
    assert "written_before: give true or false" in capsys.readouterr().err


@pytest.mark.parametrize("early", ["ld.global.u32 %r2, [%rd1];", "st.global.u32 [%rd1], %r1;"])
def test_what_comes_before_the_wait_is_said_where_nobody_says_that_a_grid_runs_before(
    early: str, check: Any
) -> None:
    body = "mov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [k_out];\n{}\ngriddepcontrol.wait;\n{}\nret;"
    for before, after in ((early, ""), ("", early)):
        text = module_text(body.format(before, after), params=PARAMS)
        report = check(text, grid=1)
        assert report["verdict"] == "proved"
        said = f"line {line(text, early)}: the grid before leaves it alone"
        assert (said in report["assumptions"]) is bool(before)
