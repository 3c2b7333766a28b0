"""What benchmarks/hardware/fusion_more.py runs: every operation and every kind of kernel, at ragged sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.compiler import fusion_cases, reduction_cases
from syncverify.examples import attention, functions, losses, norms
from syncverify.examples import fusions as examples
from syncverify.fusion import Fusion, Schedule, Tensor, Value, logsumexp, trace
from syncverify.fusion.column_schedule import ColumnSchedule

Sizes = dict[str, int]


@dataclass(frozen=True)
class Case:
    """A fusion, sizes whose results are compared, and those that are timed.

    Elements are normal with deviation ``spread`` about ``mean``.
    """

    make: Callable[[], Fusion]
    ragged: tuple[Sizes, ...]
    timed: tuple[Sizes, ...] = ()
    schedule: Schedule | ColumnSchedule | None = None
    spread: float = 3.0
    mean: float = 0.0


def grids(*sizes: tuple[int, ...], dims: str = "RC") -> tuple[Sizes, ...]:
    return tuple(dict(zip(dims, s, strict=True)) for s in sizes)


RAGGED = grids((1, 1), (37, 1000), (131, 4096), (257, 777))
EVEN = grids((1, 2), (37, 1000), (131, 4096), (257, 778))
BIG = grids((16384, 8192))
ROWS = grids((1, 8), (301, 1000), (131, 4096), (57, 777), (35, 16384))
STREAM = Schedule(cache="streaming")
HEADS = grids((3, 5, 128), (129, 7, 96), (31, 3, 40), (7, 1, 256), dims="THD")
BATCHES = grids((3, 72, 136), (2, 65, 33), (5, 256, 64), dims="BRC")


def row_statistics(x: Value) -> dict[str, Value]:
    return {
        "total": x.sum(), "most": x.max(), "least": x.min(), "mean": x.mean(), "variance": x.var(),
        "together": logsumexp(x),
    }  # fmt: skip


def _elementwise() -> dict[str, Case]:
    """Casts, dropout, rotary embedding, transposes, integers, every function."""
    found = {
        "quantize": Case(lambda: examples.quantize, RAGGED, BIG, STREAM, 400.0),
        "dequantize": Case(lambda: examples.dequantize, RAGGED, BIG, STREAM),
        "dropout_mask": Case(lambda: examples.dropout_mask, RAGGED, BIG, STREAM),
        "dropout_add": Case(lambda: examples.dropout_add, RAGGED, BIG, STREAM),
        "rotary_pairs": Case(lambda: examples.rotary_pairs, EVEN, BIG, STREAM),
        "rotary_halves": Case(
            lambda: examples.rotary_halves, HEADS, grids((32768, 32, 128), dims="THD"), STREAM
        ),
        "masked_count": Case(lambda: examples.masked_count, RAGGED, BIG, STREAM),
        "gate_pair": Case(lambda: examples.gate_pair, RAGGED, BIG, STREAM),
        "transposed": Case(lambda: examples.transposed, RAGGED, BIG),
        "bias_relu_transposed": Case(lambda: examples.bias_relu_transposed, RAGGED, BIG),
        "quantize_both": Case(lambda: examples.quantize_both, RAGGED, BIG, None, 400.0),
        "batch_transposed": Case(
            lambda: examples.batch_transposed, BATCHES, grids((64, 2048, 1024), dims="BRC")
        ),
    }
    names = tuple(functions.FUNCTIONS)
    for dtype in ("f32", "bf16"):
        for k in range(0, len(names), 12):
            found[f"functions_{dtype}_{k // 12}"] = Case(
                lambda d=dtype, k=k: functions.many(d, names[k : k + 12]),  # type: ignore[misc]
                grids((37, 1000), (5, 333)),
            )
    return found


def _rows() -> dict[str, Case]:
    """Normalizations, softmax, losses, gated units, one kernel a width; rows_on_gpu.py times them."""
    found: dict[str, Case] = {}
    for dtype in ("bf16", "f32", "f16"):
        for case in fusion_cases.CASES:
            found[f"{case}_{dtype}"] = Case(
                lambda c=case, d=dtype: fusion_cases.fusion_of(c, d),
                ROWS,  # type: ignore[misc]
            )
        found[f"row_statistics_{dtype}"] = Case(
            lambda d=dtype: trace(row_statistics, {"x": Tensor(d, ("R", "C"))}),
            ROWS,
            mean=1.0,  # type: ignore[misc]
        )
    return found


def _reductions() -> dict[str, Case]:
    """Long rows, columns, several dimensions, several kernels; sums across blocks by bulk reductions."""
    by_tma = {
        f"{name}_by_tma".replace(" ", "_"): Case(
            lambda c=c: c.fusion, c.correct[1:], c.timed, ColumnSchedule(across="tma"), 2.0, 0.5  # type: ignore[misc]
        )
        for name in ("column sum", "norm gradients")
        for c in (reduction_cases.CASES[name],)
    }  # fmt: skip
    return by_tma | {
        name.replace(" ", "_"): Case(
            lambda c=c: c.fusion,
            c.correct,
            c.timed,
            None,
            2.0,
            0.5,  # type: ignore[misc]
        )
        for name, c in reduction_cases.CASES.items()
    }


#: Ragged sizes of the examples, by their dimensions.
EXAMPLE_SIZES = {
    ("H", "Q", "K"): grids((2, 37, 1000), (3, 130, 77), (1, 5, 4096), dims="HQK"),
    ("T", "H", "D"): grids((3, 5, 128), (129, 7, 96), (31, 3, 40), dims="THD"),
    ("R", "C"): grids((37, 1000), (131, 4096), (257, 777)),
    ("N", "G", "D", "S"): grids((2, 4, 8, 100), (3, 5, 7, 33), dims="NGDS"),
    ("N", "C", "S"): grids((2, 72, 100), (3, 33, 257), dims="NCS"),
    ("B", "T", "D"): grids((2, 100, 72), (3, 517, 256), dims="BTD"),
    ("B", "T", "M"): grids((2, 100, 80), (3, 517, 128), dims="BTM"),
}


def _examples() -> dict[str, Case]:
    """Functions as users write them."""
    return {
        f.name: Case(lambda f=f: f, EXAMPLE_SIZES[f.dims], mean=0.5)  # type: ignore[misc]
        for module in (attention, norms, losses)
        for f in vars(module).values()
        if isinstance(f, Fusion)
    }


CASES: dict[str, Case] = {**_elementwise(), **_examples(), **_reductions(), **_rows()}

__all__ = ["CASES", "Case", "Sizes"]
