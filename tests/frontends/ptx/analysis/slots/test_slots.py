"""Slots that atomics in shared memory hand out: what the analysis claims, and what random executions do."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import syncverify
from syncverify.base.diagnostics import ScopeKind
from syncverify.frontends.ptx.analysis.registers.uniformity import Uniformity
from syncverify.frontends.ptx.analysis.slots.slots import Slot, Slots
from syncverify.frontends.ptx.analysis.warps.collectives import Collectives
from syncverify.frontends.ptx.analysis.warps.lane_ranks import LaneRanks
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.data_guards import with_data_guards_as_branches
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel

THREADS = 64
#: Where the variables lie: the words at slots, and the counter behind them.
PLACES = {"s": 1024, "n": 1024 + 2048}
VARIABLES = """.shared .align 16 .b8 s[2048]; .shared .align 4 .b32 n; .local .align 4 .b8 kept[4];
mov.u64 %rd22, 0;
mad.wide.u32 %rd2, %r1, 4, %rd1; ld.global.u32 %r2, [%rd2]; and.b32 %r3, %r1, 31; mov.u32 %r4, s;
setp.gt.s32 %p1, %r2, 3; setp.gt.s32 %p2, %r2, 5; setp.eq.u32 %p3, %r1, 0; mov.u32 %r90, -1; mov.u32 %r91, 31;
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """Instructions between two barriers; ``stores``: the numbers of accesses at slots."""

    text: str
    stores: tuple[int, ...] = ()


def _reset(value: int) -> Stage:
    return Stage(f"@%p3 st.shared.u32 [n], {value};")


def _each(k: int, count: int, scale: int, more: int, before: str = "", draw: Forms | None = None) -> Stage:
    """Threads whose word is large take a number each, and store at ``scale * number + more``."""
    take = f"atom.shared.add.u32 %r1{k}, [n], {count}; {before}"
    return Stage(f"@!%p1 bra L{k}; {take} {_store(k, scale, more, draw)} L{k}:", (k,))


def _store(k: int, scale: int, more: int, draw: Forms | None = None) -> str:
    if draw is not None:
        return _formed(draw, k, scale, more)
    place = f"mad.lo.s32 %r2{k}, %r1{k}, {scale}, %r4; add.s32 %r2{k}, %r2{k}, {more};"
    return f"{place} st.shared.u8 [%r2{k}], %r1; st.global.u32 [%rd2+{256 * k}], %r2{k};"


#: How a place P is computed of a number N, a scale S (L: its logarithm) and a base B, by way of others.
#: Some of them move numbers, or take two for one: then an access has no slot, or another one.
FORMS = """mul.lo.s32 X, N, S; add.s32 P, X, B;
mul.lo.s32 X, N, -S; sub.s32 P, B, X;
mul.wide.s32 U, N, S; cvt.u64.u32 V, B; add.u64 U, U, V; cvt.u32.u64 P, U;
mul.wide.u32 U, N, S; cvt.s64.s32 V, B; add.s64 U, V, U; cvt.u32.u64 P, U;
cvt.u64.u32 V, B; mad.wide.s32 U, N, S, V; cvt.u32.u64 P, U;
cvt.u64.u32 U, N; cvt.u64.u32 V, B; mad.lo.u64 U, U, S, V; cvt.u32.u64 P, U;
shl.b32 X, N, L; add.u32 P, B, X;
cvt.s64.s32 U, N; shl.b64 U, U, L; cvt.u32.u64 X, U; add.u32 P, X, B;
mov.u32 X, S; mad.lo.u32 P, X, N, B;
mov.u32 X, S; mul.lo.u32 X, N, X; add.u32 P, X, B;
shl.b32 X, N, L; or.b32 P, X, B;
neg.s32 X, N; mul.lo.s32 X, X, -S; add.s32 P, X, B;
cvt.u16.u32 H, N; cvt.u32.u16 X, H; mad.lo.u32 P, X, S, B;
cvt.u16.u32 H, N; mul.wide.u16 X, H, S; add.u32 P, X, B;
mul24.lo.u32 X, N, S; add.u32 P, X, B;
bfi.b32 X, N, 0, L, 8; add.u32 P, X, B;
shr.u32 X, N, 1; mad.lo.u32 P, X, S, B;
xor.b32 X, N, 1; mad.lo.u32 P, X, S, B;
or.b32 X, N, 1; mad.lo.u32 P, X, S, B;
and.b32 X, N, 31; mad.lo.u32 P, X, S, B;
and.b32 X, %r1, 1; mad.lo.u32 X, N, S, X; add.u32 P, X, B;
and.b32 X, %r2, 3; mad.lo.u32 X, N, S, X; add.u32 P, X, B;
shr.u32 X, %r1, 4; sub.u32 X, B, X; mad.lo.u32 P, N, S, X;
selp.b32 X, N, 0, %p2; mad.lo.u32 P, X, S, B;
@%p2 add.u32 N, N, 1; mad.lo.u32 P, N, S, B;
add.u32 N, N, 1; add.u32 X, N, -1; mad.lo.u32 P, X, S, B;
add.u32 X, N, N; mad.lo.u32 P, X, S, B;
mul.hi.u32 X, N, S; add.u32 P, X, B;
mov.b64 {X, Y}, U0; add.u32 X, X, N; mad.lo.u32 P, X, S, B;
max.s32 X, N, 2; mad.lo.u32 P, X, S, B;
shfl.sync.bfly.b32 X, N, 1, 31, -1; mad.lo.u32 P, X, S, B;
st.local.u32 [kept], N; ld.local.u32 X, [kept]; mad.lo.u32 P, X, S, B;""".splitlines()


#: Masks, remainders and quotients of a number: they leave it as it is where it is small, or they do not.
REDUCED = """and.b32 X, N, 63; mad.lo.u32 P, X, S, B;
and.b32 X, N, 127; mad.lo.u32 P, X, S, B;
and.b32 X, N, 31; mad.lo.u32 P, X, S, B;
and.b32 X, N, 126; mad.lo.u32 P, X, S, B;
and.b32 X, N, 191; mad.lo.u32 P, X, S, B;
cvt.u64.u32 U, N; and.b64 U, U, 127; cvt.u32.u64 X, U; mad.lo.u32 P, X, S, B;
shl.b32 X, N, L; and.b32 X, X, 508; add.u32 P, X, B;
shl.b32 X, N, L; and.b32 X, X, 255; add.u32 P, X, B;
add.u32 X, N, 3; and.b32 X, X, 127; mad.lo.u32 P, X, S, B;
sub.u32 X, N, 3; and.b32 X, X, 127; mad.lo.u32 P, X, S, B;
rem.u32 X, N, 96; mad.lo.u32 P, X, S, B;
rem.s32 X, N, 70; mad.lo.u32 P, X, S, B;
rem.u32 X, N, 40; mad.lo.u32 P, X, S, B;
mov.u32 Y, 100; rem.u32 X, Y, N; mad.lo.u32 P, X, S, B;
shr.u32 Y, N, 7; add.u32 X, N, Y; mad.lo.u32 P, X, S, B;
shr.u32 Y, N, 4; sub.u32 X, N, Y; mad.lo.u32 P, X, S, B;
mul.wide.u32 U, N, -1431655765; shr.u64 U, U, 38; cvt.u32.u64 X, U; mul.lo.s32 X, X, 96; sub.s32 X, N, X; mad.lo.u32 P, X, S, B;
mul.hi.u32 X, N, -858993459; shr.u32 X, X, 5; mul.lo.s32 X, X, 40; sub.s32 X, N, X; mad.lo.u32 P, X, S, B;
mul.hi.s32 X, N, 715827883; shr.u32 Y, X, 31; shr.s32 X, X, 4; add.s32 X, X, Y; mul.lo.s32 X, X, 96; sub.s32 X, N, X; mad.lo.u32 P, X, S, B;
and.b32 Y, %r1, 1; shl.b32 X, N, 1; or.b32 X, X, Y; add.u32 P, X, B;
and.b32 Y, %r1, 3; shl.b32 X, N, 1; or.b32 X, X, Y; add.u32 P, X, B;""".splitlines()  # noqa: E501


class Forms(random.Random):
    """Draws how places are computed, ``of`` some ways."""

    of: Sequence[str] = FORMS


class ReducedForms(Forms):
    """Draws how masks, remainders and quotients are on the way."""

    of = REDUCED


def _formed(draw: Forms, k: int, scale: int, more: int) -> str:
    """A store at a place that is computed in one of many ways."""
    number, base = f"%r1{k}", "%r4"
    names = {"N": number, "B": base, "P": f"%r2{k}", "X": f"%r7{k}", "Y": f"%r8{k}",
             "U": "%rd20", "V": "%rd21", "U0": "%rd22", "H": "%rs1", "S": str(scale),
             "L": str(scale.bit_length() - 1)}  # fmt: skip
    form = re.sub(r"(?<![\w.%])(U0|[NBPXYUVHSL])(?![\w.])", lambda m: names[m[1]], draw.choice(draw.of))
    place = f"{form.replace('--', '')} add.s32 %r2{k}, %r2{k}, {more};"
    return f"{place} st.shared.u8 [%r2{k}], %r1; st.global.u32 [%rd2+{256 * k}], %r2{k};"


def _together(
    k: int, scale: int, more: int, side: str, leader: str, source: str, counted: str,
    draw: Forms | None = None,
) -> Stage:  # fmt: skip
    """A warp takes numbers for all lanes whose word is large."""
    text = f"""vote.sync.ballot.b32 %r3{k}, %p1, -1; vote.sync.ballot.b32 %r4{k}, %p2, -1;
    mov.u32 %r1{k}, 0; setp.ne.u32 %p4, %r3, {leader}; @%p4 bra M{k};
    popc.b32 %r5{k}, {counted}{k}; atom.shared.add.u32 %r1{k}, [n], %r5{k};
    M{k}: shfl.sync.idx.b32 %r1{k}, %r1{k}, {source}, %r91, %r90;
    @!%p1 bra L{k}; mov.u32 %r6{k}, %lanemask_{side}; and.b32 %r6{k}, %r6{k}, %r3{k}; popc.b32 %r6{k}, %r6{k};
    add.u32 %r1{k}, %r1{k}, %r6{k}; {_store(k, scale, more, draw)} L{k}:"""
    return Stage(text, (k,))


def _row(
    k: int, count: int, scale: int, by: int, more: int = 0, leader: str = "0", source: str = "0",
    lane: str = "%r3", again: str = "",
) -> Stage:  # fmt: skip
    """A lane takes a number for its warp, and each lane stores at the place of its own behind it."""
    text = f"""mov.u32 %r1{k}, 0; setp.ne.u32 %p1{k}, %r3, {leader}; @%p1{k} bra M{k};
    atom.shared.add.u32 %r1{k}, [n], {count}; M{k}: {again}
    shfl.sync.idx.b32 %r1{k}, %r1{k}, {source}, %r91, %r90; mad.lo.u32 %r5{k}, {lane}, {by}, %r4;
    mad.lo.s32 %r2{k}, %r1{k}, {scale}, %r5{k}; add.s32 %r2{k}, %r2{k}, {more};
    st.shared.u8 [%r2{k}], %r1; st.global.u32 [%rd2+{256 * k}], %r2{k};"""
    return Stage(text, (k,))


#: Masks of groups of lanes: MASK is made, OTHER is another one of the same lanes.
MASKS = {
    "active": "activemask.b32 MASK; match.any.sync.b32 OTHER, %r94, MASK;",
    "alike": "activemask.b32 OTHER; match.any.sync.b32 MASK, %r94, OTHER;",
    "copied": "activemask.b32 OTHER; match.any.sync.b32 %r95, %r94, OTHER; mov.b32 MASK, %r95;",
    "voted": "mov.b32 MASK, %r92; activemask.b32 OTHER;",
    "of others": "mov.b32 MASK, %r93; activemask.b32 OTHER;",
}
#: Who adds: the lane of a group for which %p4 does not hold.
LEADERS = {
    "lowest": "setp.ne.u32 %p4, %r3, %r96;",
    "highest": "setp.ne.u32 %p4, %r3, %r97;",
    "none below": "mov.u32 %r98, %lanemask_lt; and.b32 %r98, MASK, %r98; setp.ne.s32 %p4, %r98, 0;",
    "none above": "mov.u32 %r98, %lanemask_gt; and.b32 %r98, %r98, MASK; setp.ne.s32 %p4, %r98, 0;",
    "none at or below": "mov.u32 %r98, %lanemask_le; and.b32 %r98, MASK, %r98; setp.ne.s32 %p4, %r98, 0;",
    "all": "setp.ne.u32 %p4, %r3, %r3;",
}
SOURCES = {"lowest": "%r96", "highest": "%r97", "first": "0"}
#: The highest lane of a mask in other ways.
HIGHEST = (
    "bfind.u32 %r97, MASK;",
    "clz.b32 %r97, MASK; sub.s32 %r97, 31, %r97;",
    "clz.b32 %r88, MASK; mov.u32 %r89, 31; sub.s32 %r97, %r89, %r88;",
    "clz.b32 %r88, MASK; mov.u32 %r89, 30; sub.s32 %r97, %r89, %r88;",
    "clz.b32 %r97, MASK;",
)


def _in_groups(
    k: int, scale: int, more: int, mask: str, leader: str, source: str, counted: str = "MASK",
    ranked: str = "MASK", side: str = "lt", shuffled: str = "MASK", highest: str = HIGHEST[0],
) -> Stage:  # fmt: skip
    """Lanes whose word is large take numbers in groups."""
    text = f"""vote.sync.ballot.b32 %r92, %p1, -1; vote.sync.ballot.b32 %r93, %p2, -1;
    and.b32 %r94, %r2, 1; @!%p1 bra L{k}; {MASKS[mask]}
    brev.b32 %r96, MASK; bfind.shiftamt.u32 %r96, %r96; {highest}
    {LEADERS[leader]} mov.u32 %r1{k}, 0; @%p4 bra M{k};
    popc.b32 %r5{k}, {counted}; atom.shared.add.u32 %r1{k}, [n], %r5{k};
    M{k}: shfl.sync.idx.b32 %r1{k}, %r1{k}, {SOURCES[source]}, %r91, {shuffled};
    mov.u32 %r6{k}, %lanemask_{side}; and.b32 %r6{k}, %r6{k}, {ranked}; popc.b32 %r6{k}, %r6{k};
    add.u32 %r1{k}, %r1{k}, %r6{k}; {_store(k, scale, more)} L{k}:"""
    return Stage(text.replace("MASK", f"%r3{k}").replace("OTHER", f"%r4{k}"), (k,))


def _of_all(leader: str, source: str, lane: str = "mov.u32 %r80, %r3;") -> Stage:
    """All lanes of a warp take numbers in groups of one word each, and one ``shfl`` serves all groups."""
    text = f"""and.b32 %r94, %r2, 3; match.any.sync.b32 %r30, %r94, -1; mov.u32 %r79, 0; {lane}
    brev.b32 %r96, %r30; bfind.shiftamt.u32 %r96, %r96; bfind.u32 %r97, %r30; mov.u32 %r10, 0;
    {LEADERS[leader].replace("%r3,", "%r80,")} @%p4 bra M0;
    popc.b32 %r50, %r30; atom.shared.add.u32 %r10, [n], %r50;
    M0: shfl.sync.idx.b32 %r10, %r10, {SOURCES[source]}, %r91, -1;
    mov.u32 %r60, %lanemask_lt; and.b32 %r60, %r60, %r30; popc.b32 %r60, %r60;
    add.u32 %r10, %r10, %r60; {_store(0, 4, 0)}"""
    return Stage(text, (0,))


def _guarded(k: int, count: int, limit: int, test: str) -> Stage:
    return _each(k, count, 4, 0, f"setp.{test} %p5, %r1{k}, {limit}; @%p5 bra L{k};")


def _text(stages: list[Stage]) -> str:
    return kernel(VARIABLES + " bar.sync 0;\n".join(s.text + "\n" for s in stages))


def _slots(text: str) -> list[Slot | None]:
    """The slots of the byte stores, in their order."""
    function = with_data_guards_as_branches(parse(text).entries[0])
    flow = Flow(function)
    ranks = LaneRanks(Collectives(flow, (), ()).masks, Uniformity(flow, (THREADS, 1, 1)))
    slots = Slots(flow, ranks, PLACES)
    return [slots.of(k) for k, i in enumerate(function.body) if i.name == "st.shared.u8"]


AGREED = ("lt", "0", "0", "%r3")
#: Stages, and whether each access has a slot.
BY_HAND = [
    ([_reset(0), _each(0, 1, 4, 0)], [True]),
    ([_each(0, 1, 4, 0)], [False]),  # nobody resets the counter
    ([_each(0, 1, 4, 0), _reset(0)], [False]),
    ([_reset(0), _each(0, 0, 4, 0)], [False]),
    ([_reset(0), _each(0, 1, -4, 512)], [True]),
    ([_reset(0), _each(0, 1, 16, 64)], [True]),
    ([_reset(0), _each(0, 1, 64, 0)], [False]),  # beyond the counter, or on it
    ([_reset(64), _each(0, -1, 4, -4)], [True]),
    ([_reset(0), _each(0, 1, 4, 0), _each(1, 2, 4, 0)], [True, True]),
    ([_reset(0), _each(0, 1, 4, 0), _each(1, -1, 4, 0)], [False, False]),
    ([_reset(0), _together(0, 4, 0, *AGREED)], [True]),
    ([_reset(0), _together(0, 4, 0, "le", "0", "0", "%r3")], [True]),
    ([_reset(0), _together(0, 4, 0, "gt", "7", "7", "%r3")], [True]),
    ([_reset(0), _together(0, 4, 0, "lt", "0", "1", "%r3")], [False]),
    ([_reset(0), _together(0, 4, 0, "lt", "0", "0", "%r4")], [False]),
    ([_reset(0), _together(0, 4, 0, *AGREED), _each(1, 1, 4, 0)], [True, True]),
    ([_reset(0), _in_groups(0, 4, 0, "active", "lowest", "lowest")], [True]),
    ([_reset(0), _in_groups(0, 4, 0, "active", "highest", "highest", side="ge")], [True]),
    ([_reset(0), _in_groups(0, 4, 0, "alike", "none below", "lowest")], [True]),
    ([_reset(0), _in_groups(0, 4, 0, "copied", "none below", "lowest", side="gt")], [True]),
    ([_reset(0), _in_groups(0, 4, 0, "voted", "lowest", "lowest")], [True]),
    ([_reset(0), _in_groups(0, 8, 0, "alike", "lowest", "lowest"), _each(1, 1, 8, 4)], [True, True]),
    ([_reset(0), _in_groups(0, 4, 0, "voted", "highest", "highest", highest=HIGHEST[2])], [True]),
    ([_reset(0), _in_groups(0, 4, 0, "voted", "highest", "highest", highest=HIGHEST[3])], [False]),
    ([_reset(0), _in_groups(0, 4, 0, "of others", "lowest", "lowest")], [False]),
    ([_reset(0), _of_all("lowest", "lowest")], [True]),
    ([_reset(0), _of_all("lowest", "lowest", "sub.s32 %r80, %r3, %r79;")], [True]),
    ([_reset(0), _of_all("lowest", "first")], [False]),
    ([_reset(0), _of_all("lowest", "lowest", "and.b32 %r80, %r1, 15;")], [False]),
    ([_reset(0), _of_all("lowest", "highest")], [False]),
    # each lane names another leader, of which some take no number
    (
        [
            _reset(0),
            Stage(
                f"shr.u32 %r95, %r1, 3; and.b32 %r95, %r95, 3; {_row(0, 1, 32, 1, 0, '%r95', '%r95').text}",
                (0,),
            ),
        ],
        [False],
    ),
    ([_reset(0), _in_groups(0, 4, 0, "active", "lowest", "highest")], [False]),
    ([_reset(0), _in_groups(0, 4, 0, "active", "lowest", "first")], [False]),
    ([_reset(0), _in_groups(0, 4, 0, "active", "none above", "highest")], [False]),  # right, not recognized
    ([_reset(0), _in_groups(0, 4, 0, "active", "none at or below", "lowest")], [False]),
    ([_reset(0), _in_groups(0, 4, 0, "active", "all", "lowest")], [False]),
    ([_reset(0), _in_groups(0, 4, 0, "active", "lowest", "lowest", counted="OTHER")], [False]),
    ([_reset(0), _in_groups(0, 4, 0, "alike", "lowest", "lowest", ranked="OTHER")], [False]),
    ([_reset(0), _in_groups(0, 4, 0, "active", "lowest", "lowest", shuffled="OTHER")], [False]),
    ([_in_groups(0, 4, 0, "active", "lowest", "lowest"), _reset(0)], [False]),
    ([_reset(0), _row(0, 1, 32, 1)], [True]),
    ([_reset(0), _row(0, 32, 4, 4)], [True]),
    ([_reset(0), _row(0, 16, 8, 4)], [True]),
    ([_reset(0), _row(0, 1, 128, 4, 64, "7", "7")], [True]),
    ([_reset(0), _row(0, 1, 128, 2), _row(1, 1, 128, 2, 1)], [True, True]),
    ([_reset(0), _row(0, 1, 31, 1)], [False]),
    ([_reset(0), _row(0, 31, 4, 4)], [False]),
    ([_reset(0), _row(0, 1, 32, 1, 0, "0", "1")], [False]),
    ([_reset(0), _row(0, 1, 32, 1, 0, "%r3")], [False]),
    ([_reset(0), _row(0, 1, 32, 1, lane="%r1")], [False]),  # right, not recognized
    ([_reset(0), _row(0, 1, 32, 1, again="atom.shared.exch.b32 %r30, [n], 0;")], [False]),
    ([_reset(0), _row(0, 1, 32, 1, again="fence.acq_rel.cta;")], [False]),
    ([_row(0, 1, 32, 1), _reset(0)], [False]),
    ([_reset(0), _each(0, 1, 4, 0, "and.b32 %r10, %r10, 63;")], [True]),
    ([_reset(1), _each(0, 1, 4, 0, "and.b32 %r10, %r10, 63;")], [False]),
    ([_reset(0), _each(0, 1, 4, 0, "rem.u32 %r10, %r10, 64;")], [True]),
    ([_reset(0), _each(0, 1, 4, 0, "rem.u32 %r10, %r10, 63;")], [False]),
    ([_reset(0), _guarded(0, 1, 31, "gt.s32")], [True]),
    ([_reset(0), _guarded(0, 1, 31, "lt.s32")], [True]),
    ([_reset(0), _each(0, 1, 4, 0, "and.b32 %r10, %r10, 15;")], [False]),
    ([_reset(0), _each(0, 1, 4, 0, "and.b32 %r10, %r10, 126;")], [False]),
    ([_reset(0), _each(0, 1, 4, 0, "min.u32 %r10, %r10, 15;")], [False]),
    ([_reset(0), _each(0, 1, 4, 0, "atom.shared.exch.b32 %r30, [n], 0;")], [False]),
    ([_reset(0), _each(0, 1, 4, 0, "st.volatile.shared.u32 [n], 0;")], [False]),
    ([_reset(0), _each(0, 1, 4, 0, "fence.acq_rel.cta;")], [False]),
    ([_reset(0), Stage("atom.shared.add.u32 %r10, [n], 1;"), Stage(_store(0, 4, 0))], [False]),
]


@pytest.mark.parametrize(("stages", "expected"), BY_HAND)
def test_which_accesses_have_slots(stages: list[Stage], expected: list[bool]) -> None:
    assert [x is not None for x in _slots(_text(stages))] == expected


def _drawn(draw: random.Random, forms: Forms | None = None) -> list[Stage]:
    """Resets and accesses, most of them right. ``forms``: draws how places are computed."""
    stages = [_reset(draw.choice([0, 0, 3]))]
    count = draw.choice([1, 1, 2, 3])
    scale, aside = draw.choice([1, 2, 4, -4 if forms is None else 8]), 512 if draw.random() < 0.9 else 0
    for k in range(draw.choice([1, 2, 3])):
        if draw.random() < 0.3:
            stages.append(_reset(draw.choice([0, 0, 8])))
        more = aside + draw.choice([0, 0, 1, 2, 4])
        kind = draw.random()
        if kind < 0.4:
            sides = draw.choice(["lt", "le", "gt", "ge"]), draw.choice("007"), draw.choice("000007")
            made = _together(k, scale, more, *sides, draw.choice(["%r3", "%r3", "%r3", "%r4"]), forms)
        elif kind < 0.5:
            made = _guarded(k, count, draw.choice([7, 40]), draw.choice(["gt.s32", "ge.u32"]))
        else:
            made = _each(k, count, scale, more, draw=forms)
        if len(stages) > 1 and draw.random() < 0.7 and stages[-1].stores:  # no barrier between
            last = stages.pop()
            made = Stage(last.text + "\n" + made.text, last.stores + made.stores)
        stages.append(made)
    return stages


def _drawn_rows(draw: random.Random) -> list[Stage]:
    """Accesses in rows of warps, most of them right, beside accesses at slots of lanes."""
    stages, by = [_reset(draw.choice([0, 0, 3]))], draw.choice([1, 2, 4])
    count = draw.choice([1, 1, 32, 16])
    scale = max(32 * by // count, 1) - draw.choice([0, 0, 0, 1]) * (count == 1)
    rows = draw.choice([1, 2, 2])
    for k in range(rows):
        lane = draw.choice("0007")
        source = lane if draw.random() < 0.8 else "5"
        again = draw.choice(["", "", "", "@%p1N bra LN; atom.shared.add.u32 %r5, [n], 1; LN:"])
        more, step = draw.choice([0, 0, 1, 2, by, 32 * by]), draw.choice([by, by, by, 2 * by, 1])
        made = _row(
            k, count, scale, step, more, lane, source, again=again.replace("N", f"{k}").replace("L", "N")
        )
        if stages[-1].stores and draw.random() < 0.6:
            last = stages.pop()
            made = Stage(last.text + "\n" + made.text, last.stores + made.stores)
        stages.append(made)
        if draw.random() < 0.2:
            stages.append(_reset(draw.choice([0, 2])))
    if draw.random() < 0.4:
        stages.append(_each(rows, 1, scale, 0))
    return stages


def _drawn_groups(draw: random.Random) -> list[Stage]:
    """Accesses at slots of groups, most of them right, beside accesses at slots of lanes."""
    scale = draw.choice([1, 2, 4, 8])
    stages = [_reset(draw.choice([0, 0, 3]))]
    groups = draw.choice([1, 2])
    for k in range(groups):
        lane = draw.choice(["lowest", "highest"])
        who = {
            "mask": draw.choice(["active", "alike", "copied", "voted"]),
            "leader": draw.choice([lane, "none below"] if lane == "lowest" else [lane]),
            "source": lane,
            "counted": "MASK",
            "ranked": "MASK",
        }
        wrong = {"mask": ["of others"], "leader": [*LEADERS], "source": [*SOURCES], "counted": ["OTHER"],
                 "ranked": ["OTHER"]}  # fmt: skip
        if draw.random() < 0.4:
            name = draw.choice([*wrong])
            who[name] = draw.choice(wrong[name])
        if who["source"] == "highest":
            who["highest"] = draw.choice(HIGHEST)
        more = 512 + draw.choice([0, 0, 1, 4]) * (draw.random() < 0.3)
        made = _in_groups(k, scale, more, **who, side=draw.choice(["lt", "le", "gt", "ge"]))
        stages.append(made)
        if draw.random() < 0.3:
            stages.append(_reset(draw.choice([0, 8])))
    if draw.random() < 0.4:
        stages.append(_each(groups, 1, scale, 512))
    return stages


@pytest.mark.parametrize("seed", range(60))
def test_slots_of_groups_are_apart_in_executions(seed: int) -> None:
    draw = random.Random(seed)
    _run_apart(seed, draw, _drawn_groups(draw))


def test_groups_that_are_drawn_have_slots() -> None:
    found = [_slots(_text(_drawn_groups(random.Random(seed))))[0] is not None for seed in range(60)]
    assert 10 < sum(found) < 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_slots_of_many_groups_are_apart_in_executions(seed: int) -> None:
    draw = random.Random(seed)
    _run_apart(seed, draw, _drawn_groups(draw))


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_warps_are_apart_in_executions(seed: int) -> None:
    draw = random.Random(seed)
    _run_apart(seed, draw, _drawn_rows(draw))


def test_rows_that_are_drawn_have_slots() -> None:
    found = [_slots(_text(_drawn_rows(random.Random(seed))))[0] is not None for seed in range(60)]
    assert 15 < sum(found) < 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_rows_of_many_warps_are_apart_in_executions(seed: int) -> None:
    draw = random.Random(seed)
    _run_apart(seed, draw, _drawn_rows(draw))


@pytest.mark.parametrize("seed", range(40))
def test_slots_behind_masks_and_remainders_are_apart_in_executions(seed: int) -> None:
    _apart_in_executions(seed, random.Random(seed), ReducedForms(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_slots_behind_many_masks_are_apart_in_executions(seed: int) -> None:
    _apart_in_executions(seed, random.Random(seed), ReducedForms(seed))


#: Rules of forms that would be wrong, and programs that show it.
PLANTED = {
    "what a mask needs is not asked": ("slots.slots._holds", lambda *_: True, "reduced"),
    "a mask may have holes": (
        "slots.slot_sums.Form.masked",
        lambda form, mask: form.below(1 << 30),
        "reduced",
    ),
    "lanes have no room of their own": ("slots.slots._Candidate.fits", property(lambda _: True), "rows"),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_wrong_rule_would_be_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, wrong, kind = PLANTED[mistake]
    monkeypatch.setattr(f"syncverify.frontends.ptx.analysis.{where}", wrong)
    noticed = 0
    for seed in range(40):
        draw = random.Random(seed)
        stages = _drawn_rows(draw) if kind == "rows" else _drawn(draw, ReducedForms(seed))
        try:
            _run_apart(seed, draw, stages)
        except AssertionError:
            noticed += 1
    assert noticed


@pytest.mark.parametrize("seed", range(120))
def test_slots_are_apart_in_executions(seed: int) -> None:
    """The second reader's threads store where the analysis says, and no two of one group at one place."""
    _apart_in_executions(seed, random.Random(seed), None)


@pytest.mark.parametrize("seed", range(30))
def test_slots_by_other_forms_are_apart_in_executions(seed: int) -> None:
    _apart_in_executions(seed, random.Random(seed), Forms(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_slots_by_many_forms_are_apart_in_executions(seed: int) -> None:
    _apart_in_executions(seed, random.Random(seed), Forms(seed))


def _apart_in_executions(seed: int, draw: random.Random, forms: Forms | None) -> None:
    _run_apart(seed, draw, _drawn(draw, forms))


def _run_apart(seed: int, draw: random.Random, stages: list[Stage]) -> None:
    text, least = _text(stages), draw.choice([0, 3])
    slots = _slots(text)
    words = [draw.randrange(least, 9) for _ in range(THREADS)] + [0] * THREADS * 3
    out = buffer(np.array(words, dtype=np.uint32))
    done = run(text, "k", Launch((THREADS, 1, 1), params=(out,)), seed=seed)
    found = done.memory(out)
    groups = [{None if (x := slots[k]) is None else x.group for k in stage.stores} for stage in stages]
    inside = all(x is not None and x.places.low >= PLACES["s"] for x in slots)
    if inside and all(len(of) < 2 for of in groups):  # else stores may race, or leave memory: the run ends
        assert done.harm is None
    for stage in stages:
        used: dict[tuple[int, int], int] = {}
        for k in stage.stores:
            slot = slots[k]
            for t, place in enumerate(found[THREADS * k : THREADS * (k + 1)]):
                if slot is None or place < PLACES["s"]:  # a word that the thread was given
                    continue
                offset = int(place) & 0xFFFFFF
                assert slot.places.low <= offset <= slot.places.high
                assert used.setdefault((slot.group, offset), t) == t


def _verdict(text: str) -> str:
    facts = {"kernel": {"k": {"grid": [1], "block": [THREADS]}}}
    (report,) = syncverify.check(text, facts=facts, scope=ScopeKind.ALL, replay=False, advice=False)
    return str(report.verdict)


READ = Stage("ld.shared.u32 %r80, [s]; st.global.u32 [%rd2], %r80;")


@pytest.mark.parametrize(
    ("stages", "verdicts"),
    [
        ([_reset(0), _each(0, 1, 4, 0), READ], {"proved"}),
        ([_reset(0), _together(0, 4, 0, *AGREED), READ], {"proved"}),
        ([_reset(0), _each(0, 1, 4, 0), _reset(0), _each(1, 1, 4, 0), READ], {"proved"}),
        ([_reset(0), Stage(_each(0, 1, 4, 0).text + READ.text)], {"refuted", "unknown"}),
        ([Stage(_reset(0).text + _each(0, 1, 4, 0).text), READ], {"refuted", "unknown"}),
        ([_reset(0), _each(0, 1, 0, 0), READ], {"refuted", "unknown"}),
        ([_reset(0), Stage(_each(0, 1, 4, 0).text + _each(1, 1, 4, 4).text), READ], {"refuted", "unknown"}),
        ([_reset(0), _together(0, 4, 0, "lt", "0", "1", "%r3"), READ], {"refuted", "unknown"}),
        ([_reset(0), Stage(_each(0, 1, 4, 0).text + _reset(0).text), READ], {"refuted", "unknown"}),
        # what a later store at slots lies over is remembered: the reader waits for none of them
        (
            [_reset(0), Stage(_each(0, 1, 4, 0).text + "bar.warp.sync -1;" + READ.text)],
            {"refuted", "unknown"},
        ),
    ],
)
def test_verdicts(stages: list[Stage], verdicts: set[str]) -> None:
    assert _verdict(_text(stages)) in verdicts


#: Rounds without a bound, in each of which lanes store to two places of one slot.
ROUNDS = """ld.param.u32 %r80, [rounds]; mov.u32 %r81, 0; setp.eq.u32 %p9, %r80, 0; @%p9 bra END;
IN: {reset} bar.sync 0; @!%p1 bra OVER; atom.shared.add.u32 %r10, [n], 1; mad.lo.u32 %r20, %r10, 4, %r4;
st.shared.u32 [%r20], %r1; st.shared.u32 [%r20+512], %r2;
OVER: {barrier} ld.shared.u32 %r82, [s]; ld.shared.u32 %r83, [s+512]; st.global.u32 [%rd2], %r82;
bar.sync 0; add.u32 %r81, %r81, 1; setp.lt.u32 %p8, %r81, %r80; @%p8 bra IN;
END: {reset}
"""


@pytest.mark.parametrize(
    ("barrier", "proved"), [("bar.sync 0;", True), ("bar.warp.sync -1;", False), ("", False)]
)
def test_stores_in_rows_are_judged_one_by_one(barrier: str, proved: bool) -> None:
    """A reader that waits for its own warp alone is in no order with what other warps store at slots."""
    body = VARIABLES + ROUNDS.format(reset=_reset(0).text, barrier=barrier)
    text = kernel(body, params=".param .u64 out, .param .u32 rounds")
    assert (_verdict(text) == "proved") is proved


BEHIND = (
    ".shared .align 4 .b32 t[64]; add.u32 %r84, %r1, %r1; mov.u32 %r85, t; mad.lo.u32 %r85, %r1, 4, %r85;"
)
TAKES = """@!%p1 bra L0; atom.shared.add.u32 %r10, [n], 1; mad.lo.s32 %r20, %r10, 4, %r4;
st.shared.u32 [%r20], %r1; L0:"""


@pytest.mark.parametrize("words", [512, 32])
def test_a_slot_that_may_leave_its_array_is_taken_to_stay_inside(words: int) -> None:
    """Of 64 threads each may take a number, and 32 words are not enough; nothing else is there meanwhile."""
    s, n = ".shared .align 16 .b8 s[2048];", ".shared .align 4 .b32 n;"
    variables = VARIABLES.replace(n, "").replace(s, f"{n} {s.replace('2048', str(4 * words))}")
    body = "bar.sync 0;\n".join([_reset(0).text, TAKES, BEHIND + "st.shared.u32 [%r85], %r84;", READ.text])
    facts = {"kernel": {"k": {"grid": [1], "block": [THREADS]}}}
    (report,) = syncverify.check(
        kernel(variables + body), facts=facts, scope=ScopeKind.ALL, replay=False, advice=False
    )
    assert str(report.verdict) == "proved"
    assert any("stays inside `s`" in x for x in report.assumptions) is (words == 32)


#: Words of the array, what the counter begins with, who takes numbers, and the verdict; ``line``: proved, and
#: that an access stays inside is said.
ALL_TAKE = TAKES.replace("@!%p1 bra L0; ", "")
GROUPS = {side: _in_groups(0, 4, 0, "active", "lowest", "lowest", side=side).text for side in ("lt", "le")}
BEFORE = _in_groups(0, 4, -4, "active", "lowest", "lowest", side="le").text
ROOMS = [
    (64, 0, TAKES, "proved"),
    (64, 1, TAKES, "unknown"),
    (65, 1, TAKES, "proved"),
    (32, 0, TAKES, "line"),
    (64, 0, ALL_TAKE, "proved"),
    (64, 1, ALL_TAKE, "unknown"),
    (32, 0, ALL_TAKE, "unknown"),
    (32, 0, f"setp.gt.u32 %p6, %r1, 31; @%p6 bra L0; {ALL_TAKE}", "proved"),
    (32, 1, f"setp.gt.u32 %p6, %r1, 31; @%p6 bra L0; {ALL_TAKE}", "unknown"),
    (64, 0, GROUPS["lt"], "proved"),
    (64, 0, GROUPS["le"], "unknown"),
    (64, 0, BEFORE, "proved"),
]


@pytest.mark.parametrize(("words", "first", "takes", "expected"), ROOMS)
def test_slots_that_leave_an_array_with_room_for_them(
    words: int, first: int, takes: str, expected: str
) -> None:
    s, n = ".shared .align 16 .b8 s[2048];", ".shared .align 4 .b32 n;"
    variables = VARIABLES.replace(n, "").replace(s, f"{n} {s.replace('2048', str(4 * words))}")
    body = "bar.sync 0;\n".join(
        [_reset(first).text, takes, BEHIND + "st.shared.u32 [%r85], %r84;", READ.text]
    )
    facts = {"kernel": {"k": {"grid": [1], "block": [THREADS]}}}
    (report,) = syncverify.check(kernel(variables + body), facts=facts, replay=False, advice=False)
    said = any("stays inside" in x for x in report.assumptions)
    found = "line" if said and str(report.verdict) == "proved" else str(report.verdict)
    assert found == expected, report.reason
