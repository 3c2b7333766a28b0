"""Which schedule the model prefers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncverify.base.source import InputError
from syncverify.gate.matmul import Matmul
from syncverify.matmul import Schedule, product
from syncverify.matmul.choose import candidates, choose, menu, ranked


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k}


def test_large_products_take_the_widest_tiles() -> None:
    schedule = choose(product(), sizes(8192, 8192, 8192), 132)
    assert (schedule.tile_m * schedule.tile_n, schedule.persistent) == (128 * 256, True)


def test_few_rows_take_low_tiles() -> None:
    assert choose(product(), sizes(64, 4096, 4096), 132).tile_m == 64


def test_one_turn_needs_no_persistent_kernel() -> None:
    assert not choose(product(), sizes(1024, 1024, 1024), 132).persistent


@pytest.mark.parametrize(
    ("k", "laps"), [(64, "odd"), (256, "odd"), (320, "even"), (512, "even"), (4096, "even")]
)
def test_warpgroups_that_take_turns_have_laps_that_fit(k: int, laps: str) -> None:
    (turns,) = [s for s, _ in menu(product(), sizes(16384, 16384, k)) if s.pingpong]
    assert turns.fitted_stages(turns.staging([2])) == 4
    assert (turns.laps, turns.proved_by_launch) == (laps, False)


def test_what_is_timed_beside_whole_laps_begins_anywhere() -> None:
    found = [s for s in candidates(product(), sizes(16384, 16384, 512), 132, 30) if s.pingpong]
    assert found and {s.laps for s in found} == {"even", "any"}


def test_ragged_rows_are_stored_directly() -> None:
    assert {s.store for s in ranked(product(), sizes(512, 500, 512), 132)} == {"direct"}
    found = ranked(product(), sizes(512, 512, 512), 132)
    assert {(s.tile_n % 64 == 0, s.store) for s in found} == {(True, "tma"), (False, "direct")}


@pytest.mark.parametrize("layout", ["KK", "MN"])
def test_the_menu_fits_into_shared_memory(layout: str) -> None:
    problem = product(layout=layout)
    for schedule, _ in menu(problem, sizes(4096, 4096, 4096)):
        schedule.check()
        assert schedule.fitted_stages(schedule.staging(problem.output_sizes)) >= 3


def test_kernels_of_one_schedule_are_shared() -> None:
    chosen = Matmul(product())
    assert chosen.compiled(sizes(8192, 8192, 8192)) is chosen.compiled(sizes(8192, 8192, 4096))


def test_staging_needs_whole_rows() -> None:
    with pytest.raises(InputError, match="128-byte"):
        Schedule(128, 80, store="tma").staging([2])


@pytest.mark.parametrize(
    ("m", "n", "k", "layout", "tiles"),
    [
        (3648, 480, 8632, "MN", {(128, 128, 1)}),
        (1176, 1840, 44280, "MN", {(128, 192, 1)}),
        (4096, 2112, 7168, "KK", {(128, 192, 3)}),
        (64, 4096, 4096, "KK", {(64, 32, 1)}),
        (128, 7168, 2048, "KK", {(128, 64, 1)}),
    ],
)
def test_few_tiles_with_many_steps(
    m: int, n: int, k: int, layout: str, tiles: set[tuple[int, int, int]]
) -> None:
    """What measured best for these sizes on an H200."""
    schedule = choose(product(layout=layout), sizes(m, n, k), 132)
    assert (schedule.tile_m, schedule.tile_n, schedule.split_k) in tiles


def test_whole_rounds_of_tiles_are_not_shared() -> None:
    for m, n, k in ((8192, 8192, 8192), (4096, 14336, 5120), (16384, 16384, 1024)):
        assert choose(product(), sizes(m, n, k), 132).split_k == 1


@pytest.mark.parametrize("layout", ["KK", "MN"])
def test_candidates_are_possible_and_differ(layout: str) -> None:
    problem = product(layout=layout)
    for m, n, k in ((4096, 4096, 4096), (64, 4096, 4096), (3648, 480, 8632), (8, 8, 8)):
        found = candidates(problem, sizes(m, n, k), 132, 8)
        assert 4 <= len(set(found)) == len(found) == len({s.title for s in found}) <= 8
        assert all(s.dependent for s in found)
        for s in found:
            s.check()
            assert s.fitted_stages(s.staging(problem.output_sizes)) >= 2


def test_long_kernels_are_tried_behind_the_kernel_before() -> None:
    found = candidates(product(), sizes(8192, 4096, 14336), 132, 4)
    assert [s.dependent for s in found] == [False, True, False, True]


def test_rows_of_tiles_are_grouped_to_read_little() -> None:
    wide, high = Schedule(128, 256), Schedule(256, 128)
    assert wide.grouped == 2 * high.grouped == 2 * replace(wide, cluster=2).grouped
    assert (replace(wide, group=5).grouped, replace(wide, group=5).title) == (5, "128x256g5")


def test_odd_numbers_of_panels_are_tried_in_clusters() -> None:
    found = candidates(product(layout="MN"), sizes(1176, 1840, 44280), 132)
    assert (128, 192, 2) in {(s.tile_m, s.tile_n, s.cluster) for s in found}


def test_large_products_are_tried_in_clusters() -> None:
    assert 2 in {s.cluster for s in candidates(product(), sizes(4096, 4096, 4096), 132)}
