"""Statements that a repair adds are spelled as the file spells the like."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Diagnostic, EditHint, EditKind, Mistake, Severity
from syncverify.base.source import Span
from syncverify.driver.repairs.author_functions import barrier_calls, functions, plain_calls
from syncverify.driver.repairs.author_statements import Lines, other_ids, parities, statements, unguarded
from syncverify.driver.repairs.guessed_edits import guesses
from syncverify.driver.repairs.text_edits import candidates

SOURCE = """__device__ void arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(b)) : "memory");
}
__device__ void expect(uint64_t* b, int n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(b)), "r"(n));
}
__global__ void k(int n) {
  for (int i = 0; i <= n; ++i) {
    if (threadIdx.x == 0) wait(&empty[i % 2], (i / 2 + 1) & 1);
    use(data[i]);
  }
}"""
LINES = SOURCE.split("\n")
TEXT = Lines(LINES, "cu")
NAMES = ("full", "empty")


def _said(kind: EditKind, **more: object) -> list[str]:
    hint = EditHint(kind, name="full", names=NAMES, **more)  # type: ignore[arg-type]
    return list(statements(hint, TEXT, 10))


def test_a_wait_is_like_another_one_with_either_parity() -> None:
    assert _said(EditKind.WAIT, models=(9,)) == [
        "wait(&full[i % 2], (i / 2 + 1) & 1);",
        "wait(&full[i % 2], (i / 2) & 1);",
    ]


def test_an_arrival_is_a_call_of_the_file_before_it_is_assembly() -> None:
    call, assembly = _said(EditKind.ARRIVE)
    assert call == "arrive(&full[i % 2]);"
    assert assembly.startswith('asm volatile("mbarrier.arrive.shared::cta.b64') and "&full[i % 2]" in assembly


def test_bytes_are_announced_by_the_function_that_announces() -> None:
    assert _said(EditKind.ANNOUNCE, number=64)[0] == "expect(&full[i % 2], 64);"


def test_names_that_are_no_names_are_not_spelled() -> None:
    hint = EditHint(EditKind.ARRIVE, name="smem+8", names=("smem+8",))
    assert list(statements(hint, TEXT, 10)) == []


def test_parities_of_other_waits_and_their_opposites() -> None:
    assert list(parities(EditHint(EditKind.PARITY_OF_USE, models=(9,)), TEXT, 10)) == [
        "(i / 2 + 1) & 1",
        "(i / 2) & 1",
    ]


def test_a_wait_of_one_thread_is_tried_for_all() -> None:
    hint = EditHint(EditKind.WAIT, ahead=True, name="full", models=(9,), names=NAMES)
    line, old, new = next(candidates(hint, LINES, 10, "cu"))
    assert (line, new) == (9, ("    wait(&empty[i % 2], (i / 2 + 1) & 1);",)) and old == (LINES[8],)
    assert unguarded("  if (f(x) && (y)) g();") == "g();"


def test_a_drain_at_the_end_comes_behind_the_loop() -> None:
    hint = EditHint(EditKind.INSTRUCTION, at_end=True, name="cp.async.bulk.wait_group.read 0")
    line, old, new = next(candidates(hint, LINES, 10, "cu"))
    assert (line, old) == (12, ()) and new[0].startswith("  asm volatile")


def _finding(rule: str, line: int) -> Diagnostic:
    return Diagnostic(rule, Severity.ERROR, "", Span("k.cu", line))


def _guessed(rule: str, line: int, text: Lines = TEXT) -> list[tuple[Mistake, int, tuple[str, ...]]]:
    found = guesses(_finding(rule, line), "k.cu", text)
    return [
        (r.mistake, r.span.line, tuple(x.strip() for x in r.edit.new)) for r in found if r.edit is not None
    ]


def test_a_bound_that_is_off_by_one_is_tried() -> None:
    assert _guessed("SV114", 10) == [(Mistake.TURNS, 8, ("for (int i = 0; i < n; ++i) {",))]


def test_many_issuers_become_one_lane() -> None:
    of_issuers = [new for mistake, _, new in _guessed("SV202", 10) if mistake is Mistake.SECOND_PRODUCER]
    assert of_issuers == [
        ("if (threadIdx.x % 32 == 0) for (int i = 0; i <= n; ++i) {",),  # the block, then the statement alone
        ("if (threadIdx.x % 32 == 0) use(data[i]);",),
    ]
    assert _guessed("SV101", 10) == []


def test_a_condition_is_widened_to_a_thread_of_each_group_and_then_dropped() -> None:
    lines = ["  f();", "  if (t == 130) empty[s].arrive();"]
    found = [
        new[0] for mistake, _, new in _guessed("SV202", 1, Lines(lines, "cu")) if mistake is Mistake.COUNT
    ]
    assert found == [
        "if (t % 128 == 2) empty[s].arrive();",
        "if (t % 32 == 2) empty[s].arrive();",
        "empty[s].arrive();",
    ]


def test_a_parity_flips_where_the_slot_wraps() -> None:
    lines = ["  if (++slot == 3) slot = 0;", "  phase ^= 1;"]
    assert (Mistake.LATER_PARITY, 2, ("if (++slot == 3) {", "slot = 0;", "phase ^= 1;", "}")) in _guessed(
        "SV210", 1, Lines(lines, "cu")
    )


HEADER = """struct Barrier {
  uint64_t word;
  __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&word))); }
  __device__ void arrive_at(unsigned rank) { asm volatile("mapa...; mbarrier.arrive.shared::cluster.b64"); }
};
template <int N> __device__ void drain() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N)); }
__device__ void finish() { asm volatile("cp.async.bulk.wait_group 0;"); }
"""


def test_methods_and_templates_of_headers_are_called() -> None:
    known = functions((HEADER,))
    assert list(barrier_calls(known, "mbarrier.arrive", "s.empty[i]")) == ["s.empty[i].arrive();"]
    remote = barrier_calls(known, "mbarrier.arrive", "s.empty[i]", "0", remote=True)
    assert list(remote) == ["s.empty[i].arrive_at(0);"]
    assert list(plain_calls(known, "cp.async.bulk.wait_group.read 0")) == ["drain<0>();"]
    assert list(plain_calls(known, "cp.async.bulk.wait_group 0")) == ["finish();"]
    assert list(plain_calls(known, "cp.async.bulk.wait_group 1")) == []


def test_another_slot_is_written_as_other_lines_write_it() -> None:
    lines = ["wait(&s.full[0], p);", "expect(&s.full[slot], 64);", "arrive(&s.empty[k % 2]);"]
    hint = EditHint(EditKind.SLOT, name="s.full", models=(2, 3), names=("s.full", "s.empty"))
    found = [new for _, _, new in candidates(hint, lines, 1, "cu")]
    assert found == [("wait(&s.full[slot], p);",), ("wait(&s.full[k % 2], p);",)]


def test_another_barrier_of_threads_is_named_as_other_lines_name_it() -> None:
    lines = ["  sync<kFull, 256>();", "  arrive<kEmpty, 256>();"]
    hint = EditHint(EditKind.BARRIER_ID, 2, models=(2,))
    found = [new for _, _, new in candidates(hint, lines, 1, "cu")]
    assert found == [("  sync<kEmpty, 256>();",), ("  sync<2, 256>();",)]


def test_an_announcement_goes_to_its_copy_and_takes_the_slot_from_there() -> None:
    lines = [
        "  expect(&full[0], 64);",
        "  for (int t = 0; t < n; ++t) {",
        "    load(d[t % 2], &full[t % 2]);",
    ]
    hint = EditHint(EditKind.INTO_LOOP, models=(1,), names=("full",))
    _, _, new = next(candidates(hint, lines, 3, "cu"))
    assert new == (lines[1], "    expect(&full[t % 2], 64);", lines[2])


def test_what_a_condition_keeps_away_is_what_is_missing() -> None:
    for statement, mistake in (
        ("__syncthreads();", Mistake.MISSING_BARRIER),
        ("fence();", Mistake.MISSING_FENCE),
    ):
        lines = ["  x[i] = 1;", f"  if (stages > 1) {statement}"]
        assert (mistake, 2, (statement,)) in _guessed("SV110", 1, Lines(lines, "cu"))
    assert (Mistake.DIVERGENCE, 1, ("sync();",)) in _guessed(
        "SV302", 1, Lines(["  if (t < 32) sync();"], "cu")
    )


@pytest.mark.parametrize(
    ("own", "other"),
    [("4 + g", "5 - g"), ("g + 4", "5 - g"), ("5 - g", "4 + g"), ("base + g", "9 - (base + g)")],
)
def test_of_two_barriers_that_groups_choose_the_other_one(own: str, other: str) -> None:
    hint = EditHint(EditKind.BARRIER_ID, 5, size=4)
    text = Lines([f"  nudge({own}, 256);"], "cu")
    assert next(other_ids(hint, text, 1)).strip() == f"nudge({other}, 256);"
