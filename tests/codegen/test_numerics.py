"""Numbers that kernels compute, by execution of their PTX, beside float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from benchmarks.compiler import fuzz_fusions
from syncverify import fusion as f
from syncverify import gate
from syncverify.fusion import Fusion, RowSchedule, Tensor, Value, trace
from syncverify.fusion.functions import FUNCTIONS, numpy_dtype
from syncverify.fusion.graph import apply
from syncverify.gate.matmul import CompiledMatmul
from syncverify.matmul import Problem
from syncverify.matmul import Schedule as MatmulSchedule
from syncverify.simulate import ir
from syncverify.simulate.ptx import floats
from tests.codegen import executed
from tests.fusion.conftest import unproved as unproved

pytestmark = [pytest.mark.usefixtures("unproved"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@pytest.fixture(autouse=True)
def by_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ir, "run", executed.run)


#: Units in the last place that results may be off by, beside a number that nobody would miss: results below
#: 2^-126 may be 0 where their type is short, and gelu's own formula cancels in f32.
ULPS = {"f32": 6.0, "bf16": 1.1, "f16": 1.1}
EPSILON = {"f32": 2.0**-23, "bf16": 2.0**-8, "f16": 2.0**-11}
FLOORS = {"gelu": 1e-6, "gelu_tanh": 1e-6, "silu": 1e-36, "mish": 1e-36}
ONE = [
    row.name for row in FUNCTIONS.values()
    if row.arity == 1 and row.takes in ("float", "number") and not row.name.startswith("cast")
]  # fmt: skip
TWO = ["add", "sub", "mul", "div", "pow", "minimum", "maximum"]
_UNUSUAL = [
    0.0, 1e-44, 1e-39, 1e-38, 1e-30, 1e-20, 1e-10, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.1, 0.25, 0.5, 1.0, 1.5,
    2.0, 2.5, 3.0, 4.0, 5.0, 5.5, 6.0, 8.0, 10.0, 20.0, 50.0, 80.0, 87.0, 88.0, 89.0, 1e3, 6e4, 1e5, 1e10,
    1e30, 3e38, np.inf,
]  # fmt: skip
UNUSUAL = np.array([*_UNUSUAL, *(-x for x in _UNUSUAL), np.nan])
FEW = np.array([0.0, 1.0, 2.0, 0.5, 3.0, 2.5, 1e-3, 1e-30, 1e30, 3e38, np.inf])
PAIRS = [np.array(x) for x in zip(*product([*FEW, *-FEW, np.nan], repeat=2), strict=True)]


def padded(x: Any, dtype: str) -> Any:
    """Repeated to a multiple of what threads access at once."""
    return np.resize(x, -(-len(x) // 64) * 64).astype(numpy_dtype(dtype))


def sorts(x: Any) -> Any:
    return np.where(np.isnan(x), 2.0, np.where(np.isinf(x), np.sign(x), 0.0))


def wrong(got: Any, want: Any, dtype: str, floor: float) -> Any:
    """Which results are not as close to float64 as their type allows, or of another sort."""
    short = numpy_dtype(dtype)
    got, want = np.asarray(got).astype(np.float64), np.asarray(want).astype(short).astype(np.float64)
    near = np.abs(got - want) <= ULPS[dtype] * EPSILON[dtype] * np.abs(want) + floor
    return (sorts(got) != sorts(want)) | ~(near | (got == want) | np.isnan(got))


def applied(names: list[str], dtype: str, *columns: Any) -> None:
    """Holds some functions of columns of numbers against float64."""

    def one(x: Value) -> dict[str, Value]:
        return {f"o{k}": apply(n, x).cast(dtype) for k, n in enumerate(names)}

    def two(x: Value, y: Value) -> dict[str, Value]:
        return {f"o{k}": apply(n, x, y).cast(dtype) for k, n in enumerate(names)}

    body: Callable[..., Any] = one if len(columns) == 1 else two
    given = dict(zip("xy", (padded(c, dtype) for c in columns), strict=False))
    fusion = trace(body, {n: Tensor(dtype, ("C",)) for n in given})
    made = gate.compile(fusion).simulate(given, {"C": len(given["x"])})
    for name, got, want in zip(names, made, fusion.reference(given, np.float64), strict=True):
        bad = wrong(got, want, dtype, FLOORS.get(name, 1e-37))
        assert not bad.any(), (name, dtype, [(x[bad][:3], got[bad][:3]) for x in given.values()])


def groups(dtypes: tuple[str, ...], slow: bool) -> list[Any]:
    marks = pytest.mark.slow if slow else ()
    return [pytest.param(ONE[k : k + 7], d, marks=marks) for d in dtypes for k in range(0, len(ONE), 7)]


@pytest.mark.parametrize(("names", "dtype"), [*groups(("bf16",), False), *groups(("f32", "f16"), True)])
def test_functions_of_unusual_numbers(names: list[str], dtype: str) -> None:
    applied(names, dtype, UNUSUAL)


@pytest.mark.parametrize(
    "dtype", ["f32", *(pytest.param(d, marks=pytest.mark.slow) for d in ("bf16", "f16"))]
)
def test_functions_of_two(dtype: str) -> None:
    applied(TWO, dtype, *PAIRS)


def test_integers_wrap_and_are_not_rounded() -> None:
    few = [0, 1, -2, 7, 2**31 - 1, -(2**31), 2**24 + 1, 123456789]
    x, y = (np.resize(c, 64).astype(np.int32) for c in zip(*product(few, repeat=2), strict=True))

    def whole(x: Value, y: Value) -> dict[str, Value]:
        return {"s": x + y, "d": x - y, "p": x * y, "m": f.minimum(x, -y), "a": abs(x), "b": (x & y) ^ y}

    fusion = trace(whole, {n: Tensor("i32", ("C",)) for n in "xy"})
    made = gate.compile(fusion).simulate({"x": x, "y": y}, {"C": 64})
    for got, want in zip(made, fusion.reference({"x": x, "y": y}), strict=True):
        assert np.array_equal(got, want)


# ---------------------------------------------------------------- approximations at their documented worst


def test_a_short_tangent_is_not_subtracted_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """tanh.approx may be off by 2^-11 of its result, which is all of 1 + tanh(-3)."""
    monkeypatch.setitem(floats._APPROXIMATE, "tanh", lambda x: np.tanh(x) * (1 - 2.0**-11))

    def tails(x: Value) -> dict[str, Value]:
        t = f.tanh(x)
        square = t * t
        made = {
            "gelu": f.gelu(x, "tanh"),
            "sum": 1.0 + f.tanh(x * 1.5),
            "rest": (1.0 - square) * x,
            "t": square,
        }
        return {n: v.cast("bf16") for n, v in made.items()}

    fusion = trace(tails, {"x": Tensor("bf16", ("C",))})
    given = {"x": np.linspace(-3.5, 3.5, 128).astype(numpy_dtype("bf16"))}
    kernel = gate.compile(fusion)
    for got, want in zip(
        kernel.simulate(given, {"C": 128}), fusion.reference(given, np.float64), strict=True
    ):
        assert not wrong(got, want, "bf16", 1e-6).any()
    # where nothing cancels it is used
    plain = gate.compile(trace(lambda x: f.tanh(x).cast("bf16"), {"x": Tensor("bf16", ("C",))}))
    assert "tanh.approx" in plain.ptx and "tanh.approx" not in kernel.ptx


# ---------------------------------------------------------------- numbers beyond f32


@pytest.mark.parametrize(
    ("along", "rows", "schedule"),
    [("C", 3, RowSchedule(width=40, stream="yes", warps=2)), ("R", 37, None)],
)
def test_a_variance_beyond_f32_is_infinite(along: str, rows: int, schedule: RowSchedule | None) -> None:
    """Parts of a row or column that saw nothing count nothing, however far from 0 the mean is."""
    fusion = trace(lambda x: x.var(along), {"x": Tensor("f32", ("R", "C"))})
    x = np.linspace(-1, 1, rows * 40).reshape(rows, 40).astype(np.float32)
    x[0, 5], x[-1, 39] = 1e25, -3e30
    given = {"x": x}
    (got,) = gate.compile(fusion, schedule).simulate(given, {"R": rows, "C": 40})
    (want,) = fusion.reference(given)
    assert np.isinf(want).sum() == 2 and not wrong(got, want, "f32", 1e-5).any()


# ---------------------------------------------------------------- products that are added


def _row(schedule: RowSchedule, dtype: str, of: Callable[..., Any]) -> tuple[Fusion, Any, dict[str, Any]]:
    """A function of scaled rows; some of the rows are filled with the lowest number, as masks fill them."""

    def scaled(x: Value, s: Value) -> Any:
        return of(x * s).cast(dtype)

    fusion = trace(scaled, {"x": Tensor("f32", ("R", "C")), "s": Tensor("f32", ("C",))})
    x = np.full((3, schedule.width), np.finfo(np.float32).min, np.float32)
    x[1] = -1e9
    x[2, : schedule.width // 2] = np.linspace(0, 1, schedule.width // 2)
    given = {"x": x, "s": np.full(schedule.width, 0.7071, np.float32)}
    return fusion, gate.compile(fusion, schedule), given


@pytest.mark.parametrize(
    ("schedule", "dtype", "of"),
    [
        (RowSchedule(width=264, stream="yes"), "f32", f.softmax),
        (RowSchedule(width=264, stream="yes"), "bf16", f.log_softmax),
        (RowSchedule(width=256, operands="reload", reread="yes"), "bf16", f.softmax),
    ],
)
def test_a_rounded_product_less_itself_is_nothing(
    schedule: RowSchedule, dtype: str, of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest of products is rounded: a multiply-add would subtract it from one that is not."""
    monkeypatch.setattr(ir, "run", partial(executed.run, contract=True))
    fusion, kernel, given = _row(schedule, dtype, of)
    (got,) = kernel.simulate(given, {"R": 3, "C": schedule.width})
    (want,) = fusion.reference(given)
    assert not wrong(got, want, dtype, 1e-5).any()
    assert "sub.rn.f32" in kernel.ptx


def test_what_is_contracted() -> None:
    text = "mul.f32 %f1, %f2, %f3;\nadd.f32 %f4, %f5, %f1;\nsub.f32 %f6, %f1, %f5;\nsub.f32 %f7, %f5, %f1;"
    one, two, three, four = executed.contracted(text).split("\n")
    assert "fma.rn.f32 %f4, %f2, %f3, %f5;" in two and one in text
    assert "neg.f32 %minus, %f5; fma.rn.f32 %f6, %f2, %f3, %minus;" in three
    assert "neg.f32 %minus, %f2; fma.rn.f32 %f7, %minus, %f3, %f5;" in four
    assert executed.contracted(text.replace("sub.", "sub.rn.").replace("add.", "add.rn.")) == text.replace(
        "sub.", "sub.rn."
    ).replace("add.", "add.rn.")


# ---------------------------------------------------------------- products of many matrices


@pytest.mark.parametrize(("layout", "grouped"), [("MK", False), ("KN", False), ("KN", True), ("KK", True)])
def test_products_of_many_matrices(layout: str, grouped: bool) -> None:
    """Batched ones, and groups of 128 rows with a factor each; a warpgroup takes registers of another."""

    def biased(acc: Value, bias: Value) -> dict[str, Value]:
        return {"out": f.gelu(acc + bias, "tanh").cast("f16"), "sum": acc + bias}

    inputs = {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("f32", ("N",))}
    problem = Problem("many", "bf16", layout, trace(biased, inputs), batched=not grouped, grouped=grouped)
    schedule = MatmulSchedule(128, 64, consumers=1, stages=2, registers=(40, 208), resident=2)
    rng = np.random.default_rng(5)
    a = rng.standard_normal((136, 72) if grouped else (2, 136, 72)).astype(numpy_dtype("bf16"))
    b = rng.standard_normal((3, 72, 40) if grouped else (2, 72, 40)).astype(numpy_dtype("bf16"))
    given = {"bias": rng.standard_normal(40).astype(np.float32)}
    chosen = np.array([2, 0], np.int32)
    called = {**given, "experts": chosen} if grouped else given
    left, right = (_stored(x, turned) for x, turned in ((a, problem.a_t), (b, problem.b_t)))
    got = CompiledMatmul(problem, schedule).simulate(left, right, **called)
    wide = a.astype(np.float64), b.astype(np.float64)
    parts = [wide[0][:128] @ wide[1][2], wide[0][128:] @ wide[1][0]] if grouped else list(wide[0] @ wide[1])
    made = [problem.epilogue.reference({"acc": x, **given}, np.float64) for x in parts]
    join = np.concatenate if grouped else np.stack
    for result, want in zip(got, zip(*made, strict=True), strict=True):
        dtype = "f16" if result.dtype == np.float16 else "f32"
        assert not wrong(result, join(want), dtype, 2e-5).any()


def _stored(x: Any, turned: bool) -> Any:
    """Its matrices, which lie turned where a layout says so."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if turned else x


# ---------------------------------------------------------------- random fusions


def tried(seeds: range) -> None:
    rows = [fuzz_fusions.tried(seed) for seed in seeds]
    assert {r["what"] for r in rows} <= {"right", "refused"}, [
        r for r in rows if r["what"] not in ("right", "refused")
    ]
    assert sum(r["what"] == "right" for r in rows) * 2 > len(rows)


def test_random_fusions() -> None:
    tried(range(5))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(700, 760, 10))
def test_many_random_fusions(first: int) -> None:
    tried(range(first, first + 10))
