"""What statements are made of: references to memory and barriers, and their common base."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.ir.expr import Expr, Int

DTYPE_BYTES = {
    "f32": 4, "f16": 2, "bf16": 2, "f64": 8, "i8": 1, "u8": 1, "i16": 2, "u16": 2,
    "i32": 4, "u32": 4, "i64": 8, "u64": 8, "b8": 1, "b16": 2, "b32": 4, "b64": 8,
    "e4m3": 1, "e5m2": 1, "tf32": 4, "bool": 1,
}  # fmt: skip

Sem = Literal["weak", "relaxed", "acquire", "release", "acq_rel", "sc"]
MemScope = Literal["cta", "cluster", "gpu", "sys"]
Reduce = Literal["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch"]


@dataclass(frozen=True, slots=True)
class Region:
    """Shared memory an operation touches: ``buf[index..][start : count]``.

    ``index`` selects leading dimensions; what is left is flattened, and ``start``/``count`` are in
    elements of it (None: all of it). ``rows`` > 1 repeats the range every ``pitch`` elements.
    ``rank`` names another CTA of the cluster (mapa), None the executing one.
    """

    buffer: str
    index: tuple[Expr, ...] = ()
    start: Expr | None = None
    count: Expr | None = None
    rows: Expr | None = None
    pitch: Expr | None = None
    rank: Expr | None = None


@dataclass(frozen=True, slots=True)
class BarrierRef:
    """One mbarrier: ``full[s]``, or ``full[s] @ rank`` in another CTA of the cluster."""

    name: str
    index: Expr | None = None
    rank: Expr | None = None


@dataclass(frozen=True, slots=True)
class GlobalRegion:
    """Global memory: ``count`` elements of a tensor from flattened element ``start``.

    ``rows`` > 1 repeats the range every ``pitch`` elements; only plain loads and stores take that.
    """

    tensor: str
    start: Expr
    count: Expr = Int(1)
    rows: Expr | None = None
    pitch: Expr | None = None


@dataclass(frozen=True, slots=True)
class Stmt:
    """Base of all statements."""

    span: Span = field(default=UNKNOWN_SPAN, compare=False, kw_only=True)
