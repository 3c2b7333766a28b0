"""Bulk copies that are in flight together to one place, as the text says."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

import syncverify
from syncverify.frontends.ptx.analysis.blocks import copies_in_flight, turn_forms
from syncverify.frontends.ptx.analysis.blocks.copies_in_flight import copied_to_one_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.analysis.drawn_places import Drawn, drawn
from tests.frontends.ptx.execute_helpers import module_text
from tests.system.small_ptx import Small, read

COPY = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 256;"
COMMIT = "cp.async.bulk.commit_group;"
READ, DONE = "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;"
LATER = "cp.async.bulk.wait_group 1;"
NEXT = "add.u64 %rd1, %rd1, 256;"
ALONG = "mul.wide.u32 %rd9, %r10, 256; add.u64 %rd1, %rd2, %rd9;"
AGAIN = "add.u64 %rd1, %rd2, 256;"
STAYS = "ld.global.u64 %rd1, [%rd2];"
BY_GRID = "mov.u32 %r12, %nctaid.x; mul.lo.u32 %r13, %r10, %r12;"
ROW = "mul.wide.u32 %rd9, %r13, 256; add.u64 %rd1, %rd2, %rd9;"
DATA = "mul.wide.u32 %rd8, %r10, 8; add.u64 %rd8, %rd2, %rd8; ld.global.u64 %rd1, [%rd8];"


def found(*turn: str) -> bool:
    lines = "\n".join(turn)
    body = (
        "mov.u32 %r11, %tid.x;\nsetp.ne.u32 %p9, %r11, 0;\n@%p9 bra E;\n"
        "mov.u32 %r10, 0;\nmov.u64 %rd2, 4096;\nmov.u64 %rd1, %rd2;\nsetp.eq.u32 %p2, %r11, 0;\n"
        f"L:\n{lines}\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p1, %r10, 9;\n@%p1 bra L;\nE: ret;"
    )
    return copied_to_one_place(Flow(parse(module_text(body), "k.ptx").entries[0])) is not None


@pytest.mark.parametrize(
    "turn",
    [
        (COPY, COMMIT, READ),
        (COPY, COMMIT, LATER),
        (COPY, DONE, COMMIT),  # the copy is in no group yet
        (COPY, COMMIT, f"@%p2 {DONE}"),
        (f"@%p2 {COPY}", f"@%p2 {COMMIT}", f"@!%p2 {DONE}"),
        (AGAIN, COPY, COMMIT, READ),
        (COPY, COPY, COMMIT, DONE),
        (DATA, COPY, COMMIT, READ, COPY, COMMIT, DONE),
        (STAYS, COPY, COMMIT, READ),
        (BY_GRID, "and.b32 %r13, %r13, 7;", ROW, COPY, COMMIT, READ),
        (BY_GRID, "mul.lo.u32 %r13, %r12, %r12;", ROW, COPY, COMMIT, READ),  # no turn goes in
        (AGAIN, COPY, COMMIT, DONE, COPY, COMMIT, READ),
    ],
)
def test_some_are_in_flight_to_one_place(turn: tuple[str, ...]) -> None:
    assert found(*turn)


@pytest.mark.parametrize(
    "turn",
    [
        (BY_GRID, ROW, COPY, COMMIT, READ),
        (COPY, COMMIT, DONE),
        (DONE, COPY, COMMIT, READ),
        (f"@%p2 {COPY}", f"@%p2 {COMMIT}", f"@%p2 {DONE}"),
        (f"@%p2 {COPY}", COMMIT, DONE),
        (COPY, COMMIT, READ, NEXT),
        (ALONG, COPY, COMMIT, READ),
        (DATA, COPY, COMMIT, READ),
        (DATA, COPY, COMMIT, DONE, COPY, COMMIT, READ),
        (STAYS, COPY, COMMIT, READ, "st.global.u64 [%rd2], %rd8;"),
        (COPY.replace("cp.", "cp.reduce.").replace("bulk_group", "bulk_group.add.u32"), COMMIT, READ),
    ],
)
def test_others_are_not(turn: tuple[str, ...]) -> None:
    assert not found(*turn)


def _refused(some: Drawn) -> bool:
    alone = "mov.u32 %r9, %tid.x;\nsetp.ne.u32 %p9, %r9, 0;\n@%p9 bra E;"
    body = f"{alone}\nmov.u32 %r4, 0;\nmov.u64 %rd2, 4096;\n{some.text}\nE: ret;"
    return copied_to_one_place(Flow(parse(module_text(body), "k.ptx").entries[0])) is not None


#: Labelled by reading, before any of them was asked about.
COME_BACK = Path(__file__).parents[4] / "driver" / "copies_that_come_back.kernels"


@pytest.mark.parametrize("k", list(read(COME_BACK)), ids=lambda k: f"{k.group}: {k.name}")
def test_places_that_come_back_by_open_turns(k: Small) -> None:
    flow = Flow(parse(k.text, "k.ptx").entries[0])
    assert (copied_to_one_place(flow) is None) is k.right


@pytest.mark.parametrize("planted", ["_threads", "_meets"])
def test_labels_find_planted_mistakes(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads are not looked at; each instruction is a meeting."""
    if planted == "_threads":
        monkeypatch.setattr(copies_in_flight._InFlight, planted, lambda *_: [])
    else:
        monkeypatch.setattr(copies_in_flight, planted, lambda _: True)
    flows = [Flow(parse(k.text, "k.ptx").entries[0]) for k in read(COME_BACK) if not k.right]
    assert None in map(copied_to_one_place, flows)


#: The first of the drawn loops.
FIRST = 29_0112


def test_drawn_places_that_come_back_are_found() -> None:
    some = [drawn(FIRST + n) for n in range(300)]
    back = [x for x in some if x.come_back]
    along = [x for x in some if not x.come_back]
    assert len(back) > 100 and len(along) > 50
    assert all(map(_refused, back))
    kept = [x for x in along if not _refused(x)]
    assert len(kept) > len(along) // 2


@pytest.mark.parametrize("planted", ["steps", "masks", "inside"])
def test_the_drawn_places_find_planted_mistakes(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of 0 that counts as one, words that hold everything, a loop inside that is not looked at."""
    if planted == "steps":
        monkeypatch.setattr(copies_in_flight, "_some_in", lambda *_: False)
    elif planted == "masks":
        monkeypatch.setattr(turn_forms, "_within", lambda part, _: part)
    else:
        monkeypatch.setattr(turn_forms.TurnForms, "turns", lambda *_: 1)
    some = [x for n in range(300) if (x := drawn(FIRST + n)).come_back]
    assert not all(map(_refused, some))


@dataclass(frozen=True)
class _Behind:
    """Copies before a loop, in it, and behind a join that some come to around it; offsets in bytes."""

    before: tuple[int, ...]
    around: int | None  # what those start from who make no turn; None: all make one
    start: int
    inside: tuple[int, ...]
    step: int
    end: int
    after: tuple[int, ...]
    again: int | None  # the step of a loop around these

    @property
    def text(self) -> str:
        def copies(base: str, offsets: tuple[int, ...]) -> str:
            made = (f"add.u64 %rd7, {base}, {x};\n{COPY.replace('%rd1', '%rd7')}\n" for x in offsets)
            return "".join(f"{x}{COMMIT}\n{READ}\n" for x in made)

        around = "" if self.around is None else f"add.u64 %rd5, %rd2, {self.around};\n@%p3 bra J;\n"
        last = (
            f"J:\n{copies('%rd5', self.after)}E: ret;"
            if self.again is None
            else f"J: mov.u64 %rd8, %rd5;\n"
            f"K:\n{copies('%rd8', self.after)}add.u64 %rd8, %rd8, {self.again};\n"
            "mov.u32 %r12, %clock;\nsetp.gt.u32 %p2, %r12, 9;\n@%p2 bra K;\nE: ret;"
        )
        return (
            "mov.u32 %r9, %tid.x;\nsetp.ne.u32 %p9, %r9, 0;\n@%p9 bra E;\nmov.u32 %r4, 0;\n"
            "mov.u32 %r10, %nctaid.x;\nmov.u64 %rd2, 65536;\nsetp.eq.u32 %p3, %r10, 1;\n"
            f"{copies('%rd2', self.before)}{around}add.u64 %rd6, %rd2, {self.start};\n"
            f"L:\n{copies('%rd6', self.inside)}add.u64 %rd6, %rd6, {self.step};\nadd.u32 %r10, %r10, -1;\n"
            f"setp.gt.u32 %p1, %r10, 1;\n@%p1 bra L;\nadd.u64 %rd5, %rd6, {self.end};\n"
            f"{last}"
        )

    def places(self, turns: int) -> list[int]:
        """Where the copies of one execution begin."""
        made = [self.start + k * self.step + x for k in range(turns) for x in self.inside]
        last = self.start + turns * self.step + self.end if turns else self.around or 0
        more = range(1 if self.again is None else 4)
        return [*self.before, *made, *(last + (self.again or 0) * k + x for k in more for x in self.after)]

    @property
    def come_back(self) -> bool:
        runs = (self.places(n) for n in range(self.around is None, 12))
        return any(abs(x - y) < 256 for run in runs for x, y in combinations(run, 2))


def _behind(seed: int) -> _Behind:
    r = Random(seed)
    step, n = 256 * r.choice((1, 2, 2, 3, -2)), r.choice((1, 1, 2))
    return _Behind(
        r.choice(((), (), (), (-8192,), (0,))),
        r.choice((None, 0, 0, 0, -4096)),
        r.choice((0, 0, 256)),
        tuple(256 * x for x in range(n)),
        step,
        r.choice((0, 0, 0, 128, -step, -2 * step, 1024)),
        r.choice(((0,), (0, 256), (128,))),
        r.choice((None, None, 256, 512, -256)),
    )


def _at_one_place(x: _Behind) -> bool:
    return copied_to_one_place(Flow(parse(module_text(x.text), "k.ptx").entries[0])) is not None


def test_drawn_copies_behind_a_loop() -> None:
    some = [_behind(n) for n in range(300)]
    back, along = [x for x in some if x.come_back], [x for x in some if not x.come_back]
    assert len(back) > 100 and len(along) > 50
    assert all(map(_at_one_place, back))
    assert sum(not _at_one_place(x) for x in along) > len(along) // 2


@pytest.mark.parametrize("planted", ["_ended", "_leads"])
def test_the_drawn_copies_find_planted_mistakes(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy behind a loop is taken for one of the same turn; no way leads from one copy to another."""
    monkeypatch.setattr(copies_in_flight._InFlight, planted, lambda *_: False)
    assert not all(_at_one_place(x) for n in range(300) if (x := _behind(n)).come_back)


@pytest.mark.parametrize(("kind", "verdict"), [("good", "proved"), ("bad", "refuted")])
def test_tiles_stored_for_every_number_of_tiles(kind: str, verdict: str) -> None:
    path = Path(__file__).parents[5] / "corpus" / "ptx" / f"two_tiles_stored.{kind}.ptx"
    facts = {
        "kernel": {"two_tiles_stored": {"block": [128], "grid": [1], "params": {"0": "ptr", "1": "ptr"}}}
    }
    (report,) = syncverify.check(path.read_text("utf-8"), facts=facts, advice=False)
    assert str(report.verdict) == verdict
