"""Classes of lanes that never come to some code, for every size: what they compute for it is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec import class_reachability
from syncverify.frontends.ptx.exec.class_reachability import ReachabilityCache
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.symbolic.context import SymbolicContext
from tests.frontends.ptx.analysis.registers.test_prefix_sums import check as check_sums
from tests.frontends.ptx.analysis.registers.test_prefix_sums import in_turn
from tests.frontends.ptx.analysis.slicing.test_iteration_havoc import RING, check
from tests.frontends.ptx.execute_helpers import module_text

#: One lane of the first warp copies; the others only count its slots, from tile to tile.
SHARED = RING.replace(
    """    @%p1 bra END;
    TILE:""",
    """    mov.u32 %r26, 0;
    PTILE:
    setp.ge.s32 %p3, %r21, %r20;
    @%p3 bra END;
    mov.u32 %r23, 0;
    mov.u32 %r24, %r4;
    @%p1 bra COUNT;
    PSTEP:
    and.b32 %r5, %r24, 1;
    shl.b32 %r6, %r5, 3;
    mov.u32 %r7, empty;
    add.u32 %r7, %r7, %r6;
    mov.u32 %r8, full;
    add.u32 %r8, %r8, %r6;
    bfe.u32 %r9, %r24, 1, 1;
    xor.b32 %r9, %r9, 1;
    shl.b32 %r10, %r5, 11;
    mov.u32 %r11, buf;
    add.u32 %r11, %r11, %r10;
    W3: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], %r9;
    @!%p4 bra W3;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 2048;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 2048, [%r8];
    add.u32 %r24, %r24, 1;
    add.u32 %r23, %r23, 1;
    setp.lt.s32 %p5, %r23, %r1;
    @%p5 bra PSTEP;
    COUNT:
    setp.lt.u32 %p6, %r1, 4;
    @%p6 bra SHORT;
    and.b32 %r25, %r1, 3;
    add.u32 %r4, %r4, %r25;
    bra COUNTED;
    SHORT:
    add.u32 %r4, %r4, %r1;
    COUNTED:
    and.b32 %r4, %r4, 3;
    add.u32 %r26, %r26, 1;
    MORE
    add.u32 %r21, %r21, %r22;
    bra PTILE;
    TILE:""",
)
#: Were the residues of K asked for, there would be more decisions.
MOST_NODES = 700
#: Lanes that only count arrive on what the readers release, from some tile on.
FROM = """    setp.lt.u32 %p7, %r26, TURN;
    @%p7 bra FINE;
    @!%p1 bra FINE;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    FINE:"""


def text(more: str) -> str:
    return SHARED.replace("RESET", "").replace("    MORE\n", more + "\n" if more else "")


@pytest.mark.slow  # 20 s; that such lanes are followed at all is said below
def test_lanes_that_only_count_ask_nothing(tmp_path: Path) -> None:
    report = check(tmp_path, text(""))
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert report.stats["nodes"] < MOST_NODES


@pytest.mark.parametrize(
    ("turn", "turns"), [(1, 16), *(pytest.param(*x, marks=pytest.mark.slow) for x in ((3, 1), (60, 16)))]
)
def test_what_such_lanes_do_in_a_late_tile_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int, turns: int
) -> None:
    # a look at the class alone goes through so many tiles: not as far as the sixtieth, or the third
    monkeypatch.setattr(class_reachability, "TURNS", turns)
    assert check(tmp_path, text(FROM.replace("TURN", str(turn)))).verdict is not Verdict.PROVED


#: A value that a lane takes from lane 5; only the lane that copies computes another one.
TAKEN = """    shfl.sync.idx.b32 %r31, %r30, 5, 31, 4294967295;
    @!%p1 bra FINE;
    setp.COMPARED.u32 %p8, %r31, 0;
    @%p8 bra FINE;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    FINE:"""


@pytest.mark.slow  # a crash once; that such lanes are not proved is said above
def test_lanes_that_part_before_code_that_is_left_out(tmp_path: Path) -> None:
    lines = text(TAKEN.replace("COMPARED", "ne"))
    lines = lines.replace("    mov.u32 %r26, 0;\n", "    mov.u32 %r26, 0;\n    mov.u32 %r30, 0;\n")
    lines = lines.replace(
        "    PSTEP:\n", "    PSTEP:\n    add.u32 %r29, %r24, 1;\n    and.b32 %r30, %r29, 7;\n"
    )
    assert check(tmp_path, lines).verdict is not Verdict.PROVED  # and no crash


def test_code_for_a_class_keeps_what_was_seen_of_stores() -> None:
    f = module_text("st.shared.u32 [%r1], %r2; setp.eq.u32 %p1, %r3, 0; @%p1 bra END; bar.sync 0; END: ret;")
    module = parse(f, "k.ptx")
    program = Program(module, module.entries[0])
    different = set(program.seen.one_value)
    program.seen.one_value.clear()  # each was seen to store different values
    again = program.along(frozenset({1}))
    assert different and not again.seen.one_value
    program.begin_launch()  # another launch
    assert again.seen.one_value == different
    with program.seen.kept():
        program.seen.one_value.clear()
    assert program.seen.one_value == different


def sized(low: int, high: int | None, *less: int) -> SymbolicContext:
    """A space with one size, which is known to be less than another by these numbers."""
    space = SymbolicContext()
    n, m = space.symbol("n", low, high), space.symbol("m", 0, None)
    space.path.sizes["n"] = n
    for k in less:
        space.path.assume(*space.of(m - n - k))
    return space


@pytest.mark.parametrize(
    ("later", "same"),
    [
        (sized(1, 9), True),
        (sized(2, 2), True),
        (sized(1, 9, 4), True),
        (sized(0, 9), False),
        (sized(1, None), False),
    ],
)
def test_a_look_holds_for_sizes_among_those_it_was_for(later: SymbolicContext, same: bool) -> None:
    looked = ReachabilityCache(object())  # type: ignore[arg-type]
    first = looked.ways(0, sized(1, 9))
    assert (looked.ways(0, later) is first) == same
    assert looked.ways(1, later) is not first


def test_a_look_does_not_hold_where_less_is_known() -> None:
    looked = ReachabilityCache(object())  # type: ignore[arg-type]
    first = looked.ways(0, sized(1, 9, 4))
    assert looked.ways(0, sized(1, 9)) is not first


@pytest.mark.parametrize(
    ("shared", "events"),
    [
        pytest.param(True, 1, marks=pytest.mark.slow),
        pytest.param(True, 20, marks=pytest.mark.slow),
        (False, 20),
    ],
)
def test_a_single_lane_keeps_all_that_is_ahead_of_where_the_look_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool, events: int
) -> None:
    monkeypatch.setattr(class_reachability, "NOTHING_NEW", events)
    found: list[tuple[set[int], set[int]]] = []
    looks: list[object] = []
    look = class_reachability._labels

    def noted(*x: object) -> tuple[set[int], set[int]] | None:
        looks.append(x)
        labels = look(*x)  # type: ignore[arg-type]
        found.extend([labels] if labels is not None else [])
        return labels

    monkeypatch.setattr(class_reachability, "_labels", noted)
    report = check(tmp_path, text("")) if shared else check_sums(tmp_path, in_turn(), threads=96)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert any(left for _, left in found)
    if not shared:
        # each class is looked at once for all systems: three warps, one lane of which may be elected
        assert 1 <= len(looks) <= 6
