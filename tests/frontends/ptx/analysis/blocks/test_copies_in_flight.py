"""Bulk copies that are in flight together to one place, as the text says."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        (AGAIN, COPY, COMMIT, DONE, COPY, COMMIT, READ),
    ],
)
def test_some_are_in_flight_to_one_place(turn: tuple[str, ...]) -> None:
    assert found(*turn)


@pytest.mark.parametrize(
    "turn",
    [
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
