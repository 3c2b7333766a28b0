"""Products whose epilogue reads a matrix and writes several: the end of a tile is long."""

from __future__ import annotations

import pytest

from syncverify.fusion import Tensor, Value, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.matmul import Problem, product
from syncverify.matmul.choose import choose, menu, ranked

SIZES = {"M": 8192, "N": 5632, "K": 2048}
C, X = Tensor("f32", ("M", "N")), Tensor("bf16", ("M", "N"))


def half(acc: Value, x0: Value) -> dict[str, Value]:
    """The second product of a gated layer, and its combination with the first."""
    return {"y0": acc.cast("bf16"), "y1": (acc * x0).cast("bf16")}


LONG = Problem("half", "bf16", "KK", trace(half, {"acc": C, "x0": X}))
READS = Problem("reads", "bf16", "KK", trace(lambda acc, x0: (acc + x0).cast("bf16"), {"acc": C, "x0": X}))


def test_no_tiles_are_shared() -> None:
    assert all(s.split_k == 1 for s in menu(LONG, SIZES))
    assert any(s.split_k > 1 for s in menu(READS, SIZES)) and any(
        s.split_k > 1 for s in menu(product(), SIZES)
    )


def test_one_warpgroup_stores_while_the_other_multiplies() -> None:
    first, *others = ranked(LONG, SIZES, 132)
    assert first.pingpong and (first.tile_m, first.tile_n) == (64, 256)
    assert others and not any(s.pingpong for s in others)


@pytest.mark.parametrize("sizes", [{"K": 8192}, {"M": 512, "N": 512}, {"N": 5633}])
def test_neither_where_k_is_long_nor_where_tiles_are_few_nor_without_staging(sizes: dict[str, int]) -> None:
    assert not choose(LONG, {**SIZES, **sizes}, 132).pingpong


@pytest.mark.parametrize("problem", [READS, product()])
def test_shorter_ends_are_ranked_by_the_model(problem: Problem) -> None:
    assert not choose(problem, SIZES, 132).pingpong


@pytest.mark.slow
def test_it_is_proved() -> None:
    CompiledMatmul(LONG, choose(LONG, SIZES, 132), each_launch=True).require_proof(SIZES, 132)
