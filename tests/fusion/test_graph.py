"""Tracing: shapes, types, sharing, the reference, and errors a user understands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.examples import fusions as examples
from syncverify.fusion import (
    RowSchedule,
    Schedule,
    Tensor,
    Value,
    clamp,
    dropout,
    erf,
    exp,
    fusion,
    layer_norm,
    log,
    maximum,
    rotate,
    sqrt,
    tanh,
    trace,
    uniform,
    where,
)
from syncverify.fusion.functions import numpy_dtype
from syncverify.fusion.plan import launch_values, plan_of
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.simulate import ir

F32 = Tensor("f32", ("R", "C"))


def test_equal_operations_are_one_node() -> None:
    def f(a: Value, b: Value) -> Value:
        return (a * b) + (a * b) * 2.0

    assert [traced.node(i).op for traced in [trace(f, {"a": F32, "b": F32})] for i in traced.order()].count(
        "mul"
    ) == 2


def test_dimensions_are_ordered_over_all_inputs() -> None:
    f = trace(lambda x, y: x * y, {"x": Tensor("f32", ("A", "C")), "y": Tensor("f32", ("B", "C"))})
    assert f.dims == ("A", "B", "C")
    assert f.streamed == () and f.broadcast == ("x", "y")


def test_output_types() -> None:
    assert [o.dtype for o in examples.gate_pair.outputs] == ["f32", "bf16"]
    assert [o.dtype for o in examples.swiglu.outputs] == ["bf16"]
    assert [o.name for o in examples.gate_pair.outputs] == ["gated", "half"]


def test_reference_agrees_with_plain_numpy() -> None:
    rng = np.random.default_rng(1)
    x, row, column, shift = (rng.standard_normal(s).astype(np.float32) for s in ((5, 7), (5,), (7,), ()))
    (got,) = examples.normalize.reference([x, row, column, shift])
    np.testing.assert_allclose(got, x * row[:, None] * column[None, :] + shift, rtol=1e-6)


def test_reference_of_every_function() -> None:
    def f(x: Value) -> dict[str, Value]:
        return {
            "a": exp(-x) + log(x) - tanh(x) / sqrt(x),
            "b": where(x > 1.0, erf(x), maximum(x, 0.75)) ** 2.0,
            "c": abs(0.5 - x),
        }

    traced = trace(f, {"x": Tensor("f32", ("N",))})
    x = np.linspace(0.5, 2.0, 31, dtype=np.float32)
    a, b, c = traced.reference([x])
    np.testing.assert_allclose(a, np.exp(-x) + np.log(x) - np.tanh(x) / np.sqrt(x), rtol=1e-6)
    np.testing.assert_allclose(c, np.abs(0.5 - x), rtol=1e-6)
    want = [math.erf(v) ** 2 if v > 1 else max(v, 0.75) ** 2 for v in x]
    np.testing.assert_allclose(b, want, rtol=1e-5)


def test_numbers_of_numpy_are_numbers() -> None:
    f = trace(
        lambda a: (np.float32(2) * a + np.float64(0.5)) - where(np.float32(0) < a, a, 1) / np.int32(4),
        {"a": F32},
    )
    g = trace(lambda a: (2.0 * a + 0.5) - where(a > 0.0, a, 1) / 4, {"a": F32})
    assert [f.node(i) for i in f.order()] == [g.node(i) for i in g.order()]


def test_reference_rounds_once_at_the_end() -> None:
    bf16 = numpy_dtype("bf16")
    a = np.array([1.0078125], dtype=bf16)
    f = trace(lambda a: (a * a) * a, {"a": Tensor("bf16", ("N",))})
    (got,) = f.reference([a])
    assert got.dtype == bf16
    assert got[0] == np.float32(1.0078125**3).astype(bf16)


@pytest.mark.parametrize(
    ("function", "tensors", "message"),
    [
        (lambda a: a * a, {"a": Tensor("f64", ("R",))}, "type f64"),
        (lambda a: a * a, {"b": F32}, "declares"),
        (lambda a: 3.0, {"a": F32}, "no tensor expression"),
        (lambda a: where(a, a, a), {"a": F32}, "no truth value"),
        (lambda a: a & (a > 1.0), {"a": F32}, "takes integers, not numbers: cast to i32"),
        (lambda a: (a > 1.0) & a, {"a": F32}, "takes truth values, not numbers: compare"),
        (lambda a: (a > 1.0) & 1, {"a": F32}, "takes truth values, not the number 1"),
        (lambda a: a.transpose() * 2.0, {"a": F32}, "can only be an output"),
        (lambda a: a.sum().transpose(), {"a": F32}, "swaps the last two"),
        (lambda a: uniform(a, 0), {"a": F32}, "seed must be a whole number or an input"),
        (lambda a: uniform(1, 2**64) * a, {"a": F32}, "does not fit 64 bits"),
        (lambda a: dropout(a, 1.0, 1, 0).value, {"a": F32}, "p must be at least 0 and below 1"),
        (lambda a: rotate(a, "thirds"), {"a": F32}, "style 'thirds'"),
        (lambda a: rotate(rotate(a, "pairs"), "pairs"), {"a": F32}, "rotate once"),
        (lambda a: clamp(a), {"a": F32}, "a least or a most"),
        (lambda a: a * "x", {"a": F32}, "neither a tensor expression nor a number"),
        (lambda a: a * 2.0 if a else a, {"a": F32}, "cannot branch"),
        (lambda a: a.cast("f8"), {"a": F32}, "cannot cast"),
        (lambda a, b: b * 2.0, {"a": F32, "b": Tensor("f32", ("C",))}, "no output depends on R"),
        (lambda a, b: a * b, {"a": F32, "b": Tensor("f32", ("C", "R"))}, "no input is read transposed"),
        (lambda a: a * a, {"a": Tensor("f32", ())}, "every input is a scalar"),
        (lambda a: a * 2.0, {"a": Tensor("f32", ("n", "C"))}, "'n' cannot be used as a name of a dim"),
        (lambda R: R * 2.0, {"R": F32}, "both an input and a dimension"),
        (lambda a: {"R": a * 2.0}, {"a": F32}, "R names an output, and an input"),
        (lambda a: {"a b": a * 2.0}, {"a": F32}, "output cannot be called 'a b'"),
        (lambda a: a * a, {"a": Tensor("f32", ("R", "R"))}, "twice"),
        (lambda a: a * a, {"a": Tensor("f32", "RC")}, "has dimensions 'RC'; give names in a tuple"),
        (lambda a: a * a, {"a": Tensor("f32", (4, 5))}, r"has dimensions \(4, 5\); give names"),
        (lambda a: a * math.exp(a), {"a": F32}, "is no number: use the functions of syncverify.fusion"),
        (lambda a: np.exp(a), {"a": F32}, "numpy's exp of a tensor expression"),
        (lambda a: np.ones(3) + a, {"a": F32}, "numpy's add of a tensor expression"),
        (lambda a: a + np.ones(3), {"a": F32}, "neither a tensor expression nor a number"),
        (lambda a: a.sum(-1), {"a": F32}, "along -1: dimensions are named, as in x.sum"),
        (lambda a: a.max(("R", 1)), {"a": F32}, "dimensions are named"),
        (lambda a: a @ a, {"a": F32}, "see syncverify.gate.matmul"),
        (lambda a: a[0], {"a": F32}, "has no slices"),
        (lambda a: sum(a), {"a": F32}, "has no slices"),
    ],
)
def test_bad_fusions_are_input_errors(function: Any, tensors: dict[str, Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        trace(function, tensors)


def test_inputs_may_have_names_that_kernels_use_themselves() -> None:
    def attention(q: Value, k: Value, tid: Value, x1: Value) -> dict[str, Value]:
        return {"n": q * k, "float": tid + x1, "t3": q + 1.0}

    f = trace(attention, dict.fromkeys(("q", "k", "tid", "x1"), F32))
    assert [n for n, _ in f.inputs] == ["q_in", "k_in", "tid_in", "x1_in"]
    assert [o.name for o in f.outputs] == ["n_out", "float_out", "t3_out"]
    given = {n: np.full((3, 8), i + 2, np.float32) for i, n in enumerate(("q", "k", "tid", "x1"))}
    assert f.bind(given).keys() == {"q_in", "k_in", "tid_in", "x1_in"}
    want = [6.0, 9.0, 3.0]
    assert [float(y[0, 0]) for y in f.reference(given)] == want
    plan = plan_of(f)
    (kernel,) = parse(print_kernel(plan.build(plan.main, Policy.PRACTICAL)), "k")
    outputs = {o.name: np.full((3, 8), np.nan, np.float32) for o in f.outputs}
    found = ir.run(kernel, launch_values(f, kernel, {"R": 3, "C": 8}, 1), {**f.bind(given), **outputs})
    rests = {o.name: found.get(f"{o.name}_rest", found[o.name]).reshape(-1) for o in f.outputs}
    assert [float(np.nanmax(rests[o.name])) for o in f.outputs] == want


@pytest.mark.parametrize(
    "settings",
    ["warps=2 stages=2", "rows=2 stages=2", "warps=2 rows=2", "warps=2 source=direct", "stream=yes"],
)
def test_rows_may_have_names_that_kernels_use_themselves(settings: str) -> None:
    def normed(s: Value, own_row: Value, full0: Value, st3: Value) -> dict[str, Value]:
        return {"elected": layer_norm(s, own_row, full0), "part0": (s * st3).sum()}

    vector = Tensor("f32", ("C",))
    f = trace(normed, {"s": F32, "own_row": vector, "full0": vector, "st3": vector})
    plan = plan_of(f, RowSchedule(width=512).with_settings(settings.split()))
    (kernel,) = parse(print_kernel(plan.build(plan.main, Policy.PRACTICAL)), "k")
    sizes = {"R": 5, "C": 512}
    given = f.random_inputs(sizes)
    outputs = {o.name: np.full([sizes[d] for d in o.dims], np.nan, np.float32) for o in f.outputs}
    found = ir.run(kernel, launch_values(f, kernel, sizes, 2), {**given, **outputs})
    for o, want in zip(f.outputs, f.reference(given, np.float64), strict=True):
        np.testing.assert_allclose(found[o.name], want, rtol=1e-3, atol=1e-3)


def test_what_the_helpers_declare_is_no_name_of_a_tensor() -> None:
    def named(load: Value, x: Value) -> dict[str, Value]:
        return {"least": load + x, "mbarrier_wait": x, "bf16": x * x, "v": x - load}

    f = trace(named, {"load": F32, "x": F32})
    assert [n for n, _ in f.inputs] == ["load_in", "x"]
    assert [o.name for o in f.outputs] == ["least_out", "mbarrier_wait_out", "bf16_out", "v_out"]


def test_names_that_would_meet_are_told_apart() -> None:
    f = trace(lambda k, k_in: k * k_in, {"k": F32, "k_in": F32})
    assert [n for n, _ in f.inputs] == ["k_in_", "k_in"]


def test_functions_outside_a_fusion_are_refused() -> None:
    captured: list[Value] = []

    @fusion(a=F32)
    def leaky(a: Value) -> Value:
        captured.append(a)
        return a * 2.0

    with pytest.raises(InputError, match="inside a @fusion"):
        exp(captured[0])

    with pytest.raises(InputError, match="another fusion"):
        trace(lambda a: a + captured[0], {"a": F32})
    assert leaky.name == "leaky"


def test_sizes_must_agree() -> None:
    a, b = np.ones((3, 4), np.float32), np.ones((3, 5), np.float32)
    with pytest.raises(InputError, match="dimension C of b is 5, elsewhere 4"):
        examples.mul.sizes({"a": a, "b": b})
    with pytest.raises(InputError, match="expected dimensions"):
        examples.mul.sizes({"a": a[0], "b": b})
    with pytest.raises(InputError, match="takes a, b"):
        examples.mul.bind([a])


def test_settings_override_every_field() -> None:
    text = [
        "tile=2048", "stages=3", "prefetch=2", "async_warps=2", "split=a:0,b:0+1", "mode=pipelined",
        "store=tma",
        "store_stages=3", "compute_warps=4", "arrive=thread", "registers=none", "blocks_per_sm=2",
        "index=i64",
    ]  # fmt: skip
    schedule = Schedule().with_settings(text)
    assert schedule == Schedule(
        2048, 3, 2, 2, {"a": (0,), "b": (0, 1)}, "pipelined", "tma", 3, 4, "thread", None, 2, "i64"
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tile", "unknown setting"), ("speed=9", "unknown setting"), ("tile=big", "cannot use 'big'"),
        ("stages=-1", "stages must be"), ("stages=65", "stages must be"), ("prefetch=5", "prefetch must be"),
        ("mode=fast", "cannot use 'fast'"), ("split=a", "cannot use 'a'"),
        ("registers=40", "cannot use '40'"),
        ("registers=41,232", "multiples of 8"), ("registers=24,32", "at entry must lie"),
        ("tile=-1", "positive"),
        ("compute_warps=40", "compute_warps must be"), ("async_warps=9", "async_warps must be"),
        ("store_stages=0", "store_stages"), ("blocks_per_sm=0", "blocks_per_sm"),
    ],
)  # fmt: skip
def test_bad_settings_are_input_errors(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schedule().with_settings([setting])
