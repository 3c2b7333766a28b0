"""Repairs as edits of the text, each applied to the file and checked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import (
    Diagnostic,
    EditHint,
    EditKind,
    KernelReport,
    Mistake,
    Repair,
    Severity,
    TextEdit,
    Verdict,
)
from syncverify.base.source import Span
from syncverify.driver.files import check_source, read_source
from syncverify.driver.repairs.author_functions import barrier_calls, functions
from syncverify.driver.repairs.author_statements import Lines
from syncverify.driver.repairs.guessed_edits import guesses
from syncverify.driver.repairs.judged import Judged
from syncverify.driver.repairs.text_edits import _RANKS, _holding, _is_worse, candidates
from syncverify.driver.repairs.text_edits import _edits as _tried
from syncverify.frontends.launch_facts import LaunchFacts, read_facts

GALLERY = Path(__file__).parents[3] / "corpus" / "gallery"
RING = (GALLERY / "ring.cu").read_text("utf-8")


PARITY = EditHint(EditKind.OTHER_PARITY)


def _edit(report: KernelReport) -> TextEdit | None:
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    return None if first.repair is None else first.repair.edit


def _checked(path: Path, text: str, facts: LaunchFacts) -> KernelReport:
    path.write_text(text, "utf-8")
    (report,) = check_source(read_source(path), facts=facts)
    return report


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("r / STAGES + 1) & 1", "r / STAGES) & 1", "        barrier_wait(&empty[s], (r / STAGES + 1) & 1);"),
        ("&empty[s], CONSUMERS", "&empty[s], CONSUMERS + 1", "      barrier_init(&empty[s], CONSUMERS);"),
        ("&full[s], WIDTH * 4", "&full[s], WIDTH * 8", "        barrier_expect(&full[s], 2048);"),
    ],
)
def test_the_edit_of_a_cuda_source_is_what_was_checked(tmp_path: Path, old: str, new: str, line: str) -> None:
    facts = read_facts(GALLERY / "ring.cu.launch.toml")
    wrong = RING.replace(old, new, 1)
    edit = _edit(_checked(tmp_path / "ring.cu", wrong, facts))
    assert edit is not None and edit.new == (line,)
    lines = wrong.split("\n")
    at = edit.line - 1
    assert tuple(lines[at : at + len(edit.old)]) == edit.old
    mended = "\n".join([*lines[:at], *edit.new, *lines[at + len(edit.old) :]])
    assert _checked(tmp_path / "ring.cu", mended, facts).verdict is Verdict.PROVED


def _applied(text: str, edit: TextEdit) -> str:
    lines = text.split("\n")
    at = edit.line - 1
    assert tuple(lines[at : at + len(edit.old)]) == edit.old
    return "\n".join([*lines[:at], *edit.new, *lines[at + len(edit.old) :]])


def test_two_mistakes_are_mended_one_after_the_other(tmp_path: Path) -> None:
    facts = read_facts(GALLERY / "ring.cu.launch.toml")
    path = tmp_path / "ring.cu"
    text = RING.replace("(r / STAGES + 1) & 1", "(r / STAGES) & 1", 1)
    text = text.replace("      fence_async();\n      barrier_arrive", "      barrier_arrive", 1)
    report = _checked(path, text, facts)
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert first.rule == "SV210" and first.repair is not None and first.repair.edit is not None
    assert first.repair.left is not None and first.repair.left.rule == "SV105"
    text = _applied(text, first.repair.edit)
    report = _checked(path, text, facts)
    second = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert (second.rule, second.span) == (first.repair.left.rule, first.repair.left.span)
    assert second.repair is not None and second.repair.edit is not None and second.repair.left is None
    assert _checked(path, _applied(text, second.repair.edit), facts).verdict is Verdict.PROVED


CHANNEL = """
constexpr int PRODUCERS = 64, CONSUMERS = 128, ALL = PRODUCERS + CONSUMERS;
struct Named {
  int threads, id;
  __device__ void wait() const { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
  __device__ void arrive() const { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
};
__device__ Named full(int slot) { return Named{ALL, 1 + slot}; }
__device__ Named empty(int slot) {
  return Named{CONSUMERS + 32, 3 + slot};
}
extern "C" __global__ void __launch_bounds__(192) fold(const float* src, float* dst) {
  __shared__ float rows[2][256];
  if (threadIdx.x >= CONSUMERS) {
    for (int r = 0; r < 6; ++r) {
      int b = r & 1;
      empty(b).wait();
      for (int i = threadIdx.x - CONSUMERS; i < 256; i += PRODUCERS) rows[b][i] = src[r * 256 + i];
      full(b).arrive();
    }
  } else {
    empty(0).arrive();
    empty(1).arrive();
    for (int r = 0; r < 6; ++r) {
      int b = r & 1;
      full(b).wait();
      float x = rows[b][threadIdx.x] + rows[b][threadIdx.x + 128];
      if (r + 2 < 6) empty(b).arrive();
      dst[r * 128 + threadIdx.x] = x;
    }
  }
}
"""


@pytest.mark.parametrize(
    ("count", "line"),
    [
        ("CONSUMERS + 32", "  return Named{192, 3 + slot};"),
        ("FEW", "  return Named{192, 3 + slot};"),
    ],
)
def test_a_count_is_mended_where_the_author_gives_it(tmp_path: Path, count: str, line: str) -> None:
    text = "constexpr int FEW = 96;\n" + CHANNEL.replace("CONSUMERS + 32", count)
    facts = LaunchFacts()
    report = _checked(tmp_path / "fold.cu", text, facts)
    edit = _edit(report)
    assert edit is not None and edit.new == (line,)
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert "192 come to it" in first.message
    assert _checked(tmp_path / "fold.cu", _applied(text, edit), facts).verdict is Verdict.PROVED


def test_a_number_in_a_header_is_mended_in_the_call_that_gives_it(tmp_path: Path) -> None:
    """The announcement stands in a header, and the source gives its bytes three functions away."""
    start = RING.index("__device__ uint32_t shared_address")
    end = RING.index('extern "C"')
    begin = """
struct Feed {
  uint64_t* full;
  int amount;
  __device__ Feed(uint64_t* full, int amount) : full(full), amount(amount) {}
  __device__ void begin(int s) {
    barrier_expect(&full[s], amount);
  }
};
"""
    header = RING[: RING.index("constexpr")] + RING[start:end] + begin
    (tmp_path / "feed.cuh").write_text("#pragma once\n" + header, "utf-8")
    constants = next(line for line in RING.split("\n") if line.startswith("constexpr"))
    text = '#include "feed.cuh"\n' + constants + "\n" + RING[end:]
    text = text.replace("barrier_expect(&full[s], WIDTH * 4);", "feed.begin(s);")
    text = text.replace("      for (int r = 0", "      Feed feed(full, WIDTH * 2);\n      for (int r = 0", 1)
    facts = read_facts(GALLERY / "ring.cu.launch.toml")
    report = _checked(tmp_path / "ring.cu", text, facts)
    edit = _edit(report)
    assert edit is not None and edit.new == ("      Feed feed(full, 2048);",)
    assert _checked(tmp_path / "ring.cu", _applied(text, edit), facts).verdict is Verdict.PROVED


IR = """kernel k {
  launch grid [1] block [64]
  mbarrier done
  if tid == 0 {
    mbarrier.init done, 33
  }
  bar.sync 0
  if warp == 0 {
    mbarrier.arrive done
  } else {
    mbarrier.wait done, 0
  }
}
"""


def test_the_edit_of_an_ir_kernel(tmp_path: Path) -> None:
    edit = _edit(_checked(tmp_path / "k.syncir", IR, LaunchFacts()))
    assert edit is not None and (edit.line, edit.new) == (5, ("    mbarrier.init done, 32",))


def test_what_lies_in_another_file_is_not_edited(tmp_path: Path) -> None:
    (tmp_path / "ring.cuh").write_text(RING.replace("r / STAGES + 1) & 1", "r / STAGES) & 1"), "utf-8")
    facts = read_facts(GALLERY / "ring.cu.launch.toml")
    report = _checked(tmp_path / "ring.cu", '#include "ring.cuh"\n', facts)
    assert report.verdict is Verdict.REFUTED and _edit(report) is None


@pytest.mark.parametrize(
    ("hint", "line", "kind", "first"),
    [
        (PARITY, "  wait(&b, (i / 2) & 1);  // in", "cu", "  wait(&b, (i / 2 + 1) & 1);  // in"),
        (PARITY, "  wait(&b, (i + 1) % 2);", "cu", "  wait(&b, (i) % 2);"),
        (PARITY, "  wait(&b, phase);", "cu", "  wait(&b, (phase) ^ 1);"),
        (PARITY, "  mbarrier.wait b, i // 2", "syncir", "  mbarrier.wait b, (i // 2 + 1) % 2"),
        (PARITY, "mbarrier.try_wait.parity.b64 p, [a], 1;", "ptx",
         "mbarrier.try_wait.parity.b64 p, [a], 0;"),
        (EditHint(EditKind.NUMBER, 64), "  init(&b[2], N);", "cu", "  init(&b[2], 64);"),
        (EditHint(EditKind.NUMBER, 96), 'asm("bar.sync 1, 128;");', "cu", 'asm("bar.sync 1, 96;");'),
    ],
)  # fmt: skip
def test_the_first_candidate_of_a_line(hint: EditHint, line: str, kind: str, first: str) -> None:
    _, old, new = next(candidates(hint, [line], 1, kind))
    assert (old, new) == ((line,), (first,))


@pytest.mark.parametrize(
    ("hint", "text", "line", "first"),
    [
        # what the author has: a name less one, a function, a call elsewhere, an alias, the body of a method
        (EditHint(EditKind.NUMBER, 2), "  wait_prior(N - 1);", 1, (1, ("  wait_prior(N - 2);",))),
        (EditHint(EditKind.NUMBER, 128), "  init(&b, N * 4);", 1, (1, ("  init(&b, 128);",))),
        (EditHint(EditKind.FENCE), "  x = s[i];\n  ptx::fence_proxy_async(ptx::space_shared);", 1,
         (2, ("  ptx::fence_proxy_async(ptx::space_shared);",))),
        (EditHint(EditKind.FENCE), "  x = s[i];\n  ptx::fence_proxy_async(ptx::space_global);", 1,
         (2, ('  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',))),
        (EditHint(EditKind.INSTRUCTION, name="bar.warp.sync 0xffffffff"), "  x = s[i];", 1,
         (2, ("  __syncwarp();",))),
        (EditHint(EditKind.INSTRUCTION, name="barrier.cluster.arrive; barrier.cluster.wait"),
         "  auto all = cg::this_cluster();\n  x = s[i];", 2, (3, ("  all.sync();",))),
        (EditHint(EditKind.NUMBER, 256), "using Full = Named<1, 128>;\n  Full::sync();", 2,
         (1, ("using Full = Named<1, 256>;",))),
        (EditHint(EditKind.ARRIVE_TOO, 4), "  Empty<0>::arrive();\n  if (i) Empty<1>::arrive();", 1,
         (2, ("  Empty<1>::arrive();",))),
        (EditHint(EditKind.BARRIER_ID, 2), "  Full<0>::sync();", 1, (1, ("  Full<2>::sync();",))),
    ],
)  # fmt: skip
def test_the_first_candidate_is_in_the_words_of_the_file(
    hint: EditHint, text: str, line: int, first: tuple[int, tuple[str, ...]]
) -> None:
    at, _, new = next(candidates(hint, text.split("\n"), line, "cu"))
    assert (at, new) == first


METHOD = """struct W {
  __device__ void before() {
    asm volatile("cp.async.bulk.wait_group.read 2;" ::: "memory");
  }
};
__global__ void k() {
  w.before();
}"""


def test_a_number_may_stand_in_the_function_that_is_called() -> None:
    text = Lines(METHOD.split("\n"), "cu")
    assert text.lines_of("before") == range(2, 5) and not text.lines_of("k") and not text.lines_of("x")
    mended = Repair(Mistake.LAX_WAIT, Span("w.cu", 7), "leave 1", EditHint(EditKind.NUMBER, 1))
    changed = {r.span.line: r.edit.new for r in _tried(mended, "w.cu", text) if r.edit is not None}
    assert changed[3] == ('    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");',)


ORDER = """struct Order {
  unsigned long long turn[2];
  __device__ void leave(int group) { sync::arrive(&turn[group]); }
};
__global__ void k() {
  s.order.leave(group);
}"""


def test_a_slot_may_stand_in_the_method_that_is_called() -> None:
    hint = EditHint(EditKind.SLOT, name="s.order.turn", models=(6,), names=("s.order.turn",), size=2)
    mended = Repair(Mistake.OTHER_BARRIER, Span("o.cu", 6), "the next one", hint)
    text = Lines(ORDER.split("\n"), "cu")
    first = next(r.edit for r in _tried(mended, "o.cu", text) if r.edit is not None)
    assert first.new == ("  __device__ void leave(int group) { sync::arrive(&turn[group ^ 1]); }",)


class _Judge:
    """Says of every launch with a text what a table says of its first line; each one launch is proved."""

    def __init__(self, everywhere: dict[str, Verdict]) -> None:
        self.everywhere = everywhere

    def __call__(self, text: str, *, everywhere: bool) -> Judged:
        return Judged(self.everywhere[text.split("\n")[0]] if everywhere else Verdict.PROVED)


@pytest.mark.parametrize(
    ("verdicts", "line", "elsewhere"),
    [
        ([Verdict.REFUTED, Verdict.UNKNOWN, Verdict.PROVED], "c", Verdict.PROVED),
        ([Verdict.REFUTED, Verdict.UNKNOWN, Verdict.REFUTED], "b", Verdict.UNKNOWN),
        ([Verdict.REFUTED, Verdict.REFUTED, Verdict.REFUTED], "a", Verdict.REFUTED),
    ],
)
def test_what_is_proved_at_every_launch_comes_first(
    verdicts: list[Verdict], line: str, elsewhere: Verdict
) -> None:
    judge, text = _Judge(dict(zip("abc", verdicts, strict=True))), Lines(["x", "y"], "cu")
    found: list[Repair] = []
    held = None
    for new in "abc":
        edit = TextEdit("f.cu", 1, ("x",), (new,))
        mended = Repair(Mistake.COUNT, Span("f.cu", 1), new, edit=edit)
        held = held or _holding(mended, text, judge, found, wide=True)
    best = held or min(found, key=lambda r: _RANKS.index(r.elsewhere))
    assert (best.text, best.elsewhere) == (line, elsewhere)


@pytest.mark.parametrize(
    ("elsewhere", "of_events", "worse"),
    [
        (Verdict.REFUTED, "commit in every turn", True),
        (Verdict.REFUTED, "leave 0 groups pending", False),
        (Verdict.REFUTED, None, False),
        (Verdict.UNKNOWN, "commit in every turn", False),
    ],
)
def test_words_alone_before_an_edit_that_another_launch_refutes(
    elsewhere: Verdict, of_events: str | None, worse: bool
) -> None:
    at = Span("f.cu", 1)
    best = Repair(Mistake.LAX_WAIT, at, "leave 0 groups pending", elsewhere=elsewhere)
    first = Repair(Mistake.MISSING_COMMIT, at, of_events) if of_events is not None else None
    assert _is_worse(best, first, [best]) is worse


def test_a_register_is_not_edited() -> None:
    line = "mbarrier.try_wait.parity.b64 p, [a], %r1;"
    assert not list(candidates(PARITY, [line], 1, "ptx"))


def test_a_fence_comes_behind_the_statement() -> None:
    lines = ["  for (int i = 0; i < n;", "       ++i)", "    x[i] = 0;", "  f();"]
    ((at, old, new),) = candidates(EditHint(EditKind.FENCE), lines, 2, "cu")
    assert (at, old, len(new)) == (4, (), 1) and "fence.proxy.async.shared::cta" in new[0]


def test_a_release_stays_in_its_block() -> None:
    lines = ["  {", "    arrive();", "    use();", "    more();", "  }", "  end();"]
    found = [new for _, _, new in candidates(EditHint(EditKind.LATER), lines, 2, "cu")]
    assert found == [("    use();", "    arrive();"), ("    use();", "    more();", "    arrive();")]


def test_a_line_with_more_than_the_statement_is_not_moved() -> None:
    late = EditHint(EditKind.LATER, fenced=True)
    lines = ["for (int k = 0; k < n; ++k) { wait(&f, k & 1); arrive(&e); acc += s[k]; }", "o[0] = acc;"]
    assert list(candidates(late, lines, 1, "cu")) == []
    assert list(candidates(EditHint(EditKind.REMOVE), ["arrive(&e); acc += s[0];"], 1, "cu")) == []
    assert list(candidates(EditHint(EditKind.NUMBER, 0), ["for (int k = 0; k < 4; ++k) f();"], 1, "cu")) == []
    assert list(candidates(EditHint(EditKind.REMOVE), ["if (t == 0) arrive(&e);"], 1, "cu"))


@pytest.mark.parametrize(
    ("hint", "line", "new"),
    [
        (PARITY, "while (!test(&bar[s], i & 1)) { }", "while (!test(&bar[s], (i + 1) & 1)) { }"),
        (
            EditHint(EditKind.SLOT, name="took", models=(2,), names=("took", "got")),
            "ARRIVE(&took[g][0]);\nWAIT(&got[g][i & 1], p);",
            "ARRIVE(&took[g][i & 1]);",
        ),
        (
            EditHint(EditKind.NUMBER, 1),
            'asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");',
            'asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");',
        ),
        (
            EditHint(EditKind.INIT, 4, name="bar", models=(1,), names=("bar",), size=1),
            'asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(AT(&bar[0])) : "memory");',
            'asm volatile("mbarrier.init.shared::cta.b64 [%0], 4;" ::"r"(AT(&bar[1])) : "memory");',
        ),
    ],
    ids=["parity in a condition", "two dimensions", "constant operand", "init in assembly"],
)
def test_operands_are_found_where_authors_write_them(hint: EditHint, line: str, new: str) -> None:
    first = next(candidates(hint, line.split("\n"), 1, "cu"))
    assert first[2] == (new,)


def test_a_barrier_may_belong_right_behind_the_wait() -> None:
    lines = ["  wait();", "  copy(k + 1);", "  use(k);"]
    hint = EditHint(EditKind.BARRIER, 0, ahead=True)
    places = [line for line, _, _ in candidates(hint, lines, 3, "cu")]
    assert places == [3, 2]


def test_functions_are_found_behind_a_macro() -> None:
    text = '#define DEV __device__ __forceinline__\nDEV void ring(u64* b) { asm("mbarrier.arrive %0;"); }\n'
    assert list(barrier_calls(functions([text]), "mbarrier.arrive", "done")) == ["ring(&done);"]


def test_a_parity_in_the_assembly_is_flipped() -> None:
    line = (
        'asm volatile("mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 1; selp.u32 %0, 1, 0, p;" ::"r"(x));'
    )
    first = next(candidates(PARITY, [line], 1, "cu"))
    assert first[2] == (line.replace("[%1], 1;", "[%1], 0;"),)


@pytest.mark.parametrize("statement", ["ring(&done);", "wait_all();"])
def test_statements_that_synchronize_may_be_meant_for_others(statement: str) -> None:
    text = ["DEV void ring(u64* b) { asm(); }", f"if (threadIdx.x == 0) {statement}"]
    found = Diagnostic("SV202", Severity.ERROR, "", Span("k.cu", 3))
    lines = Lines(("#define DEV __device__", *text), "cu")
    tried = [g.edit.new for g in guesses(found, "k.cu", lines) if g.edit]
    assert (statement,) in tried
