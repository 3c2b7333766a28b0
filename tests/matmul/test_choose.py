"""Which schedule the model prefers."""

from __future__ import annotations

import pytest

from syncverify.gate_matmul import Matmul
from syncverify.matmul import Schedule, product
from syncverify.matmul.choose import choose, menu, ranked
from syncverify.source import InputError


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k}


def test_large_products_take_the_widest_tiles() -> None:
    schedule = choose(product(), sizes(8192, 8192, 8192), 132)
    assert (schedule.tile_m * schedule.tile_n, schedule.persistent) == (128 * 256, True)


def test_few_rows_take_low_tiles() -> None:
    assert choose(product(), sizes(64, 4096, 4096), 132).tile_m == 64


def test_one_turn_needs_no_persistent_kernel() -> None:
    assert not choose(product(), sizes(1024, 1024, 1024), 132).persistent


def test_short_products_in_many_turns_are_stored_while_others_multiply() -> None:
    assert choose(product(), sizes(16384, 16384, 256), 132).pingpong
    assert not choose(product(), sizes(16384, 16384, 4096), 132).pingpong
    assert not choose(product(), sizes(1024, 1024, 256), 132).pingpong


def test_ragged_rows_are_stored_directly() -> None:
    assert {s.store for s in ranked(product(), sizes(512, 500, 512), 132)} == {"direct"}
    assert {s.store for s in ranked(product(), sizes(512, 512, 512), 132)} == {"tma"}


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
