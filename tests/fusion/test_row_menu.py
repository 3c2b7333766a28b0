"""Which schedules rows of any width may have, and how they are ranked."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.compiler.fusion_cases import fusion_of
from syncverify.base import boosted_trees
from syncverify.codegen import driver
from syncverify.fusion import RowSchedule, row_cards, row_menu
from syncverify.fusion.row_cards import H100, H200
from syncverify.fusion.row_estimate import COLUMNS, TREES, Estimate, columns, formula


@pytest.mark.parametrize("width", [128, 291, 768, 1088, 7401, 48885])
def test_every_schedule_of_the_menu_is_one_that_a_kernel_can_have(width: int) -> None:
    fusion = fusion_of("layernorm", "bf16")
    found = row_menu.launches(fusion, width)
    assert len(found) > 10 and len({s for s, _ in found}) == len(found)
    for schedule, launch in found:
        schedule.check()
        assert launch.width == width
        assert launch.counts.threads <= row_menu.THREADS


def test_short_rows_may_lie_in_blocks_of_several_groups_of_warps() -> None:
    found = {(s.warps, s.rows) for s in row_menu.menu(fusion_of("softmax", "f32"), 768)}
    assert {(1, 16), (1, 8), (2, 4), (2, 2), (2, 1), (4, 2), (4, 1)} <= found


@pytest.mark.parametrize(
    ("width", "vector", "found"),
    [(3136, 8, {7, 13}), (7040, 8, {7, 14, 28}), (720, 8, {3}), (144, 8, set()), (256, 8, set())],
)
def test_numbers_of_warps_that_leave_few_lanes_without_elements(
    width: int, vector: int, found: set[int]
) -> None:
    assert set(row_menu.fitting(width, vector)) == found
    menu = row_menu.menu(fusion_of("rmsnorm", "bf16"), width)
    assert {s.warps for s in menu if s.warps & (s.warps - 1)} == found


@pytest.mark.parametrize(
    ("case", "dtype", "width", "again", "pieces"),
    [
        ("add+rmsnorm", "bf16", 13312, {"no"}, {4, 8, 16, 32}),
        ("add+rmsnorm", "bf16", 3520, {"no", "yes"}, set()),
        ("rmsnorm", "bf16", 13312, {"no", "yes"}, {4, 8, 16, 32}),
        ("row_max", "f32", 60001, {"no", "yes"}, {4, 8, 16}),
    ],
)
def test_forms_that_lost_wherever_they_were_timed_are_not_in_the_menu(
    case: str, dtype: str, width: int, again: set[str], pieces: set[int]
) -> None:
    menu = row_menu.menu(fusion_of(case, dtype), width)
    assert {s.reread for s in menu if s.stream != "yes"} == again
    assert {s.warps for s in menu if s.stream == "yes"} == pieces


@pytest.mark.parametrize(
    ("case", "dtype", "width", "form"),
    [
        ("add+layernorm", "f32", 38976, None), ("add+layernorm", "f32", 66048, (4, 16)),
        ("log_softmax", "f32", 47879, (4, 8)), ("layernorm", "f32", 33536, None),
        ("add+rmsnorm", "f32", 34496, None), ("add+layernorm", "bf16", 44800, (4, 8)),
        ("add+rmsnorm", "f32", 53632, (4, 8)), ("add+rmsnorm", "bf16", 59456, (4, 8)),
        ("add+rmsnorm", "bf16", 59457, None), ("rmsnorm", "bf16", 59456, None),
        ("add+layernorm", "f32", 30000, None), ("rmsnorm", "f32", 56028, None),
        ("log_softmax", "f32", 56512, None),
        ("rmsnorm", "f32", 78144, (8, 8)), ("softmax", "f32", 102405, (8, 8)),
        ("add+layernorm", "bf16", 99008, (8, 8)), ("softmax", "bf16", 99008, None),
        ("softmax", "f32", 106500, None), ("cross_entropy", "f32", 80000, None),
    ],
)  # fmt: skip
def test_blocks_of_a_cluster_share_rows_where_that_was_faster(
    case: str, dtype: str, width: int, form: tuple[int, int] | None
) -> None:
    chosen = row_menu.chosen(fusion_of(case, dtype), RowSchedule(width=width), width)
    assert ((chosen.cluster, chosen.warps) if chosen.cluster else None) == form


def test_the_columns_of_a_launch_tell_what_its_threads_lack() -> None:
    fusion = fusion_of("softmax", "f32")
    found = [x for s, x in row_menu.launches(fusion, 4000) if (s.warps, s.reread) == (4, "no")]
    x, time = formula(H200, found)
    table = columns(H200, found, x, time)
    assert table.shape == (len(found), len(COLUMNS)) and np.isfinite(table).all()
    lacking = dict(
        zip([y.schedule.blocks_per_sm for y in found], table[:, COLUMNS.index("lacking")], strict=True)
    )
    assert lacking[4] == 0 < lacking[14]  # 32 numbers of a row in 128 registers, and in 36


def test_an_estimate_without_trees_is_the_formula() -> None:
    fusion = fusion_of("rmsnorm", "f16")
    found = [x for _, x in row_menu.launches(fusion, 1088)]
    plain, learnt = Estimate(fusion, trees=None).cycles(found), Estimate(fusion).cycles(found)
    assert plain.tolist() == formula(H200, found)[1].tolist()
    assert np.abs(np.log(learnt / plain)).max() < 2 and (learnt != plain).all()
    assert Estimate(fusion).cycles([]).tolist() == []


@pytest.mark.parametrize(
    ("case", "dtype", "width", "reread"),
    [
        ("add+rmsnorm", "f16", 576, "no"), ("add+rmsnorm", "bf16", 704, "yes"),
        ("add+layernorm", "bf16", 832, "yes"),
    ],
)  # fmt: skip
def test_two_warps_have_a_short_row_of_several_inputs_and_outputs(
    case: str, dtype: str, width: int, reread: str
) -> None:
    """As was fastest on an H200, where the trees prefer another form by 1 to 2%."""
    first = row_menu.ranked(fusion_of(case, dtype), width)[0]
    assert (first.warps, first.rows, first.reread) == (2, 1, reread)


@pytest.mark.parametrize(("dtype", "width"), [("f32", 704), ("bf16", 701), ("bf16", 1032)])
def test_other_rows_of_two_warps_take_what_the_trees_say(dtype: str, width: int) -> None:
    fusion = fusion_of("add+rmsnorm", dtype)
    model = Estimate(fusion)
    found = [x for _, x in row_menu.launches(fusion, width) if x.schedule.warps == 2]
    x, time = formula(model.coefficients, found)
    trees = boosted_trees.read(TREES, COLUMNS)
    plain = time * np.exp(trees(columns(model.coefficients, found, x, time)))
    np.testing.assert_allclose(model.cycles(found), plain)


def test_what_is_chosen_leaves_the_rest_of_a_schedule_as_it_was() -> None:
    fusion = fusion_of("layernorm", "bf16")
    asked = RowSchedule(width=1100, index="i64")
    assert row_menu.applies(fusion, asked, 1100)
    found = row_menu.chosen(fusion, asked, 1100)
    assert found.index == "i64" and found.warps > 0 and found.width == 1100


@pytest.mark.parametrize(
    ("case", "dtype", "last"),
    [
        ("softmax", "f16", True),
        ("rmsnorm", "f32", True),
        ("add+rmsnorm", "f32", True),
        ("add+rmsnorm", "f16", False),  # two inputs of 16 bits
        ("row_sum", "f32", False),  # nothing is written along rows
    ],
)
def test_what_is_loaded_leaves_the_cache_last_where_memory_sets_the_pace(
    case: str, dtype: str, last: bool
) -> None:
    fusion, plain = fusion_of(case, dtype), RowSchedule(width=600, warps=2, reread="no", stream="no")
    assert row_menu.leaves_last(fusion, plain) is last
    assert not row_menu.leaves_last(fusion, RowSchedule(width=600, warps=2, reread="yes", stream="no"))
    chosen = row_menu.chosen(fusion, RowSchedule(width=600), 600)
    assert chosen.cache == ("kept" if last and chosen.reread == "no" else "auto")
    assert row_menu.chosen(fusion, RowSchedule(width=600, cache="loads"), 600).cache == "loads"


@pytest.mark.parametrize(
    ("dtype", "width", "has"),
    [("bf16", 278, True), ("bf16", 279, False), ("f32", 279, True), ("bf16", 280, False)],
)
def test_results_leave_through_shared_memory_in_words_of_a_lane(dtype: str, width: int, has: bool) -> None:
    """Rows that are whole vectors need no tile, and lanes of odd rows of 16 bits have single elements."""
    found = {s.store for s in row_menu.menu(fusion_of("layernorm", dtype), width)}
    assert ("shared" in found) is has


def test_rows_are_chosen_for_the_card_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    fusion, width = fusion_of("layernorm", "bf16"), 17216
    of_h100, of_h200 = (Estimate(fusion, c) for c in (H100, H200))
    found = [x for _, x in row_menu.launches(fusion, width)]
    picks = [int(np.argmin(e.cycles(found))) for e in (of_h100, of_h200)]
    assert picks[0] != picks[1]  # measured: what an H200 prefers takes an H100 1.12 times as long
    schedules = [s for s, _ in row_menu.launches(fusion, width)]
    first = [row_menu.ranked(fusion, width)[0]]
    monkeypatch.setattr(driver, "available", lambda: True)
    monkeypatch.setattr(driver, "device_name", lambda device: "NVIDIA H100 80GB HBM3")
    row_cards.here.cache_clear()
    try:
        first.append(row_menu.ranked(fusion, width)[0])
    finally:
        row_cards.here.cache_clear()
    assert first == [schedules[picks[1]], schedules[picks[0]]]


def test_a_card_is_known_by_a_part_of_its_name() -> None:
    assert row_cards.coefficients_of("NVIDIA H100 80GB HBM3") is H100
    assert row_cards.coefficients_of("NVIDIA H200") is row_cards.coefficients_of("another") is H200
    assert H100.bandwidth < H200.bandwidth and H100.level2 < H200.level2
