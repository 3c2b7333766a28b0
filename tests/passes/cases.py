"""The plain kernels with what they compute, on NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from syncverify.examples import unsynchronized as plain
from syncverify.ir.nodes import Kernel
from syncverify.passes.synthesize import Options

Arrays = dict[str, Any]
BF16 = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Case:
    """A kernel, its inputs, and what its outputs must be. ``kept``: reasons for what a proof does without."""

    make: Callable[[], Kernel]
    inputs: Callable[[np.random.Generator], Arrays]
    outputs: Callable[[Arrays], Arrays]
    options: Options = Options()
    kept: tuple[str, ...] = ()


def floats(name: str, n: int, dtype: Any = np.float32) -> Callable[[np.random.Generator], Arrays]:
    return lambda rng: {name: rng.standard_normal(n).astype(dtype)}


def two(a: Any, b: Any, n: int) -> Callable[[np.random.Generator], Arrays]:
    return lambda rng: {
        "a": rng.standard_normal(n).astype(a), "b": rng.standard_normal(n).astype(b)
    }  # fmt: skip


def _partial(x: Arrays) -> Arrays:
    rounds = x["a"].reshape(-1, 128)
    return {"out": (rounds + rounds[:, :1] + rounds[:, 96:97]).reshape(-1)}


def _quantized(rng: np.random.Generator) -> Arrays:
    return {
        "a": rng.standard_normal((128, 5 * 64)).astype(BF16),
        "q": rng.integers(-8, 8, 5 * 4096).astype(np.int8),
    }


def _product(x: Arrays) -> Arrays:
    row, column = _share()
    weights = (x["q"].astype(np.float32) * 0.0625).astype(BF16).astype(np.float32).reshape(5 * 64, 64)
    product = x["a"].astype(np.float32) @ weights
    return {"c": np.concatenate([product[:64][row, column], product[64:][row, column]])}


def _share() -> tuple[Any, Any]:
    """Row and column of each thread's accumulators, in the order of its registers (PTX ISA, wgmma D)."""
    t, r = np.meshgrid(np.arange(128), np.arange(32), indexing="ij")
    return t // 32 * 16 + t % 32 // 4 + r // 2 % 2 * 8, r // 4 * 8 + t % 4 * 2 + r % 2


def _factors(rng: np.random.Generator) -> Arrays:
    return {
        "a": rng.standard_normal((6 * 64, 3 * 64)).astype(BF16),
        "b": rng.standard_normal((3 * 64, 64)).astype(BF16),
    }


def _tiles(x: Arrays) -> Arrays:
    row, column = _share()
    product = x["a"].astype(np.float32) @ x["b"].astype(np.float32)
    return {"c": np.concatenate([product[k : k + 64][row, column].reshape(-1) for k in range(0, 6 * 64, 64)])}


def _root(x: Arrays) -> Arrays:
    return {"out": np.sqrt((x["a"].reshape(3, 256) ** 2).sum(axis=0))}


CASES: dict[str, Case] = {
    "chained": Case(
        plain.chained, floats("a", 2 * 7 * 512), lambda x: {"out": (x["a"] * np.float32(0.5)).astype(BF16)}
    ),
    "three_depths": Case(
        plain.three_depths,
        two(np.float32, BF16, 2 * 9 * 512),
        lambda x: {"out": x["a"] + x["b"].astype(np.float32)},
    ),
    "batched": Case(
        plain.batched, two(np.float32, np.float32, 2 * 7 * 256), lambda x: {"out": x["a"] * x["b"]}
    ),
    "staged_store": Case(plain.staged_store, floats("a", 2 * 7 * 512), lambda x: {"out": x["a"] * 2}),
    "single_slot_store": Case(
        plain.single_slot_store, floats("a", 2 * 5 * 512), lambda x: {"out": x["a"] * 2}
    ),
    "partial_sums": Case(plain.partial_sums, floats("a", 2 * 6 * 128), _partial),
    "two_slot_partial_sums": Case(plain.two_slot_partial_sums, floats("a", 2 * 6 * 128), _partial),
    "warp_exchange": Case(
        plain.warp_exchange,
        floats("a", 4 * 128),
        lambda x: {"out": x["a"].reshape(-1, 32)[:, ::-1].reshape(-1)},
    ),
    "cp_async_ring": Case(
        plain.cp_async_ring,
        floats("a", 2 * 7 * 512),
        lambda x: {"out": x["a"].reshape(-1, 128, 4)[:, ::-1].reshape(-1) + 1},
    ),
    "cp_async_roles": Case(plain.cp_async_roles, floats("a", 2 * 7 * 512), lambda x: {"out": x["a"] * 2}),
    "converted_operand": Case(plain.converted_operand, _quantized, _product),
    "matrix_store": Case(
        plain.matrix_store, floats("a", 2 * 5 * 4096, BF16), lambda x: {"out": x["a"].reshape(-1, 64)}
    ),
    "two_phases": Case(
        plain.two_phases,
        floats("a", 2 * 4 * 512),
        lambda x: {"out": (x["a"].reshape(-1, 128, 4) + x["a"].reshape(-1, 128, 4)[:, ::-1]).reshape(-1)},
        options=Options(reuse=True),
    ),
    "multiply_and_stage": Case(
        plain.multiply_and_stage,
        _factors,
        _tiles,
        Options(reuse=True),
        kept=("contested",),
    ),
    "cluster_sum": Case(
        plain.cluster_sum,
        floats("a", 4 * 3 * 128),
        lambda x: {"out": x["a"].reshape(3, 4, 128)[:, :, 64].sum(axis=1)},
    ),
    "reduced": Case(plain.reduced, floats("a", 3 * 256), _root),
    "reduced_in_turn": Case(
        plain.reduced, floats("a", 3 * 256), _root, Options(serial=True), kept=("global", "global")
    ),
    "dependent": Case(
        plain.batched,
        two(np.float32, np.float32, 2 * 7 * 256),
        lambda x: {"out": x["a"] * x["b"]},
        Options(dependent=True),
    ),
}
