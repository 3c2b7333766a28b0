"""Lowering: who copies what, broadcast indices, access widths."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod

import numpy as np
import pytest

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule, Tensor, trace
from syncverify.fusion.lower import (
    broadcast_index,
    fitted,
    launch_values,
    lower,
    pieces,
    vector_for,
    widest_vector,
)
from syncverify.fusion.pipeline import build
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int, Var, evaluate
from syncverify.passes.rewrite import walk


@pytest.mark.parametrize(
    "own", [("A",), ("B",), ("C",), ("A", "B"), ("A", "C"), ("B", "C"), ("A", "B", "C"), ()]
)
def test_broadcast_index_is_numpys(own: tuple[str, ...]) -> None:
    sizes = {"A": 2, "B": 3, "C": 5}
    dims = ("A", "B", "C")
    operand = np.arange(prod(sizes[d] for d in own)).reshape([sizes[d] for d in own])
    full = operand[tuple(slice(None) if d in own else np.newaxis for d in dims)]
    wanted = np.broadcast_to(full, tuple(sizes.values())).ravel()
    index = broadcast_index(dims, own, Var("p"))
    assert [evaluate(index, {**sizes, "p": p}) for p in range(30)] == wanted.tolist()


@pytest.mark.parametrize(("inputs", "warps"), list(product(range(1, 5), range(1, 5))))
def test_round_robin_uses_every_warp_and_every_element(inputs: int, warps: int) -> None:
    names = "abcd"[:inputs]
    fusion = _sum(names)
    schedule = Schedule(tile=1024, async_warps=warps, compute_warps=4)
    found = pieces(fusion, schedule)
    assert {p.warp for p in found} == set(range(warps))
    for name in names:
        mine = sorted((p.start, p.count) for p in found if p.tensor == name)
        assert sum(c for _, c in mine) == 1024
        assert all(s + c == t for (s, c), (t, _) in pairwise(mine))
        assert all(s % 4 == c % 4 == 0 for s, c in mine)


def _sum(names: str):  # type: ignore[no-untyped-def]
    bodies = {
        1: lambda a: a * 2.0, 2: lambda a, b: a + b, 3: lambda a, b, c: a + b + c,
        4: lambda a, b, c, d: a + b + c + d,
    }  # fmt: skip
    return trace(bodies[len(names)], dict.fromkeys(names, Tensor("f32", ("R", "C"))))


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"a": (0,)}, "must name the inputs a, b"), ({"a": (0,), "b": (2,)}, "uses async warps"),
        ({"a": (0, 0), "b": (1,)}, "cannot split"),
    ],
)  # fmt: skip
def test_impossible_splits(split: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        pieces(examples.mul, Schedule(tile=1024, async_warps=2, split=split))


def test_access_width_follows_types_and_sizes() -> None:
    schedule = Schedule(tile=4096)
    assert widest_vector(examples.mul, schedule) == 4
    assert widest_vector(examples.mul_bf16, schedule) == 8
    assert widest_vector(examples.mul_bf16, Schedule(tile=1024)) == 4
    assert [vector_for(examples.bias_gelu, schedule, {"R": 9, "C": c}) for c in (64, 12, 6, 7)] == [
        8,
        4,
        2,
        1,
    ]
    assert vector_for(examples.mul_bf16, schedule, {"R": 9, "C": 7}) == 8


def test_tile_is_chosen_within_shared_memory() -> None:
    for fusion in (examples.scale, examples.mul, examples.scale_add, examples.select4, examples.gate_pair):
        for settings in ("", "store=tma", "stages=8", "blocks_per_sm=2", "mode=pipelined stages=2"):
            schedule = fitted(fusion, Schedule().with_settings(settings.split()))
            assert schedule.tile > 0
            build(fusion, schedule)


def test_lowered_kernel_has_no_synchronization() -> None:
    kernel = lower(examples.mul, Schedule(tile=2048, store="tma"))
    sync = (n.BarrierSync, n.MbarrierWait, n.MbarrierArrive, n.MbarrierInit, n.FenceProxyAsync, n.BulkCommit,
            n.BulkWait, n.Elect, n.Role, n.WarpSync)  # fmt: skip
    assert not any(isinstance(s, sync) for s in walk(kernel.body))


@pytest.mark.parametrize("settings", ["tile=100", "tile=65536", "tile=8192 blocks_per_sm=4"])
def test_impossible_tiles(settings: str) -> None:
    with pytest.raises(InputError, match="schedule"):
        build(examples.mul, Schedule().with_settings(settings.split()), Policy.PRACTICAL)


def test_trip_count_is_hoisted_and_covers_all_tiles() -> None:
    schedule = Schedule(tile=1024, compute_warps=4)
    kernel = lower(examples.mul, schedule)
    lets = {s.name: s.value for s in kernel.body if isinstance(s, n.Let)}
    for elements, most in product((1, 1023, 1024, 5000, 33 * 1024), (1, 2, 7)):
        env = launch_values(kernel, {"R": 1, "C": elements}, most)
        tiles = env["each"] * env["blocks"] + env["more"]
        assert tiles * 1024 + env["rest"] == elements
        assert all(evaluate(fact, env) for fact in kernel.assumes)
        grid = evaluate(kernel.launch.grid[0], env)
        assert 1 <= grid <= most
        trips = [evaluate(lets["n"], {**env, "grid": grid, "block": b}) for b in range(grid)]
        assert sum(trips) == tiles and min(trips) >= 0
    assert isinstance(kernel.body[-1], n.If) and kernel.barriers[0].count == Int(1)
