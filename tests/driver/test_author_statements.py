"""Statements that a repair adds are spelled as the file spells the like."""

from __future__ import annotations

from syncverify.base.diagnostics import Diagnostic, EditHint, EditKind, Mistake, Severity
from syncverify.base.source import Span
from syncverify.driver.author_statements import Lines, parities, statements, unguarded
from syncverify.driver.guessed_edits import guesses
from syncverify.driver.text_edits import candidates

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
    assert list(parities(EditHint(EditKind.PARITY_OF_USE, models=(9,)), TEXT)) == [
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


def test_a_bound_that_is_off_by_one_is_tried() -> None:
    ((repair, _, new),) = guesses(_finding("SV211", 10), "k.cu", TEXT)
    assert (repair.mistake, repair.span.line) == (Mistake.TURNS, 8)
    assert new == ("  for (int i = 0; i < n; ++i) {",)


def test_many_issuers_become_one_lane() -> None:
    ((_, _, new),) = guesses(_finding("SV202", 10), "k.cu", TEXT)
    assert new == ("  if (threadIdx.x % 32 == 0) for (int i = 0; i <= n; ++i) {",)
    assert list(guesses(_finding("SV110", 10), "k.cu", TEXT)) == []
