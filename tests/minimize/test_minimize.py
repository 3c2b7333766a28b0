"""What minimize leaves out, what it keeps and why, and that nothing needed ever goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.cli.main import run
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel, print_stmt
from syncverify.minimize import Minimized, Reason, minimize
from syncverify.minimize.candidates import synchronizing, taken_out

ROOT = Path(__file__).parents[2]

TWO_BARRIERS = """\
kernel two {
  launch block [64]
  param N : i32 = 3
  shared tile : f32[64]
  for i in 0..N {
    st.shared tile[][tid : 1], 1.0
    bar.sync 0
    bar.sync 0
    ld.shared x, tile[][63 - tid : 1]
    bar.sync 0
  }
}
"""

IDLE_RING = """\
kernel idle {
  launch block [64]
  param N : i32 = 3
  tensor a : f32[64] in
  mbarrier turn
  if tid == 0 {
    mbarrier.init turn, 64
  }
  bar.sync 0
  for i in 0..N {
    mbarrier.arrive turn
    mbarrier.wait turn, i % 2
  }
}
"""


def kernel(text: str) -> Kernel:
    (found,) = parse(text, "k.syncir")
    return found


def corpus(name: str) -> Kernel:
    (found,) = parse((ROOT / "corpus" / name).read_text("utf-8"), name)
    return found


def gone(m: Minimized) -> list[list[str]]:
    return [[print_stmt(s) for s in r.stmts] for r in m.removed]


def test_one_of_two_equal_barriers_goes() -> None:
    m = minimize(kernel(TWO_BARRIERS))
    assert gone(m) == [["bar.sync 0"]]
    assert (m.total, m.needed, m.kept) == (3, 2, ())
    assert check_kernel(m.kernel).verdict is Verdict.PROVED


def test_the_result_is_minimal() -> None:
    left = minimize(kernel(TWO_BARRIERS)).kernel
    for path in synchronizing(left.body):
        assert check_kernel(taken_out(left, frozenset({path}))).verdict is Verdict.REFUTED


def test_a_protocol_goes_as_a_whole_where_each_part_would_be_missed() -> None:
    m = minimize(kernel(IDLE_RING))
    assert m.kernel.body == () and m.kernel.barriers == () and m.needed == 0
    assert max(len(r.stmts) for r in m.removed) == 3


def test_a_refuted_kernel_is_left_alone() -> None:
    broken = kernel(TWO_BARRIERS.replace("bar.sync 0", "warp.sync"))
    m = minimize(broken)
    assert m.report.verdict is Verdict.REFUTED and m.kernel is broken and m.removed == ()


def test_idioms_of_the_corpus_need_what_they_have() -> None:
    assert gone(minimize(corpus("idioms/cp_async_multistage.syncir"))) == []
    # CTA 0 waits for the data of all others, so nobody leaves too early
    assert gone(minimize(corpus("idioms/st_async_reduction.syncir"))) == [
        ["cluster.wait"],
        ["cluster.arrive"],
    ]


def test_what_orders_global_memory_stays() -> None:
    m = minimize(corpus("idioms/D14_programmatic_launch.syncir"))
    assert [(print_stmt(k.stmts[0]), k.reason) for k in m.kept] == [
        ("griddep.wait", Reason.GLOBAL),
        ("fence.mbarrier_init", Reason.GLOBAL),
    ]


def test_a_contested_fence_is_needed_strictly() -> None:
    """What was read has been stored by then: practice asks for no fence (K1)."""
    text = print_kernel(corpus("rulebook/E07d_stored_before_release.good.syncir"))
    arrive = "mbarrier.arrive empty[i % 3]"
    assert text.count(arrive) == 1
    ring = kernel(text.replace(arrive, f"fence.proxy.async.shared_cta\n      {arrive}"))
    assert [k.reason for k in minimize(ring).kept] == [Reason.CONTESTED]
    assert minimize(ring, policy=Policy.STRICT).kept == ()


# ---------------------------------------------------------------- the command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.syncir"
    path.write_text(TWO_BARRIERS)
    return path


def test_text_names_line_and_statement(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["minimize", str(file)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "two: 2 of 3 synchronizing statements are needed (every size, practical)"
    assert second == f"  {file}:8: can go: bar.sync 0"


def test_json_holds_the_same(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["minimize", str(file), "--format", "json", "--exact", "--param", "N=2"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["kernels"]
    assert found["scope"]["kind"] == "exact" and found["scope"]["values"] == {"N": 2}
    assert (found["statements"], found["needed"]) == (3, 2)
    assert found["removable"] == [[{"line": 8, "text": "bar.sync 0"}]]


def test_the_written_kernel_is_proved_and_minimal(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = file.with_name("out.syncir")
    assert run(["minimize", str(file), "--write", str(out)]) == 0
    capsys.readouterr()
    assert run(["check", str(out)]) == 0
    assert out.read_text().count("bar.sync") == 2


def test_exit_statuses(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TWO_BARRIERS.replace("bar.sync 0", "warp.sync"))
    assert run(["minimize", str(file)]) == 1
    assert run(["minimize", str(tmp_path / "missing.syncir")]) == 2
    assert run(["minimize", str(file), "--kernel", "other"]) == 2
    assert run(["minimize", str(ROOT / "corpus/ptx/async_store.good.ptx"), "--write", "x"]) == 2


def test_ptx_operations_are_named_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["minimize", str(ROOT / "corpus/ptx/async_store.good.ptx")]) == 0
    out = capsys.readouterr().out
    assert "7 of 8 synchronizing operations are needed" in out
    assert "async_store.good.ptx:105: can go: barrier.cluster.wait.acquire.aligned" in out
