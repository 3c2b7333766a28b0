"""Global memory before the grid before has ended: what is read there is said to be left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.cli.check import FORMATS
from syncverify.cli.main import run
from syncverify.driver.acceptance import asked
from syncverify.driver.certificates import Rechecked, dumps
from syncverify.driver.files import certificates, check_source, read_source, recheck
from syncverify.frontends.launch_facts import LaunchFacts
from tests.checker.kernel.exact.test_same_values import judged

TEXT = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n, .param .u64 out)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    .shared .align 8 .b8 full[8];
    .shared .align 128 .b8 tile[128];
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r2, [n];
    ld.param.u64 %rd2, [out];
    mov.u32 %r4, %tid.x;
    setp.eq.u32 %p0, %r4, 0;
    mov.u32 %r3, 0;
    mbarrier.init.shared::cta.b64 [full], 1;
    fence.proxy.async.shared::cta;
    {before}
    griddepcontrol.wait;
    {behind}
TURN:
    bar.sync 0;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, {turns};
    @%p1 bra TURN;
    ret;
}}
"""
LOAD = """mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 128, [full];
READ:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    @!%p2 bra READ;"""
STORE = """@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [tile], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;"""
PARAMS = {"0": {"ptr": "data", "align": 128}, "1": {"i32": "N"}, "2": {"ptr": "out", "align": 128}}
#: Three laps before the wait: in some of them one line reads, in some another; states repeat between them.
LAPS = """LAP:
    setp.gt.u32 %p3, %r3, 5;
    @%p3 bra ELSE;
    cp.async.ca.shared.global [tile], [%rd1], 4;
    cp.async.wait_all;
    bra JOIN;
ELSE:
    cp.async.ca.shared.global [tile], [%rd1+4], 4;
    cp.async.wait_all;
JOIN:
    bar.sync 0;
    st.shared.u32 [tile], 0;
    bar.sync 0;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p3, %r3, %r2;
    @%p3 bra LAP;
    fence.proxy.async.shared::cta;"""
GIVEN = "N >= 1"
FACTS = {"kernel": {"k": {"block": [1], "grid": [1], "params": PARAMS, "assume": [GIVEN]}}}


def text(before: str, behind: str, turns: str = "2") -> str:
    return TEXT.format(before=before, behind=behind, turns=turns)


def followed(body: str, tmp_path: Path) -> Rechecked:
    """The certificate of a proof, and what the kernel's acceptance adds to its report."""
    path = tmp_path / "k.ptx"
    path.write_text(body)
    source, facts = read_source(path), LaunchFacts.of(FACTS)
    (report,) = check_source(source, facts=facts, scope=ScopeKind.ALL, replay=False)
    assert report.verdict is Verdict.PROVED
    (done,) = recheck(dumps(certificates(source, facts, {}, [report])), "c.json", source, facts)
    (told,) = asked(source, facts, {}, [report])
    assert told.acceptance.kernel and set(done.assumptions) <= {GIVEN, *told.assumptions}
    return done


def of_the_grid_before(done: Rechecked) -> list[str]:
    """What is assumed of it, without lines."""
    return [x.split(": ")[1] for x in sorted(set(done.assumptions)) if "leaves it alone" in x]


@pytest.mark.parametrize(
    ("before", "behind", "said"),
    [(LOAD, STORE, ("proved", "holds")), ("", STORE, ("proved", "holds")),
     (STORE, "", ("refuted", "rejected")), (LOAD + STORE, "", ("refuted", "rejected"))],
)  # fmt: skip
def test_reads_alone_may_come_before(before: str, behind: str, said: tuple[str, str]) -> None:
    assert judged(text(before, behind), 1) == said


@pytest.mark.parametrize("turns", ["2", "%r2"])
def test_what_is_assumed_of_them_is_said(turns: str, tmp_path: Path) -> None:
    done = followed(text(LOAD, STORE, turns), tmp_path)
    assert done.judged
    assert of_the_grid_before(done) == ["the grid before leaves it alone"]
    assert of_the_grid_before(followed(text("", STORE, turns), tmp_path)) == []


def test_reads_on_ways_that_end_where_others_came_are_said_too(tmp_path: Path) -> None:
    done = followed(text(LAPS, STORE), tmp_path)
    assert done.judged and len(of_the_grid_before(done)) == 2


def test_without_a_wait_nothing_is_assumed(tmp_path: Path) -> None:
    alone = text(LAPS, STORE).replace("griddepcontrol.wait;", "")
    assert of_the_grid_before(followed(alone, tmp_path)) == []


_LAUNCH = """[kernel.k]
block = [1]
grid = [1]
assume = ["N >= 1"]
params.0 = { ptr = "data", align = 128 }
params.1 = { i32 = "N" }
params.2 = { ptr = "out", align = 128 }
"""


def test_every_format_says_each_line(tmp_path: Path) -> None:
    kernel, launch = tmp_path / "k.ptx", tmp_path / "k.toml"
    kernel.write_text(text(LAPS, STORE))
    launch.write_text(_LAUNCH)
    lines = [k for k, line in enumerate(kernel.read_text().splitlines(), 1) if "cp.async.ca" in line]
    out = {x: tmp_path / f"out.{x}" for x in ("text", *FORMATS)}
    to = [word for form, path in out.items() for word in ("-o", f"{form}:{path}")]
    options = ["--no-cache", "--require", "kernel", "--launch", str(launch)]
    assert run(["check", *options, *to, str(kernel)]) == 0
    for form, path in out.items():
        said = path.read_text()
        assert all(f"line {k}: the grid before leaves it alone" in said for k in lines), form
