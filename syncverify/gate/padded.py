"""Factors of products whose rows are no multiple of 16 bytes: copies with rows that are.

Tensor copies need rows of 16 bytes. Where memory runs along a size that is none, the factor is copied into
longer rows. What is behind a row's end is zero along K, so the sums stay the same; along M or N it makes rows
or columns of C that are left out. The copies are made by the arrays' own library, on its current stream; the
kernel that multiplies is proved for the longer rows.

Example: 50257 columns of a gradient in bf16 become 50264, one copy of 0.8 GB for 8192 rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syncverify.base.source import InputError
from syncverify.codegen.arrays import describe, empty_like
from syncverify.codegen.arrays import turned as turned_view
from syncverify.ir.nodes import DTYPE_BYTES
from syncverify.matmul.problem import Problem

_ROW = 16  # bytes that rows of a tensor map are a multiple of


def padded_sizes(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes with rows of every factor made multiples of 16 bytes."""
    found = dict(sizes)
    for name, dtype in problem.stored.items():
        inner, unit = problem.shapes[name][-1], _ROW // DTYPE_BYTES[dtype]
        found[inner] = max(found[inner], -(-sizes[inner] // unit) * unit)
    return found


def padded(array: Any, shape: tuple[int, int], *, turned: bool) -> Any:
    """A copy of a matrix, or of each of many, in a larger one, with zeros behind it; ``turned``: memory runs
    along columns."""
    source = turned_view(array) if turned else array
    rows, columns = shape[::-1] if turned else shape
    model = describe(source)
    *many, m, n = model.shape
    found = empty_like(model, (*many, rows, columns), model.dtype)
    found[..., :m, :n] = source
    found[..., m:, :] = 0
    found[..., :m, n:] = 0
    return turned_view(found) if turned else found


def without_rest(result: Any, m: int, n: int, out: Any) -> Any:
    """The first rows and columns of a result, in ``out`` or an array of their own."""
    if out is None and len(result.shape) == 2 and result.shape[1] == n:
        return result[:m]
    model = describe(result)
    found = empty_like(model, (*model.shape[:-2], m, n), model.dtype) if out is None else out
    found[...] = result[..., :m, :n]
    return found


def refuse(
    problem: Problem, sizes: Mapping[str, int], wanted: Mapping[str, int], stream: int | None = None
) -> None:
    """InputError where copies cannot stand for what was given."""
    if stream is not None:
        raise InputError(
            f"{problem.name}: rows that are no multiple of {_ROW} bytes are copied on the current stream: "
            "leave stream out"
        )
    if problem.grouped and dict(sizes) != dict(wanted):
        raise InputError(
            f"{problem.name}: grouped products take factors with rows of multiples of {_ROW} bytes"
        )
    longer = [d for d in ("M", "N") if wanted[d] != sizes[d]]
    if longer and (problem.others or problem.placed or len(problem.epilogue.outputs) > 1):
        raise InputError(
            f"{problem.name}: {longer[0]} = {sizes[longer[0]]} makes rows that are no multiple of {_ROW} "
            "bytes; copies are made for one result of products alone: pad the factors"
        )


__all__ = ["padded", "padded_sizes", "refuse", "without_rest"]
