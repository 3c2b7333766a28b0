"""Products of factors whose rows are no multiple of 16 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.fusion import Tensor, trace
from syncverify.gate.matmul import Matmul
from syncverify.gate.padded import padded_sizes
from syncverify.matmul import Problem, product


class Strict(Matmul):
    """A product by NumPy that takes rows of whole 16 bytes alone, as tensor copies do."""

    def proved(self, sizes: Mapping[str, int], multiprocessors: int = 132) -> Any:
        def run(a: Any, b: Any, out: Any = None) -> Any:
            turned = zip((a, b), self.problem.turned, strict=True)
            stored = [x.swapaxes(-2, -1) if t else x for x, t in turned]
            assert all(x.flags.c_contiguous and x.shape[-1] * x.itemsize % 16 == 0 for x in stored)
            many = {"B": len(a)} if self.problem.batched else {}
            assert sizes == {**many, "M": a.shape[-2], "K": a.shape[-1], "N": b.shape[-1]}
            found = (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
            if out is None:
                return found
            out[...] = found
            return out

        return run


@pytest.fixture(autouse=True)
def _no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "multiprocessors", lambda device: 132)


@pytest.mark.parametrize("given", [False, True])
def test_each_of_many_matrices_is_padded(given: bool) -> None:
    g = np.random.default_rng(5)
    a, b = (g.normal(size=shape).astype(ml_dtypes.bfloat16) for shape in ((3, 20, 13), (3, 13, 21)))
    out = np.full((3, 20, 21), np.nan, ml_dtypes.bfloat16) if given else None
    got = Strict(product(layout="KN", batched=True))(a, b, out=out)
    assert got.shape == (3, 20, 21) and (got is out) is given
    want = a.astype(np.float32) @ b.astype(np.float32)
    assert np.abs(got.astype(np.float32) - want).max() < 0.01 * np.abs(want).max()


def factors(layout: str, m: int, n: int, k: int) -> tuple[Any, Any]:
    g = np.random.default_rng(3)
    a, b = (g.normal(size=shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    a = a if layout[0] == "K" else np.ascontiguousarray(a.T).T
    return a, (np.ascontiguousarray(b.T).T if layout[1] == "K" else b)


@pytest.mark.parametrize("layout", ["KK", "MN", "KN", "MK"])
@pytest.mark.parametrize("given", [False, True])
def test_rows_of_any_length_are_multiplied(layout: str, given: bool) -> None:
    m, n, k = 67, 43, 71
    a, b = factors(layout, m, n, k)
    out = np.full((m, n), np.nan, ml_dtypes.bfloat16) if given else None
    got = Strict(product(layout=layout))(a, b, out=out)
    assert got.shape == (m, n) and (got is out) is given
    want = a.astype(np.float32) @ b.astype(np.float32)
    assert np.abs(got.astype(np.float32) - want).max() < 0.01 * np.abs(want).max()


def test_only_what_memory_runs_along_grows() -> None:
    sizes = {"M": 50257, "N": 43, "K": 71}
    assert padded_sizes(product(layout="KK"), sizes) == {"M": 50257, "N": 43, "K": 72}
    assert padded_sizes(product(layout="MN"), sizes) == {"M": 50264, "N": 48, "K": 71}
    assert padded_sizes(product("e4m3"), sizes) == {"M": 50257, "N": 43, "K": 80}
    assert padded_sizes(product(), {"M": 1, "N": 2, "K": 64}) == {"M": 1, "N": 2, "K": 64}


def test_what_copies_cannot_stand_for_is_refused() -> None:
    def biased(acc: Any, bias: Any) -> Any:
        return (acc + bias).cast("bf16")

    tensors = {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("N",))}
    problem = Problem("biased", "bf16", "KN", trace(biased, tensors))
    a, b = factors("KN", 64, 43, 64)
    with pytest.raises(InputError, match="pad the factors"):
        Strict(problem)(a, b, bias=np.zeros(43, ml_dtypes.bfloat16))
    a, b = factors("KK", 64, 48, 63)
    with pytest.raises(InputError, match="leave stream out"):
        Strict(product())(a, b, stream=7)
