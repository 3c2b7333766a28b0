"""Inputs that no output reads, or that indices alone name: no copy brings them, nothing waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from syncverify import gate
from syncverify.base.source import InputError
from syncverify.fusion import Fusion, Tensor, softmax, take, trace
from syncverify.fusion.functions import numpy_dtype
from syncverify.fusion.plan import with_settings

SIZES = {"R": 11, "C": 64}
ROW, NUMBER, BOTH, PLACE = (
    Tensor("f32", ("C",)), Tensor("bf16", ("R",)), Tensor("f32", ("R", "C")), Tensor("i64", ("R",)),
)  # fmt: skip
DEAD: dict[str, tuple[Callable[..., Any], dict[str, Tensor]]] = {
    "nothing of both dimensions": (lambda x, y, z: y + z, {"x": BOTH, "y": ROW, "z": NUMBER}),
    "one of two": (lambda x, w, z: w + z, {"x": BOTH, "w": BOTH, "z": NUMBER}),
    "sums of an outer product": (lambda x, y, z: (y * z).sum("C") + z, {"x": BOTH, "y": ROW, "z": NUMBER}),
    "one row of two": (lambda x, w, s: softmax(w), {"x": BOTH, "w": BOTH, "s": Tensor("f32")}),
    "named by an index": (
        lambda x, i, w: {"a": take(x, i), "b": softmax(w)}, {"x": BOTH, "i": PLACE, "w": BOTH},
    ),
    "a sum that nobody needs": (lambda x, w: (x.sum("R"), w * 2.0)[1], {"x": BOTH, "w": BOTH}),
}  # fmt: skip
SETTINGS = ["", "stages=3", "source=direct", "stages=2 blocks_per_sm=1"]


def inputs(f: Fusion) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {n: tuple(SIZES[d] for d in t.dims) for n, t in f.inputs}
    return {
        n: np.asarray(rng.integers(0, 64, shapes[n]) if t.dtype == "i64" else rng.standard_normal(shapes[n]))
        .astype(numpy_dtype(t.dtype)) for n, t in f.inputs
    }  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", DEAD)
def test_what_nobody_reads(name: str, settings: str) -> None:
    f = trace(*DEAD[name])
    kernel = gate.compile(f, with_settings(f, settings.split()) if settings else None)
    assert not {"x_tile", "x_tile0"} & {b.name for b in kernel.ir.shared}  # type: ignore[union-attr]
    given = inputs(f)
    for got, want in zip(kernel.simulate(given, SIZES), f.reference(given, np.float64), strict=True):
        assert np.allclose(np.asarray(got, np.float64), want, atol=1e-5)


def test_a_ring_needs_rows_that_are_read() -> None:
    f = trace(*DEAD["sums of an outer product"])
    with pytest.raises(InputError, match="reads no rows that copies could bring: source=direct"):
        gate.compile(f, with_settings(f, ["source=bulk"]))


def test_a_dimension_of_what_nobody_needs() -> None:
    with pytest.raises(InputError, match="no output depends on C"):
        trace(lambda x, y: (x.sum("C"), y * 2.0)[1], {"x": BOTH, "y": Tensor("f32", ("R",))})


def test_the_simulator_takes_the_authors_names() -> None:
    f = trace(lambda i, block: softmax(i) + block, {"i": BOTH, "block": ROW})
    x, y = np.ones((11, 64), np.float32), np.ones(64, np.float32)
    assert np.allclose(gate.compile(f).simulate({"i": x, "block": y}, SIZES)[0], 1 + 1 / 64)
