"""Products whose factors change places, and tiles of any multiple of eight columns."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ir import check_kernel
from syncverify.fusion import Tensor, trace
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir.nodes import TmaStore
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.choose import choose, menu
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import walk

BF16 = ml_dtypes.bfloat16
#: Layout, schedule, M, N, K: by columns in each layout, shared along K, persistent, a single row.
TURNED: list[tuple[str, dict[str, Any], int, int, int]] = [
    ("KK", {"tile_n": 24, "store": "tma"}, 20, 264, 136),
    ("KN", {"tile_m": 256, "tile_n": 72, "store": "tma"}, 70, 520, 136),
    ("MK", {"tile_m": 64, "tile_n": 40, "consumers": 1, "store": "tma", "persistent": True}, 96, 200, 72),
    ("MN", {"tile_n": 120, "store": "tma", "split_k": 2, "shares": "one"}, 104, 264, 640),
    ("KK", {"tile_n": 8, "store": "tma"}, 1, 264, 200),
    ("KK", {"tile_n": 48, "store": "tma", "cluster": 2, "beside": True}, 90, 264, 136),
    ("MN", {"tile_n": 64}, 72, 136, 136),
]
#: The same of tiles that are no multiple of 16 or of a panel.
NARROW: list[tuple[str, dict[str, Any], int, int, int]] = [
    ("KK", {"tile_n": 136, "store": "tma"}, 130, 136, 136),
    ("KK", {"tile_n": 200, "store": "tma", "persistent": True}, 130, 400, 72),
    ("MN", {"tile_n": 72, "store": "tma"}, 72, 136, 136),
    ("KN", {"tile_n": 96, "store": "tma"}, 72, 200, 136),
    ("KK", {"tile_n": 136}, 130, 136, 72),
    ("KK", {"tile_n": 72, "split_k": 3, "shares": "one"}, 100, 136, 640),
]


def product_of(layout: str, fields: dict[str, Any], m: int, n: int, k: int) -> tuple[Any, Any]:
    """The simulator's product of a proved kernel, and NumPy's."""
    rng = np.random.default_rng(m * n)
    a, b = (rng.standard_normal(s).astype(BF16) for s in ((m, k), (k, n)))
    given = [
        x if row else np.ascontiguousarray(x.T).T for x, row in ((a, layout[0] == "K"), (b, layout[1] == "N"))
    ]
    compiled = CompiledMatmul(product(layout=layout), Schedule(stages=2, **fields), each_launch=True)
    (got,) = compiled.simulate(*given, multiprocessors=6)
    proofs = compiled.program(1 if fields.get("by_columns") else 2).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == dict.fromkeys(("ir", "ptx"), ScopeKind.ALL)
    return got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.parametrize(("layout", "fields", "m", "n", "k"), TURNED)
def test_tiles_of_the_transpose(layout: str, fields: dict[str, Any], m: int, n: int, k: int) -> None:
    got, want = product_of(layout, {**fields, "by_columns": True}, m, n, k)
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=0.05)


@pytest.mark.parametrize(("layout", "fields", "m", "n", "k"), NARROW)
def test_tiles_of_any_eight_columns(layout: str, fields: dict[str, Any], m: int, n: int, k: int) -> None:
    got, want = product_of(layout, fields, m, n, k)
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=0.05)


def test_without_what_orders_its_copies_it_is_refuted() -> None:
    problem = product().computed(True)
    kernel = build(problem, Schedule(128, 48, stages=2, store="tma", by_columns=True))
    assert check_kernel(kernel, {}, scope=ScopeKind.ALL).verdict is Verdict.PROVED
    bare = build(
        problem,
        Schedule(128, 48, stages=2, store="tma", by_columns=True),
        without=frozenset({"staged-stores"}),
    )
    assert any(isinstance(s, TmaStore) for s in walk(bare.body))
    assert check_kernel(bare, {}).verdict is Verdict.REFUTED


def test_what_cannot_change_places() -> None:
    def biased(acc, bias):  # type: ignore[no-untyped-def]
        return (acc + bias).cast("bf16")

    inputs = {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("N",))}
    problem = Problem("biased", "bf16", "KK", trace(biased, inputs))
    assert problem.transposed is None
    with pytest.raises(InputError, match="by_columns is for 16-bit results of one product alone"):
        problem.computed(True)
    assert not any(s.by_columns for s in menu(problem, {"M": 16, "N": 4096, "K": 4096}))


def test_few_rows_are_taken_by_columns() -> None:
    chosen = choose(product(), {"M": 16, "N": 4096, "K": 4096}, 132)
    assert chosen.by_columns and chosen.tile_n == 16


@pytest.mark.parametrize(("tile_n", "width"), [(136, 136), (200, 40), (72, 72), (144, 72), (160, 32)])
def test_rows_of_a_part_begin_in_other_banks(tile_n: int, width: int) -> None:
    """A swizzle, or an odd number of 16-byte units."""
    assert Schedule(128, tile_n, store="tma").width(2) == width
    assert width in (32, 64) or width // 8 % 2 == 1
