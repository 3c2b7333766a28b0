"""Which schedule the model prefers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.gate.matmul import Matmul
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.cards import CARDS, H100, H200, Card, card_of
from syncverify.matmul.choose import (
    ALIKE,
    among,
    candidates,
    choose,
    filling,
    fitting,
    forms,
    menu,
    predicted,
    proved_soon,
    ranked,
)
from syncverify.matmul.cost import Facts, Processors, counted, crossing, tile_name
from syncverify.matmul.estimate import COLUMNS, Launch, columns, estimated, formula, table
from syncverify.matmul.lower import stages_of


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k}


def test_large_products_take_wide_tiles() -> None:
    schedule = choose(product(), sizes(8192, 8192, 8192), 132)
    assert schedule.tile_m * schedule.tile_n >= 128 * 192 and schedule.persistent


def test_few_rows_take_low_tiles() -> None:
    assert choose(product(), sizes(64, 4096, 4096), 132).tile_m == 64


def test_one_turn_needs_no_persistent_kernel() -> None:
    assert not choose(product(), sizes(1024, 1024, 1024), 132).persistent


@pytest.mark.parametrize(("fours", "waits"), [(31, False), (30, True), (None, False)])
def test_a_cluster_of_four_for_which_the_card_has_no_room_comes_in_a_second_turn(
    fours: int | None, waits: bool
) -> None:
    """121 tiles of 64 rows in clusters of four are 31 clusters."""
    s = sizes(7744, 256, 2648)
    schedule = Schedule(tile_m=64, tile_n=256, consumers=1, pending=1, cluster=4)
    counts = counted(Facts.of(product()), schedule, stages_of(product(), schedule), s, Processors(132, fours))
    assert counts.turns + counts.last == (2 if waits else 1)
    slow, fast = (predicted(product(), schedule, s, 132, replace(H200, fours=n)) for n in (fours, 32))
    assert (slow > 1.3 * fast) is waits
    chosen = choose(product(), s, 132, replace(H200, fours=fours))
    assert not waits or chosen.cluster < 4


def test_sixteen_clusters_of_four_are_crowded_where_memory_limits() -> None:
    """48 x 7936 x 9024: 62 tiles of 128 columns in clusters of four, of which an H200 takes 1.37 as long."""
    schedule = Schedule(tile_m=64, tile_n=128, consumers=1, pending=1, cluster=4, beside=True)
    even = replace(H200, crowded=1.0)

    def factor(m: int, n: int, k: int, s: Schedule = schedule) -> float:
        return predicted(product(), s, sizes(m, n, k), 132) / predicted(
            product(), s, sizes(m, n, k), 132, even
        )

    assert factor(48, 7936, 9024) == pytest.approx(1.35)
    assert factor(48, 7680, 9024) == 1.0  # 15 clusters
    assert factor(48, 7936, 9024, replace(schedule, cluster=1)) == 1.0
    assert factor(2048, 512, 4096, replace(schedule, tile_m=128, consumers=2, pending=0)) == 1.0  # products


def test_warpgroups_that_take_turns_are_tuned_with_laps_that_fit_and_from_anywhere() -> None:
    for k, laps in ((256, "odd"), (512, "even")):
        found = [s for s in candidates(product(), sizes(16384, 16384, k), 132, 30) if s.pingpong]
        assert {s.laps for s in found} == {laps, "any"}
        assert not any(s.pingpong for s in ranked(product(), sizes(16384, 16384, k), 132))


def test_ragged_rows_are_stored_directly() -> None:
    assert {s.store for s in ranked(product(), sizes(512, 500, 512), 132)} == {"direct"}
    assert {s.store for s in ranked(product(), sizes(512, 512, 512), 132)} == {"tma"}


@pytest.mark.parametrize("layout", ["KK", "MN"])
def test_the_menu_fits_into_shared_memory_and_has_a_title_for_each(layout: str) -> None:
    problem = product(layout=layout)
    found = forms(problem)
    assert len({s.title for s in found}) == len(set(found)) > 400
    for schedule in found:
        schedule.check()
        staging = schedule.staging(problem.output_sizes)
        assert schedule.fitted_stages(staging, along_n=layout == "MN") >= 2
        assert schedule.split_k == 1 or proved_soon(schedule)


def test_no_form_leaves_half_of_its_tiles_empty() -> None:
    plain = [s for s in menu(product(), sizes(64, 8192, 4096)) if not s.by_columns]
    assert {s.tile_m for s in plain} == {64}
    plain = [s for s in menu(product(), sizes(8192, 64, 4096)) if not s.by_columns]
    assert {s.tile_n for s in plain} == {32, 64, 96}
    plain = [s for s in menu(product(), sizes(8192, 32, 4096)) if not s.by_columns]
    assert not any(s.beside for s in plain)


def test_tiles_fill_the_card() -> None:
    """As many tiles as SMs, or nearly, of a width that the menu lacks, none of them shared, and K long."""
    assert (128, 1, 80) in filling(128, 9856, 132) and (64, 1, 152) in filling(128, 9856, 132)
    found = [s for s in menu(product(), sizes(128, 9856, 1024)) if (s.tile_m, s.tile_n) == (128, 80)]
    assert {s.cluster for s in found} == {1, 2, 4} and {s.split_k for s in found} == {1}
    for layout, k in (("KK", 960), ("KN", 1024)):
        assert all(s.tile_n != 80 for s in menu(product(layout=layout), sizes(128, 9856, k)))
    for rows, blocks, width in filling(464, 14672, 132):
        tiles = -(-464 // rows) * -(-14672 // width)
        assert tiles <= 2 * blocks * 132 and width % 8 == 0
    assert not filling(16384, 16384, 132)  # tiles for many turns


def test_tiles_are_fitted_to_few_columns() -> None:
    """400 columns are three tiles of 136, and not four of 128."""
    found = menu(product(), sizes(5333, 400, 9728))
    assert any((s.tile_m, s.tile_n) == (128, 136) for s in found)
    assert all(s.tile_n % 32 == 0 for s in menu(product(), sizes(8192, 8192, 4096)))


def test_tiles_of_256_by_200_are_fitted() -> None:
    """By columns 774 rows and 7200 columns are 116 tiles of 256 columns and 200 rows: one turn of 132 SMs."""
    found = [s for s in menu(product(), sizes(774, 7200, 14040)) if (s.tile_m, s.tile_n) == (256, 200)]
    assert {s.by_columns for s in found} == {True} and {(s.cluster, s.beside) for s in found} >= {(4, True)}
    assert max(s.accumulators for s in found) == 200
    chosen = choose(product(), sizes(774, 7200, 14040), 132, H200)
    assert (chosen.tile_m, chosen.tile_n, chosen.by_columns) == (256, 200, True)


def test_tiles_of_256_by_200_have_to_be_ahead_by_more_than_the_model_is_off() -> None:
    """Of 8576 x 768 x 9664 the trees alone give them 173.4 us, and 173.8 to tiles of 128 by 200."""
    found = menu(product(), sizes(8576, 768, 9664))
    assert any((s.tile_m, s.tile_n) == (256, 200) for s in found)
    chosen = choose(product(), sizes(8576, 768, 9664), 132, H200)
    assert (chosen.tile_m, chosen.tile_n) == (128, 200)


def test_pairs_one_above_the_other_share_160_columns() -> None:
    found = [s for s in menu(product(), sizes(2880, 1640, 1240)) if s.tile_n == 160 and s.cluster == 2]
    assert {s.beside for s in found} == {False, True}


@pytest.mark.parametrize(
    ("layout", "columns", "parts"),
    [("MN", 512, False), ("KN", 512, False), ("MK", 512, True), ("KK", 512, True), ("MN", 520, True)],
)
def test_panels_of_b_are_divided_where_tiles_bring_few_of_them_twice(
    layout: str, columns: int, parts: bool
) -> None:
    """Where B lies across K it is read in panels of 64 columns, and neighbours would read them twice."""
    found = menu(product(layout=layout), sizes(4736, columns, 2240))
    assert any(s.tile_n == 104 for s in found if not s.by_columns) is parts


@pytest.mark.parametrize(
    ("columns", "width", "may"), [(784, 200, False), (280, 144, False), (448, 112, False), (392, 200, True)]
)
def test_widths_bring_few_panels_more_than_there_are(columns: int, width: int, may: bool) -> None:
    """784 columns have 13 panels. Four tiles of 200 bring four each, so 16."""
    assert width in fitting(columns)
    assert (width in fitting(columns, along_n=True)) is may


def test_kernels_of_one_schedule_are_shared() -> None:
    chosen = Matmul(product())
    plain = chosen.schedule(sizes(8192, 8192, 8192))
    assert chosen.compiled(sizes(8192, 8192, 8192)) is chosen._by(plain)


def test_staging_needs_whole_rows() -> None:
    with pytest.raises(InputError, match="16 rows or more"):
        Schedule(128, 136, store="tma", by_columns=True).staging([2])


def test_half_rows_are_staged_where_whole_ones_do_not_fit() -> None:
    whole, half = Schedule(128, 192, store="tma"), Schedule(128, 160, store="tma")
    assert (whole.width(2), whole.parts(2)) == (64, 3)
    assert (half.width(2), half.parts(2)) == (32, 5)
    assert half.staging([2]) == 2 * 64 * 32 * 2


def test_clusters_share_out_whole_eights_of_columns() -> None:
    """A swizzle repeats with eight rows of shared memory, so each part begins where it does."""
    for width, cluster, may in (
        (160, 2, True),
        (160, 4, True),
        (144, 2, True),
        (104, 2, False),
        (144, 4, False),
    ):
        above, beside = (Schedule(128, width, cluster=cluster, beside=b) for b in (False, True))  # type: ignore[arg-type]
        beside.check()
        if may:
            above.check()
        else:
            with pytest.raises(InputError, match="parts of whole eights"):
                above.check()


def test_blocks_of_an_sm_share_its_memory() -> None:
    alone, beside = (Schedule(64, 128, consumers=1, store="tma", resident=r) for r in (1, 2))
    assert alone.fitted_stages(alone.staging([2])) == 8
    assert beside.fitted_stages(beside.staging([2])) == 4


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "split"),
    [(4096, 2112, 7168, "KK", False), (1024, 1024, 8192, "KK", True), (304, 304, 30000, "KK", True),
     (8448, 8192, 8192, "KK", False), (128, 7168, 2048, "KK", False)],
)  # fmt: skip
def test_few_tiles_with_many_steps_are_shared(m: int, n: int, k: int, layout: str, split: bool) -> None:
    assert (choose(product(layout=layout), sizes(m, n, k), 132).split_k > 1) is split


@pytest.mark.parametrize("layout", ["KK", "MN"])
def test_candidates_are_possible_and_differ(layout: str) -> None:
    problem = product(layout=layout)
    for m, n, k in ((4096, 4096, 4096), (64, 4096, 4096), (3648, 480, 8632), (8, 8, 8)):
        found = candidates(problem, sizes(m, n, k), 132, 8)
        assert 4 <= len(set(found)) == len(found) == len({s.title for s in found}) <= 8
        for s in found:
            s.check()
            assert s.fitted_stages(s.staging(problem.output_sizes)) >= 2


def test_long_kernels_are_tried_behind_the_kernel_before() -> None:
    found = candidates(product(), sizes(8192, 4096, 14336), 132, 4)
    assert [s.dependent for s in found] == [False, True, False, True]
    assert choose(product(), sizes(512, 512, 512), 132).dependent


def test_rows_of_tiles_are_grouped_to_read_little() -> None:
    wide, high = Schedule(128, 256), Schedule(256, 128)
    assert wide.grouped == 2 * high.grouped == 2 * replace(wide, cluster=2).grouped
    assert (replace(wide, group=5).grouped, replace(wide, group=5).title) == (5, "128x256g5")


# ---------------------------------------------------------------- what the model counts


def counts(schedule: Schedule, m: int, n: int, k: int, layout: str = "KK"):  # type: ignore[no-untyped-def]
    problem = product(layout=layout)
    stages = stages_of(problem, schedule)
    return counted(Facts.of(problem), schedule, stages, sizes(m, n, k), Processors(132))


def test_turns_of_whole_tiles_are_counted_with_what_is_left() -> None:
    found = counts(Schedule(128, 256, persistent=True, registers=(40, 232)), 4096, 4096, 640)
    assert (found.turns, found.last, found.steps) == (3, 1, 10)  # 512 tiles on 132 SMs
    assert found.busy_last == pytest.approx(116 / 132)
    assert counts(Schedule(128, 128), 128 * 132, 128, 64).last == 0


def test_rows_that_cross_lines_are_counted_by_layout() -> None:
    assert [crossing(x) for x in (256, 192, 160, 144)] == [0, 0.5, 0.8, 1.0]
    plain = Schedule(128, 128)
    assert counts(plain, 1024, 1024, 1000).crossing == 128 + 128  # 2000 bytes: 16 times 125
    assert counts(plain, 1024, 1024, 1024).crossing == 0
    assert counts(plain, 1032, 1024, 1024, "MN").crossing == pytest.approx(1032 / 9)


def test_blocks_of_a_cluster_bring_a_factor_once() -> None:
    for schedule, rows in (
        (Schedule(128, 256), 384), (Schedule(128, 256, cluster=2), 256),
        (Schedule(128, 256, cluster=2, beside=True), 320),
    ):  # fmt: skip
        assert counts(schedule, 4096, 4096, 4096).rows == rows


def test_parts_of_tiles_are_counted_by_their_longest_block() -> None:
    three = Schedule(128, 128, split_k=3, shares="one")
    found = counts(three, 512, 512, 6400)
    assert (found.turns, found.others, found.sums) == (pytest.approx(1 / 3), 2, 3 * 128 * 128)


def test_the_model_takes_cards_by_their_names() -> None:
    assert card_of("NVIDIA H200") is H200
    assert {card_of(f"NVIDIA {c.name} 80GB HBM3").name for c in CARDS} == {c.name for c in CARDS}
    assert {tile_name(s) for s in forms(product())} <= set(H200.coefficients.tiles) | {"64x96/1x2"}


def test_time_grows_with_the_work() -> None:
    schedule = Schedule(128, 256, registers=(40, 232), persistent=True, store="tma")
    times = [
        predicted(product(), schedule, sizes(4096, n, 4096), 132, H200) for n in (2048, 4096, 8192, 16384)
    ]
    assert times == sorted(times) and 1.7 < times[3] / times[2] < 2.3


# ---------------------------------------------------------------- what the formula is off by


def launches(shapes: list[tuple[int, int, int]]) -> list[Launch]:
    problem, schedule = product(), Schedule(128, 128, registers=(40, 232), store="tma")
    stages = stages_of(problem, schedule)
    return [Launch(Facts.of(problem), schedule, stages, sizes(*s)) for s in shapes]


def test_the_columns_of_a_launch_are_its_counts_and_its_schedule() -> None:
    given = launches([(1024, 512, 640), (200, 100, 72)])
    x = table(given, Processors(132))
    time = formula(H200.coefficients, given, x)
    found = columns(H200.coefficients, given, x, time)
    assert found.shape == (2, len(COLUMNS)) and np.isfinite(found).all()
    named = [dict(zip(COLUMNS, row, strict=True)) for row in found.tolist()]
    assert [n["tiles"] for n in named] == [32, 2] and [n["steps"] for n in named] == [10, 2]
    assert named[1]["waste_m"] == pytest.approx(256 / 200) and named[1]["n_rest"] == 100 % 64
    assert named[0]["log_time"] == pytest.approx(np.log(time[0]))


def test_a_card_without_trees_is_told_by_the_formula() -> None:
    given = launches([(1024, 512, 640), (4096, 4096, 4096)])
    plain, learnt = (estimated(replace(H200, trees=t), given, 132) for t in (None, H200.trees))
    assert plain.tolist() == formula(H200.coefficients, given, table(given, Processors(132))).tolist()
    assert (np.abs(np.log(learnt / plain)) < 0.5).all() and (learnt != plain).all()
    assert estimated(H200, [], 132).tolist() == []


def test_trees_of_one_card_correct_those_of_all() -> None:
    given = launches([(1024, 512, 640), (4096, 4096, 4096)])
    formula_, of_all, of_one, both = (
        estimated(replace(H100, trees=t, more=m), given, 132)
        for t, m in ((None, None), (H100.trees, None), (None, H100.more), (H100.trees, H100.more))
    )
    assert both == pytest.approx(of_all * of_one / formula_)
    assert (both != of_all).all() and H200.more is None


def test_what_is_preferred_is_kept_for_the_card_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cards of as many multiprocessors, and one cache."""
    found = set()
    problem, asked = product(layout="KK"), sizes(384, 8064, 384)
    for card in CARDS:

        def own(*given: object, card: Card = card) -> Schedule:
            return choose(problem, asked, 132, card)

        monkeypatch.setattr("syncverify.gate.matmul.here", lambda card=card: card)
        monkeypatch.setattr("syncverify.gate.matmul.choose", own)
        matmul = Matmul(problem, cache=Cache(tmp_path))
        assert matmul.schedule(asked) == own()
        found.add(own())
    assert len(found) == len(CARDS)  # else the test would tell nothing


#: Products of a layer of GPT-2 with 1024 features, forward or one gradient, as N and K behind 8192 rows.
LAYER = ((3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096), (50264, 1024))


@pytest.mark.parametrize("layout", ["KK", "KN", "MN"])
def test_few_schedules_are_enough_for_the_products_of_a_layer(layout: str) -> None:
    problem, known, own = product(layout=layout), list[Schedule](), set[Schedule]()
    for n, k in LAYER:
        asked = sizes(k, n, 8192) if layout == "MN" else sizes(8192, n, k)
        best, found = choose(problem, asked, 132, H200), among(known, problem, asked, 132, H200)
        own.add(best)
        if found not in known:
            assert found == best  # nothing known is alike
            near = [s for s in known if _alike(problem, s, best, asked)]
            assert not [s for s in near if replace(s, dependent=False) in menu(problem, asked)]
            known.append(found)
        assert _alike(problem, found, best, asked)
    assert len(known) <= len(own) - (layout == "KN")


def _alike(problem: Problem, schedule: Schedule, best: Schedule, asked: dict[str, int]) -> bool:
    times = [predicted(problem, s, asked, 132, H200) for s in (schedule, best)]
    return times[0] <= times[1] * (1 + ALIKE)


def test_a_known_schedule_that_is_slower_is_not_taken() -> None:
    asked = sizes(8192, 8192, 8192)
    best = choose(product(), asked, 132, H200)
    small = Schedule(64, 64, 1, store="tma", registers=None)
    assert among([small], product(), asked, 132, H200) == best


def test_products_that_share_proofs_take_what_others_have(tmp_path: Path) -> None:
    """Each for itself takes another schedule, and what was chosen is found by another process."""
    some = [sizes(8192, n, k) for n, k in LAYER]
    alone = {Matmul(product(layout="KN"), cache=Cache(tmp_path)).schedule(s) for s in some}
    chosen: list[Schedule] = []
    shared = Matmul(product(layout="KN"), cache=Cache(tmp_path), settled=chosen)
    found = [shared.schedule(s) for s in some]
    assert set(found) == set(chosen) and len(chosen) < len(alone)
    again: list[Schedule] = []
    other = Matmul(product(layout="KN"), cache=Cache(tmp_path), settled=again)
    assert [other.schedule(s) for s in reversed(some)] == found[::-1] and set(again) == set(chosen)
