"""Schedules of fusions that reduce over rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from syncverify.base.schedule_fields import check_fields
from syncverify.fusion.graph import Fusion
from syncverify.fusion.schedule import apply_settings, choice, require
from syncverify.ir.nodes import DTYPE_BYTES

#: Bytes of the widest access of one thread.
VECTOR_BYTES = 16
LANES = 32


@dataclass(frozen=True, slots=True)
class ColumnSchedule:
    """How a reduction over rows runs; 0 leaves a choice.

    ``warps``: of a block, where a warp's lanes stand side by side. ``rows``: that a thread reads together.
    ``blocks_per_sm``: how many strips the rows are cut into. ``index``, ``cache``: as in ``Schedule``.
    ``across``: what strips make is put together by a second kernel (``strips``), or by bulk reductions into
    one array (``tma``): sums only, in no order that repeats.
    """

    warps: int = 8
    rows: int = 0
    blocks_per_sm: int = 4
    index: Literal["i32", "i64"] = "i32"
    cache: Literal["normal", "streaming"] = "normal"
    across: Literal["strips", "tma"] = "strips"

    def check(self) -> None:
        """Raises InputError for values that no fusion can use."""
        check_fields(self)
        require(1 <= self.warps <= 32, "warps must be 1 to 32")
        require(0 <= self.rows <= 32, "rows must be 1 to 32")
        require(1 <= self.blocks_per_sm <= 16, "blocks_per_sm must be 1 to 16")

    def with_settings(self, settings: Iterable[str]) -> ColumnSchedule:
        """The schedule with ``NAME=VALUE`` settings applied; raises InputError for a bad one."""
        result = apply_settings(self, settings, _PARSERS, _HELP)
        result.check()
        return result


def shape(fusion: Fusion, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Columns of one thread, and threads side by side, for given sizes."""
    inner = sizes[fusion.dims[-1]]
    wide = [DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if fusion.dims[-1] in t.dims]
    wide += [DTYPE_BYTES[o.dtype] for o in fusion.outputs if fusion.dims[-1] in o.dims]
    vector = VECTOR_BYTES // max(wide, default=4)
    while inner % vector:
        vector //= 2
    across = 1
    while across < LANES and across * vector < inner:
        across *= 2
    return vector, across


_PARSERS: dict[str, Any] = {
    "warps": int, "rows": int, "blocks_per_sm": int, "index": choice("i32", "i64"),
    "cache": choice("normal", "streaming"), "across": choice("strips", "tma"),
}  # fmt: skip
_HELP = {
    "warps": "a number", "rows": "a number", "blocks_per_sm": "a number", "index": "i32 or i64",
    "cache": "normal or streaming", "across": "strips or tma",
}  # fmt: skip
assert set(_PARSERS) == {f.name for f in fields(ColumnSchedule)}

__all__ = ["ColumnSchedule", "shape"]
