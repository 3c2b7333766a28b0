"""Loops over tiles with loops inside, for every size: trip counts that turns havocked, barriers per tile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.checker.prover.parametric.attempt import Attempt
from syncverify.checker.prover.parametric.strategy import ParametricResult
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from syncverify.frontends.ptx.analysis.slicing.iteration_havoc import KEPT
from syncverify.frontends.ptx.compile.blocks import Writer
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.compile.runtime import NOT_ENTERED
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.frontends.ptx.values.grid_stride_iterations import TURNS, at_least
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.symbolic.context import SymbolicContext, UndecidedBranch
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.loop_havoc import havoc_iteration
from syncverify.symbolic.round_robin import RoundRobin
from tests.frontends.ptx.execute_helpers import module_text

PARAMS = ".param .u64 in, .param .u32 k_n, .param .u32 tiles"
FACTS = """
[kernel.k]
block = [64, 1, 1]
assume = ["K >= 1", "T >= 0"]
[kernel.k.params]
1 = {i32 = "K"}
2 = {i32 = "T"}
"""
#: Tiles of K steps through a ring of two slots; its slots and parities go on from tile to tile.
RING = """
    .shared .align 128 .b8 buf[4096];
    .shared .align 8 .b8 full[16];
    .shared .align 8 .b8 empty[16];
    ld.param.u32 %r1, [k_n];
    ld.param.u32 %r20, [tiles];
    ld.param.u64 %rd1, [in];
    mov.u32 %r2, %tid.x;
    mov.u32 %r21, %ctaid.x;
    mov.u32 %r22, %nctaid.x;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [empty], 32;
    mbarrier.init.shared::cta.b64 [empty+8], 32;
    READY:
    bar.sync 0;
    mov.u32 %r4, 0;
    setp.ge.u32 %p2, %r2, 32;
    @%p2 bra TILE;
    @%p1 bra END;
    TILE:
    setp.ge.s32 %p3, %r21, %r20;
    @%p3 bra END;
    mov.u32 %r23, 0;
    STEP:
    and.b32 %r5, %r4, 1;
    shl.b32 %r6, %r5, 3;
    mov.u32 %r7, empty;
    add.u32 %r7, %r7, %r6;
    mov.u32 %r8, full;
    add.u32 %r8, %r8, %r6;
    bfe.u32 %r9, %r4, 1, 1;
    shl.b32 %r10, %r5, 11;
    mov.u32 %r11, buf;
    add.u32 %r11, %r11, %r10;
    @%p2 bra CONSUME;
    xor.b32 %r9, %r9, 1;
    W1: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r7], %r9;
    @!%p4 bra W1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 2048;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 2048, [%r8];
    bra NEXT;
    CONSUME:
    W2: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r9;
    @!%p4 bra W2;
    shl.b32 %r12, %r2, 4;
    add.u32 %r11, %r11, %r12;
    ld.shared.f32 %f1, [%r11+-512];
    add.f32 %f2, %f1, %f1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.shared::cta.b64 _, [%r7];
    NEXT:
    add.u32 %r4, %r4, 1;
    add.u32 %r23, %r23, 1;
    setp.lt.s32 %p5, %r23, %r1;
    @%p5 bra STEP;
    add.u32 %r21, %r21, %r22;
    RESET
    bra TILE;
    END: ret;
"""
#: Tiles that one thread loads, with a barrier made again for each.
REMADE = """
    .shared .align 128 .b8 buf[4096];
    .shared .align 8 .b8 full[8];
    ld.param.u32 %r1, [k_n];
    ld.param.u64 %rd1, [in];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, 0;
    setp.ne.u32 %p1, %r2, 0;
    NEXT:
    setp.ge.s32 %p2, %r3, %r1;
    @%p2 bra END;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 2048, [full];
    READY:
    bar.sync 0;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0;
    @!%p4 bra WAIT;
    shl.b32 %r4, %r2, 2;
    mov.u32 %r5, buf;
    add.u32 %r5, %r5, %r4;
    ld.shared.f32 %f1, [%r5];
    add.f32 %f2, %f1, %f1;
    fence.proxy.async.shared::cta;
    SYNC
    @!%p1 mbarrier.inval.shared::cta.b64 [full];
    add.u32 %r3, %r3, 1;
    bra NEXT;
    END: ret;
"""


def check(folder: Path, body: str, known: str = FACTS) -> KernelReport:
    """The report of a body for every K and T."""
    path, facts = folder / "k.ptx", folder / "k.toml"
    path.write_text(module_text(body, params=PARAMS))
    facts.write_text(known)
    (report,) = check_source(read_source(path), facts=read_facts(facts), scope=ScopeKind.ALL, repairs=False)
    return report


def test_tiles_of_any_number_of_steps_are_proved(tmp_path: Path) -> None:
    report = check(tmp_path, RING.replace("RESET", ""))
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_a_ring_that_starts_anew_with_each_tile_is_refuted(tmp_path: Path) -> None:
    # right only where K is a multiple of four
    report = check(tmp_path, RING.replace("RESET", "@%p2 mov.u32 %r4, 0;"))
    assert report.verdict is Verdict.REFUTED


def test_a_barrier_made_anew_for_each_tile_is_proved(tmp_path: Path) -> None:
    report = check(tmp_path, REMADE.replace("SYNC", "bar.sync 0;"))
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_a_barrier_that_ends_while_others_wait_is_refuted(tmp_path: Path) -> None:
    assert check(tmp_path, REMADE.replace("SYNC", "")).verdict is Verdict.REFUTED


def asked_before(least: int) -> str:
    """The ring, of any K: the consumer asks in each tile whether there are steps, the loader once and before
    all tiles, whether there are so many."""
    return (
        RING.replace("RESET", "")
        .replace("    TILE:", f"    setp.lt.s32 %p6, %r1, {least};\n    @%p6 bra END;\n    TILE:")
        .replace("mov.u32 %r23, 0;", "mov.u32 %r23, 0;\n    setp.lt.s32 %p7, %r1, 1;\n    @%p7 bra LAST;")
        .replace("add.u32 %r21, %r21, %r22;", "LAST:\n    add.u32 %r21, %r21, %r22;")
        # the first warp consumes, so that it is the first to ask
        .replace("setp.ge.u32 %p2, %r2, 32;", "setp.lt.u32 %p2, %r2, 32;\n    setp.ne.u32 %p8, %r2, 32;")
        .replace("@%p1 bra END;", "@%p8 bra END;")
        .replace("[%r11+-512]", "[%r11]")
    )


def test_a_role_may_ask_before_its_tiles_whether_there_are_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, looks = Attempt.run, list[bool]()

    def noted(self: Attempt) -> ParametricResult:
        looks.append(self.forgets)
        return run(self)

    monkeypatch.setattr(Attempt, "run", noted)
    report = check(tmp_path, asked_before(1), FACTS.replace('"K >= 1", ', ""))
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)
    assert all(looks)  # what an iteration havocs is as much below 1 as what is asked before


def test_a_role_that_leaves_out_what_others_wait_for_is_refuted(tmp_path: Path) -> None:
    report = check(tmp_path, asked_before(2), FACTS.replace('"K >= 1", ', ""))
    assert report.verdict is Verdict.REFUTED


def sized(body: str) -> Program:
    module = parse(module_text(body, params=PARAMS), "k.ptx")
    return Program(module, module.entries[0]).for_sizes


def test_turns_read_trip_counts_anew_and_keep_the_number_of_tiles() -> None:
    (found,) = sized(RING.replace("RESET", "")).renewals.values()
    assert "%r1" in found.inner_trip_counts
    assert found.own_bound >= {"%r20", "%r22"}
    assert not found.own_bound.intersection(found.names)


def test_the_place_of_a_read_is_not_computed_for_sizes() -> None:
    body = """
    ld.param.u32 %r1, [k_n];
    ld.param.u64 %rd1, [in];
    mov.u32 %r2, %ctaid.x;
    div.u32 %r3, %r2, %r1;
    mul.wide.u32 %rd2, %r3, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    setp.eq.f32 %p1, %f1, 0f00000000;
    @%p1 bra END;
    bar.sync 0;
    END: ret;
    """
    module = parse(module_text(body, params=PARAMS), "k.ptx")
    program = Program(module, module.entries[0])
    assert {"%r3", "%rd3"} <= program.slice.registers
    assert program.for_sizes.slice.registers.isdisjoint({"%r3", "%rd3"})


@pytest.mark.parametrize("forgets", [True, False])
def test_what_a_turn_reads_is_the_same_for_all(forgets: bool) -> None:
    space = SymbolicContext()
    space.havocs = forgets
    k, m = space.symbol("K", 1, 100), space.symbol("M", 1, 100)
    first = havoc_iteration(space, [k + 1, m], [k], [m], 0)
    assert havoc_iteration(space, [k + 1, m], [k], [m], 0) == first
    assert first[1] is m
    assert (first[0] is k + 1) is not forgets
    assert space.bounds(first[0]) == (2, 101)


def test_the_turns_of_the_innermost_loop_around_others_are_counted() -> None:
    body = RING.replace("TILE:", "AGAIN:\n    TILE:", 1).replace(
        "END: ret;", "END:\n    @%p6 bra AGAIN;\n    ret;"
    )
    (found,) = sized(body.replace("RESET", "")).renewals.values()
    assert "%r1" in found.inner_trip_counts
    assert found.after


def test_code_that_nothing_reaches_may_lead_into_a_loop(tmp_path: Path) -> None:
    body = """
    ld.param.u32 %r1, [k_n];
    ld.param.u32 %r20, [tiles];
    mov.u32 %r2, 0;
    OUTER:
    mov.u32 %r3, 0;
    INNER:
    bar.sync 0;
    add.u32 %r3, %r3, 1;
    setp.lt.s32 %p2, %r3, %r1;
    @%p2 bra INNER;
    add.u32 %r2, %r2, 1;
    setp.lt.s32 %p3, %r2, %r20;
    @%p3 bra OUTER;
    ret;
    bra INNER;
"""
    assert check(tmp_path, body).verdict is Verdict.PROVED


def over_the_grid(tiles: str) -> str:
    """The ring, its tiles distributed round-robin to the blocks of a grid of two extents."""
    return (
        RING.replace("RESET", "")
        .replace("ld.param.u32 %r20, [tiles];", tiles)
        .replace(
            "mov.u32 %r22, %nctaid.x;",
            """mov.u32 %r22, %nctaid.x;
    mov.u32 %r30, %ctaid.y;
    mov.u32 %r31, %nctaid.y;
    mad.lo.u32 %r21, %r30, %r22, %r21;
    mul.lo.u32 %r22, %r22, %r31;""",
        )
    )


@pytest.mark.parametrize("tiles", ["ld.param.u32 %r20, [tiles];", "mov.u32 %r20, 40;"])
def test_tiles_that_a_grid_of_any_size_deals_out_are_proved(tmp_path: Path, tiles: str) -> None:
    report = check(tmp_path, over_the_grid(tiles))
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_a_missing_wait_in_tiles_of_a_grid_is_refuted(tmp_path: Path) -> None:
    body = over_the_grid("mov.u32 %r20, 40;").replace("@!%p4 bra W1;", "", 1)
    assert check(tmp_path, body).verdict is Verdict.REFUTED


class _Grid:
    """A loop over tiles: its first, its step, and what is known."""

    def __init__(self) -> None:
        self.space = SymbolicContext()
        self.tiles = self.space.symbol("T", 0, None)
        self.block = self.space.symbol("ctaid.x", 0, None)
        self.step = self.space.symbol("grid.x", 1, None)

    def left(self, turn: int) -> bool:
        """Whether an iteration has a tile."""
        return at_least(self.tiles - 1 - self.block - self.step * turn)

    def answer(self, turn: int, yes: bool) -> None:
        with pytest.raises(UndecidedBranch) as e:
            self.left(turn)
        c, parts = e.value.c, e.value.parts
        if not yes:
            c, parts = -c - 1, negated(parts)
        self.space.path.assume(c, parts)


def test_turns_are_asked_for_once_there_is_a_first_tile() -> None:
    g = _Grid()
    g.answer(0, True)
    g.answer(3, True)
    assert g.left(0) and g.left(2) and g.left(3)
    g.answer(5, False)
    assert not g.left(5) and not g.left(9)
    with pytest.raises(UndecidedBranch):
        g.left(4)


def test_without_a_first_tile_no_turn_has_one() -> None:
    g = _Grid()
    g.answer(0, False)
    assert not g.left(0) and not g.left(4)


def test_the_opposite_question_has_the_opposite_answer() -> None:
    g = _Grid()
    g.answer(0, True)
    g.answer(2, False)
    assert at_least(-1 * (g.tiles - 1 - g.block - g.step * 2) - 1)


def test_where_turns_are_not_counted_a_question_is_asked_as_it_stands() -> None:
    g = _Grid()
    g.space.counts_turns = False
    g.answer(0, True)
    with pytest.raises(UndecidedBranch) as e:
        g.left(3)
    assert e.value.parts == (g.tiles - g.block - g.step * 3).parts
    assert not [key for key in g.space.path.memo if key[0] == TURNS]


def test_a_step_that_may_be_zero_is_not_divided_by() -> None:
    space = SymbolicContext()
    tiles, step = space.symbol("T", 0, None), space.symbol("grid.x", 0, None)
    space.path.assume(*space.of(tiles - 1))
    with pytest.raises(UndecidedBranch) as e:
        at_least(tiles - 1 - step * 2)
    assert e.value.parts == (tiles - step * 2).parts


def test_a_turn_that_is_the_last_one_has_a_tile_and_the_next_has_none() -> None:
    # what a widening makes of an iteration may be the number of iterations itself
    g = _Grid()
    g.answer(0, True)
    g.answer(3, True)
    (last,) = [v for key, v in g.space.path.memo.items() if key[0] == TURNS]
    assert at_least(g.tiles - 1 - g.block - g.step * last)
    assert not at_least(g.tiles - 1 - g.block - g.step * (last + 1))
    assert at_least(g.tiles - 1 - g.block - g.step * (last - 2))


@pytest.mark.parametrize("turn", [2, 20])
def test_what_goes_wrong_in_a_late_turn_of_a_grid_of_any_size(tmp_path: Path, turn: int) -> None:
    body = f"""
    .shared .align 8 .b8 slot[8];
    ld.param.u32 %r1, [tiles];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, 0;
    setp.ne.u32 %p1, %r2, 0;
    LOOP:
    setp.ge.s32 %p2, %r3, %r1;
    @%p2 bra END;
    bar.sync 0;
    setp.ne.u32 %p3, %r5, {turn};
    @%p3 bra NEXT;
    @!%p1 st.shared.u32 [slot], %r5;
    ld.shared.u32 %r6, [slot];
    st.shared.u32 [slot+4], %r6;
    NEXT:
    add.u32 %r5, %r5, 1;
    add.u32 %r3, %r3, %r4;
    bra LOOP;
    END: ret;
    """
    report = check(tmp_path, body)
    assert report.verdict is Verdict.REFUTED, report.reason
    assert report.scope.values["params.2"] == turn + 1


def test_who_has_been_through_a_turn_of_known_length_lets_others_ask_first() -> None:
    space = SymbolicContext(RoundRobin(havocked_sizes={"K"}))
    size = SymbolicWord(space.symbol("K", 1, None), 32)
    renewal = SimpleNamespace(deal=object(), inner_trip_counts=frozenset({"%r1"}))
    slots = {"%r1": 0, KEPT + "%r1": 1}
    p = SimpleNamespace(hesitant={8}, block_groups=None, renewals={1: renewal}, slots=slots)
    writer = SimpleNamespace(p=p)
    assert Writer._pauses(writer, [size, NOT_ENTERED], 8)  # type: ignore[arg-type]
    assert Writer._pauses(writer, [3, size], 8)  # type: ignore[arg-type]
    assert not Writer._pauses(writer, [3, 3], 8)  # type: ignore[arg-type]
    assert not Writer._pauses(writer, [size, size], 9)  # type: ignore[arg-type]


def test_code_that_a_class_never_comes_to_is_no_way_out_of_its_tiles() -> None:
    body = (
        RING.replace("RESET", "setp.eq.u32 %p7, %r1, 7;\n    @%p7 bra ODD;")
        .replace("mov.u32 %r23, 0;", "setp.eq.u32 %p7, %r1, 7;\n    @%p7 bra ODD;\n    mov.u32 %r23, 0;", 1)
        .replace("END: ret;", "bra END;\n    ODD: bar.sync 1;\n    END: ret;")
    )
    whole = sized(body)
    (odd,) = (n for n, b in enumerate(whole.flow.blocks) if whole.body[b.lo].line == _line_of(body, "ODD:"))
    (found,) = whole.renewals.values()
    assert "%r1" not in found.inner_trip_counts
    (found,) = whole.along(frozenset({odd})).renewals.values()
    assert "%r1" in found.inner_trip_counts


def _line_of(body: str, label: str) -> int:
    lines = module_text(body, params=PARAMS).splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.strip().startswith(label))
