"""Guesses at a CUDA text: what they change, and what they leave alone."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Diagnostic, Mistake, Severity
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import Lines
from syncverify.driver.repairs.guessed_edits import guesses

FILE = "k.cu"


def _changed(text: str, rule: str, at: str, cause: Mistake | None = None) -> set[str]:
    """The texts that guesses at the line that holds ``at`` make."""
    lines = text.strip("\n").split("\n")
    place = next(n for n, line in enumerate(lines, 1) if at in line)
    found = Diagnostic(rule, Severity.ERROR, "", Span(FILE, place), cause=cause)
    made = set()
    for guess in guesses(found, FILE, Lines(lines, "cu")):
        edit = guess.edit
        assert edit is not None
        assert tuple(lines[edit.line - 1 : edit.line - 1 + len(edit.old)]) == edit.old
        new = [*lines[: edit.line - 1], *edit.new, *lines[edit.line - 1 + len(edit.old) :]]
        made.add("\n".join(new))
    return made


TILES = """
  for (int tile = 0; tile < tiles; ++tile) {
    {state}
    float acc = 0.f;
    for (int k = 0; k < steps; ++k, ++read) {
      wait(&full[read.slot], read.phase);
    }
  }
"""
KEPT = """  {state}
  for (int tile = 0; tile < tiles; ++tile) {
    float acc = 0.f;
    for (int k = 0; k < steps; ++k, ++read) {
      wait(&full[read.slot], read.phase);
    }
  }"""


@pytest.mark.parametrize("state", ["State read(0);", "State<4> read = first();", "ring::State read{0, 0};"])
def test_a_state_that_begins_anew_in_each_turn_is_declared_before_the_loop(state: str) -> None:
    made = _changed(TILES.replace("{state}", state), "SV201", "wait(&full")
    assert KEPT.replace("{state}", state) in made


@pytest.mark.parametrize("state", ["const State read(0);", "next(read);", "int other = 0;"])
def test_what_the_loop_does_not_change_stays_in_it(state: str) -> None:
    made = _changed(TILES.replace("{state}", state), "SV201", "wait(&full")
    assert not any(text.startswith(f"  {state}") for text in made)


WRAPS = """
  for (int t = 0; t < tiles; ++t) {
    full[slot].wait(phase);
    {wrap}
  }
"""


@pytest.mark.parametrize(
    ("wrap", "right"),
    [
        ("if (++slot == 3) slot = 0;", "if (++slot == 3) slot = 0, phase ^= 1;"),
        ("slot = (slot + 1) % 3;", "slot = (slot + 1) % 3;\n    if (slot == 0) phase ^= 1;"),
    ],
)
def test_a_parity_flips_when_its_slot_wraps(wrap: str, right: str) -> None:
    made = _changed(WRAPS.replace("{wrap}", wrap), "SV201", "wait(phase)")
    assert WRAPS.replace("{wrap}", right).strip("\n") in made
    flips = WRAPS.replace("{wrap}", right)
    assert not any(text.count("^= 1") > 1 for text in _changed(flips, "SV201", "wait(phase)"))


@pytest.mark.parametrize(
    ("wait", "right"),
    [
        ("if (i >= N) free.pass(i);", "if (i >= N) free.pass(i - N);"),
        ("if (i >= N) wait(&free[s], (i / N) & 1);", "if (i >= N) wait(&free[s], ((i - N) / N) & 1);"),
    ],
)
def test_a_wait_that_begins_late_is_for_the_use_before(wait: str, right: str) -> None:
    text = f"  for (int i = 0; i < n; ++i) {{\n    {wait}\n  }}"
    assert text.replace(wait, right) in _changed(text, "SV206", "free")
    right_text = text.replace(wait, right)
    assert not any("i - N - N" in made for made in _changed(right_text, "SV206", "free"))


def test_a_condition_around_a_small_block_that_arrives_is_left_out() -> None:
    text = "  if (n > 3) {\n    bar_arrive(1);\n  }\n  bar_sync(1);"
    assert text.replace("if (n > 3) {", "{") in _changed(text, "SV301", "bar_sync")
    plain = text.replace("bar_arrive(1)", "x = 1")
    assert plain.replace("if (n > 3) {", "{") not in _changed(plain, "SV301", "bar_sync")


def test_blocks_of_a_cluster_meet_where_one_block_does() -> None:
    text = (
        "  cg::cluster_group all = cg::this_cluster();\n  sums[me] = x;\n  __syncthreads();\n  y = other[me];"
    )
    assert text.replace("__syncthreads()", "all.sync()") in _changed(text, "SV110", "other[me]")
    alone = text.replace("cg::cluster_group all = cg::this_cluster();", "")
    assert not any("sync();" in made.replace("__sync", "") for made in _changed(alone, "SV110", "other[me]"))


def test_an_arrival_on_the_other_of_two_slots_is_on_that_of_the_turn() -> None:
    text = "  sync_at(1 + b);\n  if (t > 0) arrive_at(3 + (b ^ 1));\n  x = y[(b ^ 1)];"
    made = _changed(text, "SV301", "sync_at")
    assert text.replace("3 + (b ^ 1)", "3 + b") in made
    assert not any("y[b]" in other for other in made)


LOOPS = """
  {declared}
  for (int p = 0; p < n; ++p) {
    ring.acquire({one});
    {move}
  }
  for (int p = 0; p < n; ++p) {
    ring.await({other});
    {last}
  }
"""


@pytest.mark.parametrize(
    ("declared", "one", "other", "move", "last", "added"),
    [
        ("State w;", "w", "w", "w.step<3>();", "use(w);", "    w.step<3>();"),
        ("State<3> a{0, 1}, b;", "a", "b", "a.advance();", "use(b);", "    b.advance();"),
        ("State a, b;", "a", "b", "++a;", "use(b);", "    ++b;"),
        ("State a; ", "a", "b", "++a;", "use(b);", None),  # of another type, or of none that is known
        ("State w;", "w", "w", "w.step<3>();", "if (p > 0) ++w;", None),  # it moves on
    ],
)
def test_a_state_that_does_not_move_on_in_a_loop(
    declared: str, one: str, other: str, move: str, last: str, added: str | None
) -> None:
    text = LOOPS.replace("{declared}", declared).replace("{one}", one).replace("{other}", other)
    text = text.replace("{move}", move).replace("{last}", last).strip("\n")
    lines = text.split("\n")
    mended = None if added is None else "\n".join([*lines[:-1], added, lines[-1]])
    found = {x for x in _changed(text, "SV201", "await") if len(x.split("\n")) > len(lines)}
    assert found == ({mended} if mended else set())


def test_the_block_whose_barrier_is_meant_may_be_that_of_the_slot() -> None:
    text = """
__device__ void tell(u64* b, int block) { asm volatile("mapa.shared::cluster.u32 r, %0, %1;" ::: "memory"); }
cluster.sync();
tell(&drained[b], me);
"""
    assert any("tell(&drained[b], b);" in x for x in _changed(text, "SV202", "drained"))
    other = text.replace("mapa", "cvta")
    assert not any("tell(&drained[b], b);" in x for x in _changed(other, "SV202", "drained"))


@pytest.mark.parametrize(
    ("read", "before"),
    [
        ("if (t == 0) total = part[0] + part[1];", "  if (t == 0) total"),
        ("if (t == 0) {\n    total = part[0] + part[1];\n  }", "  if (t == 0) {"),
        ("total += part[0] + part[1];", "  total"),
    ],
)
def test_all_threads_meet_before_the_condition_of_who_reads(read: str, before: str) -> None:
    text = f"__global__ void k(float* x) {{\n  if (lane == 0) part[w] = s;\n  {read}\n}}"
    right = text.replace(before, f"  __syncthreads();\n{before}")
    assert right in _changed(text, "SV110", "part[0]", Mistake.MISSING_BARRIER)
    assert right not in _changed(text, "SV110", "part[0]", Mistake.MISSING_WAIT)


BRANCH = """
__global__ void k() {
  if (threadIdx.x < 64) {
    tile[threadIdx.x] = 1;
    {sync}
  } else {
    w = 2;
  }
  use(tile);
}
"""
BEHIND = """__global__ void k() {
  if (threadIdx.x < 64) {
    tile[threadIdx.x] = 1;
  } else {
    w = 2;
  }
  {sync}
  use(tile);
}"""


@pytest.mark.parametrize("sync", ["__syncthreads();", "block.sync();", "cg::this_thread_block().sync();"])
def test_a_barrier_in_a_branch_is_tried_behind_it(sync: str) -> None:
    made = _changed(BRANCH.replace("{sync}", sync), "SV302", sync, Mistake.DIVERGENCE)
    assert BEHIND.replace("{sync}", sync) in made
    assert BEHIND.replace("{sync}", sync) not in _changed(
        BRANCH.replace("{sync}", sync), "SV302", sync, Mistake.MISSING_BARRIER
    )


def test_a_barrier_outside_of_branches_stays_where_it_is() -> None:
    text = "\n__global__ void k() {\n  tile[0] = 1;\n  __syncthreads();\n  use(tile);\n}\n"
    assert not any(
        "use(tile);\n  __sync" in made for made in _changed(text, "SV302", "__sync", Mistake.DIVERGENCE)
    )


EXIT = """
__global__ void k(int n) {
  if (col >= n) return;
  buf[threadIdx.x] = in[col];
  {arrive}
  wait(&done, 0);
}
"""


@pytest.mark.parametrize(
    ("arrive", "tried"),
    [("arrive(&done);", True), ("done.arrive();", True), ("arrive_expect(&done, 16);", False)],
)
def test_threads_that_leave_may_have_to_arrive_first(arrive: str, tried: bool) -> None:
    made = _changed(EXIT.replace("{arrive}", arrive), "SV202", arrive)
    assert any(f"if (col >= n) {{ {arrive} return; }}" in text for text in made) is tried
    assert any("return" not in text for text in made)  # nobody leaves
