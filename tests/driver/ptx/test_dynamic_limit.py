"""Dynamic shared memory whose bytes nobody gives, where sizes lead behind the most that a block can have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import syncverify
from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.driver.ptx import block_proposals
from syncverify.driver.ptx.check import Task, reports_of

ROWS = """.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 v[];
.visible .entry k(.param .u32 n)
{{ .reg .pred %p<9>; .reg .b32 %r<20>;
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  shl.b32 %r3, %r2, 2;
  mov.u32 %r4, v;
  add.s32 %r4, %r4, {first};
  add.s32 %r5, %r4, %r3;
  sub.s32 %r6, %r4, %r3;
  add.s32 %r6, %r6, 252;
  mov.u32 %r7, 0;
ROW:
  setp.ge.s32 %p1, %r7, %r1;
  @%p1 bra END;
  st.shared.u32 [%r5], %r2;
  {between}
  ld.shared.u32 %r8, [%r6];
  add.s32 %r5, %r5, 65536;
  add.s32 %r6, %r6, {pitch};
  add.s32 %r7, %r7, 1;
  bra ROW;
END:
  ret;
}}
"""
HOLDS = "line 19: the dynamic shared memory holds what is accessed"


def report(first: int = 0, between: str = "bar.sync 0;", pitch: int = 65536, **facts: object) -> KernelReport:
    text = ROWS.format(first=first, between=between, pitch=pitch)
    given = {"block": [64, 1, 1], "grid": [1, 1, 1], **facts}
    (found,) = syncverify.check(text, facts={"kernel": {"k": given}}, advice=False)
    return found


def test_sizes_that_no_launch_can_have_refute_nothing() -> None:
    found = report()
    assert found.verdict is Verdict.PROVED
    assert HOLDS in found.assumptions


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        ("SV110", {"between": ""}),
        ("SV114", {"pitch": -65536}),  # below the memory: more bytes do not help
        ("SV114", {"dynamic_smem": 131072}),
        ("SV114", {"params": {"0": 9}}),  # the user says that it is launched so
    ],
    ids=["no barrier", "below", "bytes given", "size given"],
)
def test_a_mistake_of_smaller_sizes_stays_one(rule: str, changed: dict[str, object]) -> None:
    found = report(**changed)  # type: ignore[arg-type]
    assert found.verdict is Verdict.REFUTED
    assert rule in {d.rule for d in found.diagnostics}


def test_an_access_that_is_never_inside_is_not_assumed_away() -> None:
    assert report(first=240000).verdict is Verdict.UNKNOWN


def test_a_thread_that_is_never_inside_is_not_assumed_away() -> None:
    """The first warps are inside, whatever the size is, and the last one is behind the most."""
    text = ROWS.format(first=0, between="bar.sync 0;", pitch=65536)
    text = text.replace("shl.b32 %r3, %r2, 2;", "shl.b32 %r3, %r2, 11;")
    facts = {"kernel": {"k": {"block": [256, 1, 1], "grid": [1, 1, 1]}}}
    (found,) = syncverify.check(text, facts=facts, advice=False)
    assert found.verdict is not Verdict.PROVED


OTHERS = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 v[];
.visible .entry k(.param .u32 n)
{{ .reg .pred %p<9>; .reg .b32 %r<30>;
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r1, [n];
  mov.u32 %r2, v;
  mov.u32 %r3, 0;
ROW:
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra END;
  {access}
  bar.sync 0;
  add.u32 %r2, %r2, 65536;
  add.u32 %r3, %r3, 1;
  bra ROW;
END:
  ret;
}}
"""


@pytest.mark.parametrize(
    "access",
    [
        "setp.ne.u32 %p2, %r0, 0; @%p2 bra MEET; mbarrier.init.shared.b64 [%r2], 1; MEET:",
        "and.b32 %r4, %r0, 7; shl.b32 %r4, %r4, 4; add.u32 %r4, %r4, %r2; "
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];",
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 "
        "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%r2];",
    ],
    ids=["mbarrier", "rows", "matrix"],
)
def test_the_same_of_what_is_no_load_or_store(access: str) -> None:
    facts = {"kernel": {"k": {"block": [32], "grid": [1]}}}
    (found,) = syncverify.check(OTHERS.format(access=access), facts=facts, replay=False, advice=False)
    assert found.verdict is Verdict.PROVED
    assert any("the dynamic shared memory holds what is accessed" in a for a in found.assumptions)


@pytest.mark.parametrize("given", [{}, {"dynamic_smem": 65536}], ids=["open", "bytes given"])
def test_bytes_that_are_given_are_searched_for_with_a_usual_block(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, object]
) -> None:
    asked: list[bool] = []

    def followed(task: Task, scope: ScopeKind) -> Iterator[KernelReport]:
        asked.append(task.usual)
        yield from reports_of(task, scope)

    monkeypatch.setattr(block_proposals, "reports_of", followed)
    text = ROWS.format(first=0, between="", pitch=65536)
    (found,) = syncverify.check(text, facts={"kernel": {"k": given}}, advice=False, replay=False)
    assert found.verdict is not Verdict.PROVED
    assert asked and set(asked) == {not given}


STEPS = """.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 v[];
.visible .entry k(.param .u32 r)
{{ .reg .pred %p<9>; .reg .b32 %r<20>;
  ld.param.u32 %r1, [r];
  mov.u32 %r2, %tid.x;
  {guard}
  add.s32 %r3, %r2, %r1;
  shl.b32 %r3, %r3, 2;
  mov.u32 %r4, v;
  add.s32 %r4, %r4, %r3;
  st.shared.u32 [%r4], %r2;
END:
  ret;
}}
"""
INSIDE = "setp.gt.u32 %p1, %r1, 192; @%p1 bra END;"


@pytest.mark.parametrize(
    ("memory", "guard", "assume", "verdict"),
    [
        (256, "", [], Verdict.REFUTED),  # from one step on, the last thread is outside
        (264, "", [], Verdict.REFUTED),  # from three on
        (1024, INSIDE, [], Verdict.PROVED),
        (264, "", ["r <= 2"], Verdict.PROVED),
        (264, "", ["r <= 3"], Verdict.REFUTED),
    ],
)
def test_a_size_that_nothing_bounds_places_an_access_in_memory_that_is_given(
    memory: int, guard: str, assume: list[str], verdict: Verdict
) -> None:
    given: dict[str, object] = {"block": [64, 1, 1], "grid": [1, 1, 1], "dynamic_smem": memory}
    if assume:
        given |= {"assume": assume, "params": {"0": {"u32": "r"}}}
    (found,) = syncverify.check(STEPS.format(guard=guard), facts={"kernel": {"k": given}}, advice=False)
    assert found.verdict is verdict
    assert verdict is not Verdict.REFUTED or "SV114" in {d.rule for d in found.diagnostics}
