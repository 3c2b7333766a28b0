"""Bulk copies that are in flight together to one place, as the text says."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.analysis.handover_detection import copied_to_one_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

COPY = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 256;"
COMMIT = "cp.async.bulk.commit_group;"
READ, DONE = "cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;"
LATER = "cp.async.bulk.wait_group 1;"
NEXT = "add.u64 %rd1, %rd1, 256;"
ALONG = "mul.wide.u32 %rd9, %r10, 256; add.u64 %rd1, %rd2, %rd9;"
AGAIN = "add.u64 %rd1, %rd2, 256;"
DATA = "ld.global.u64 %rd1, [%rd2];"


def found(*turn: str) -> bool:
    lines = "\n".join(turn)
    body = (
        "mov.u32 %r10, 0;\nsetp.eq.u32 %p2, %r11, 0;\nL:\n"
        f"{lines}\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p1, %r10, 9;\n@%p1 bra L;\nret;"
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
        (COPY.replace("cp.", "cp.reduce.").replace("bulk_group", "bulk_group.add.u32"), COMMIT, READ),
    ],
)
def test_others_are_not(turn: tuple[str, ...]) -> None:
    assert not found(*turn)
