"""An mbarrier at which nobody arrives: its arrivals are what lacks, and no parity of who waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Mistake, ScopeKind, Severity, Verdict
from syncverify.base.source import Span
from syncverify.checker.explain.attempts import attempts
from syncverify.checker.explain.commits import WgmmaEnds
from syncverify.checker.explain.edits import CountedParity, DropAt, OtherParity, Release
from syncverify.checker.explain.neighbours import other_end
from syncverify.checker.explain.survey import Survey
from syncverify.driver.files import check_source, read_source
from syncverify.model.events import BarrierInfo, Ev, Event, Footprint, SystemInfo, ThreadClass

PRODUCER, CONSUMER = ThreadClass(0, 0, 1), ThreadClass(0, 1, 0xFFFFFFFF)
#: Barriers: of copies into two slots, and of their release; another one, for which nobody copies.
FULL, EMPTY, OTHER = (0, 1), (2, 3), 4


def _at(line: int) -> Span:
    return Span("k.ptx", line)


def _ring(*released: int) -> tuple[SystemInfo, Survey]:
    """A producer fills two slots, a consumer reads them by wgmma and releases some."""
    info = SystemInfo("k", "k.ptx", {}, (0, 0, 0), 1, 2, 64, None, [PRODUCER, CONSUMER])
    info.barriers += [BarrierInfo(0, 8 * n, f"smem+{8 * n}") for n in range(5)]
    info.footprints += [Footprint(0, ((1024 * n, 1024 * n + 1024),)) for n in range(2)]
    survey = Survey()

    def does(cls: ThreadClass, line: int, *event: Any) -> None:
        survey.apply((event[0], line, *event[1:]), (_at(line), ""), None, cls)

    for slot in (0, 1):
        does(PRODUCER, 1, Ev.WAIT, EMPTY[slot], 1, 0)
        does(PRODUCER, 2, Ev.ARRIVE, FULL[slot], 1, 1024, 0)
        does(PRODUCER, 4, Ev.BULK_LOAD, ((slot, FULL[slot], 1024),))
    for slot in (0, 1):
        does(CONSUMER, 11, Ev.WAIT, FULL[slot], 0, 0)
        does(CONSUMER, 12 + slot, Ev.WGMMA, 0, slot, 0, -1)
        does(CONSUMER, 14, Ev.WGMMA_COMMIT)
        does(CONSUMER, 15 + slot, Ev.WGMMA_WAIT, 0)
        if slot in released:
            does(CONSUMER, 17, Ev.ARRIVE, EMPTY[slot], 1, -1, 0)
    does(CONSUMER, 18, Ev.ARRIVE, OTHER, 1, -1, 0)
    does(PRODUCER, 3, Ev.WAIT, EMPTY[1], 0, 0)
    return info, survey


@pytest.mark.parametrize(("released", "lacks"), [((0,), True), ((0, 1), False)])
def test_the_release_that_lacks_comes_before_any_parity(released: tuple[int, ...], lacks: bool) -> None:
    info, survey = _ring(*released)
    assert survey.never_arrived == (set() if 1 in released else {EMPTY[1]})
    tries = list(attempts(info, survey, {_at(3)}, "SV210"))
    first = tries[0]
    assert (isinstance(first.change, Release) and first.place == _at(16)) is lacks
    assert (first.mistake is Mistake.MISSING_ARRIVE) is lacks
    idle = [
        t for t in tries if t.place == _at(3) and isinstance(t.change, (OtherParity, CountedParity, DropAt))
    ]
    assert bool(idle) is not lacks


def test_a_release_comes_before_its_threads_meet_others() -> None:
    info, survey = _ring(0)
    first = next(attempts(info, survey, {_at(3)}, "SV210"))
    end = other_end(first.change, first.place, survey.around)
    assert first.place == _at(16) and end is not None and end[0] == _at(18)


def test_who_copies_tells_which_barrier_frees_a_slot() -> None:
    assert _ring(0)[1].free_barriers == dict(zip(FULL, EMPTY, strict=True))


@pytest.mark.parametrize(
    ("events", "ends"),
    [
        ("m1 c w0:5", {5}),
        ("m1 c w1:5 w0:6", {6}),  # its own group may stay pending at the first
        ("m1 c c w1:5", {5}),
        ("m1 w0:5 c w0:6", {6}),  # not committed before
        ("m1 c", set()),
    ],
)
def test_a_release_waits_until_the_wgmma_is_complete(events: str, ends: set[int]) -> None:
    noted, change, held = WgmmaEnds(), Release(_at(1), ((0, 7),), fence=False), None
    released: set[int] = set()
    for word in events.split():
        event: Event = (Ev.WGMMA_COMMIT, 0)
        line = 0
        if word[0] == "m":
            event, line = (Ev.WGMMA, 0, 0, 0, 0, -1), 1
        elif word[0] == "w":
            line = int(word[3:])
            event = (Ev.WGMMA_WAIT, 0, int(word[1]))
        noted.note(event, _at(line), CONSUMER)
        new, held = change.apply(event, (_at(line), ""), held, CONSUMER)
        released |= {line} if any(e[0] == Ev.ARRIVE for e in new) else set()
    assert noted.at.get(_at(1), set()) == {_at(n) for n in ends}
    assert released == ends


KERNEL = """kernel ring {{
  launch grid [1] block [64]
  param N : i32 = 4
  tensor a : f32[N * 64] in
  tensor out : f32[N * 32] out
  shared tile : f32[2, 64]
  mbarrier full[2]
  mbarrier empty[2]
  if tid == 0 {{
    for s in 0..2 {{
      mbarrier.init full[s], 1
      mbarrier.init empty[s], 32
    }}
  }}
  bar.sync 0
  if warp == 0 {{
    elect p
    if p {{
      for i in 0..N {{
        mbarrier.wait empty[i % 2], {parity}
        mbarrier.arrive.expect_tx full[i % 2], 256
        bulk.load tile[i % 2], a[i * 64 : 64], full[i % 2]
      }}
    }}
  }} else {{
    for i in 0..N {{
      mbarrier.wait full[i % 2], (i // 2) % 2
      ld.shared x, tile[i % 2][lane * 2 : 1]
      compute y = x * 2.0
      fence.proxy.async.shared_cta
      if i % 2 {released} {{
        mbarrier.arrive empty[i % 2]
      }}
      st.global out[i * 32 + lane], y
    }}
  }}
}}
"""
RIGHT = "(i // 2 + 1) % 2"


@pytest.mark.parametrize(
    ("parity", "released", "mistake", "beside"),
    [
        (RIGHT, "< 2", None, False),
        (RIGHT, "== 0", Mistake.MISSING_ARRIVE, True),
        ("(i // 2) % 2", "< 2", Mistake.FIRST_PARITY, False),  # everybody would arrive behind the hang
    ],
)
def test_the_finding_tells_a_release_that_lacks_from_a_parity(
    tmp_path: Path, parity: str, released: str, mistake: Mistake | None, beside: bool
) -> None:
    (path := tmp_path / "ring.syncir").write_text(KERNEL.format(parity=parity, released=released))
    (report,) = check_source(read_source(path), scope=ScopeKind.EXACT, replay=False)
    first = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    assert (None if first is None or first.repair is None else first.repair.mistake) is mistake
    texts = [] if first is None else [x.text for x in first.related if "threads arrive at empty[0]" in x.text]
    assert bool(texts) is beside and (report.verdict is Verdict.PROVED) is (mistake is None)


WRAPPED = """kernel k {
  launch grid [1] block [64]
  mbarrier full[4]
  mbarrier empty[4]
  if tid == 0 {
    for i in 0..4 {
      mbarrier.init full[i], 1
      mbarrier.init empty[i], 1
    }
  }
  bar.sync 0
  if warp == 0 and lane == 0 {
    for i in 0..TURNS {
      mbarrier.wait empty[i % MADE], ((i // MADE) + 1) % 2
      mbarrier.arrive full[i % MADE]
    }
  }
  if warp == 1 and lane == 0 {
    for i in 0..6 {
      mbarrier.wait full[i % TAKEN], (i // TAKEN) % 2
      mbarrier.arrive empty[i % TAKEN]
    }
  }
}
"""


@pytest.mark.parametrize(
    ("turns", "made", "taken", "line", "shown"),
    [
        (6, 4, 4, None, None),
        (6, 3, 4, 20, (15, "threads take 3 slots in turn here, and those of the wait take 4")),
        (6, 4, 3, 20, None),  # a role may take some of the slots
        (3, 4, 4, 20, None),  # a turn too few: it does not wrap
    ],
)
def test_sides_that_wrap_at_other_numbers_of_slots(
    turns: int, made: int, taken: int, line: int | None, shown: tuple[int, str] | None, tmp_path: Path
) -> None:
    text = WRAPPED.replace("TURNS", str(turns)).replace("MADE", str(made)).replace("TAKEN", str(taken))
    (path := tmp_path / "k.syncir").write_text(text)
    (report,) = check_source(read_source(path), repairs=False)
    first = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    assert (None if first is None else first.span.line) == line
    if first is not None:
        assert (first.cause is Mistake.OTHER_BARRIER) is (shown is not None)
        assert shown is None or shown in [(x.span.line, x.text) for x in first.related]
