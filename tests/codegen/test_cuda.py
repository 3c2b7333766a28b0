"""CUDA C++ out of the IR: it compiles, it says what the IR says, and it refuses what it cannot write."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from syncverify import gate
from syncverify.base.diagnostics import Policy
from syncverify.base.nvrtc import compile_source
from syncverify.base.source import InputError
from syncverify.codegen import cuda
from syncverify.codegen.accesses import _LOADED, CacheHint
from syncverify.codegen.cuda import emit, helpers
from syncverify.codegen.expressions import Names, Values, index, sums_with_constants, value
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule, Tensor, Value, trace
from syncverify.fusion.pipeline import build
from syncverify.fusion.plan import plan_of
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Var, evaluate
from syncverify.ir.text.parser import parse


def test_the_header_of_loads_has_a_function_for_each_cache_hint() -> None:
    declared = re.findall(r"^SYNCVERIFY_LOADS\((\w+)\)", cuda._text("loads.cuh"), re.M)
    assert {f"_{name}" for name in declared} >= set(_LOADED.values())
    assert set(_LOADED) <= set(get_args(CacheHint))
    (loads, _) = cuda._headers()
    assert all(re.search(loads, f"load{hint}(x, y);") for hint in _LOADED.values())
    assert re.search(loads, "load_rows_past<8>(x)") and not re.search(loads, "load_rows<8>(x)")


SETTINGS = [
    ("mul", ""), ("mul", "store=tma mode=pipelined"), ("scale_add", "async_warps=3"),
    ("select4", "store=tma"),
    ("normalize", "index=i64"), ("bias_gelu", ""),
    ("gate_pair", "registers=40,232 async_warps=2 blocks_per_sm=1"),
    ("swiglu", ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_every_kernel_compiles_to_ptx_that_holds_its_synchronization(name: str, settings: str) -> None:
    schedule = Schedule().with_settings(settings.split())
    kernel = build(getattr(examples, name), schedule, Policy.STRICT)
    ptx = compile_source(emit(kernel, schedule.blocks_per_sm), kernel.name, "ptx").code.decode()
    assert f".entry {kernel.name}(" in ptx
    for instruction in (
        "mbarrier.init", "mbarrier.try_wait.parity", "mbarrier.arrive.expect_tx",
        "cp.async.bulk.shared::cluster.global",
        "elect.sync", "fence.proxy.async.shared::cta",
    ):  # fmt: skip
        assert instruction in ptx
    assert ("cp.async.bulk.global.shared::cta" in ptx) == (schedule.store == "tma")
    assert ("setmaxnreg.inc" in ptx) == (schedule.registers is not None)


@pytest.mark.parametrize("name", ["mul", "gate_pair"])
@pytest.mark.parametrize(
    "settings", ["", "store=tma", "store=role", "mode=pipelined", "async_warps=3", "source=direct"]
)
def test_the_code_of_every_role_is_compiled(name: str, settings: str) -> None:
    """No compiler drops what is never reached: all tensors are used, those of ragged ends too."""
    schedule = Schedule().with_settings(settings.split())
    plan = plan_of(getattr(examples, name), schedule)
    kernel = plan.build(plan.main, Policy.PRACTICAL)
    ptx = compile_source(emit(kernel, schedule.blocks_per_sm), kernel.name, "ptx").code.decode()
    for i, tensor in enumerate(kernel.tensors):
        assert f"[{kernel.name}_param_{i}]" in ptx, tensor.name


TWICE = """
kernel k {
  launch grid [1] block [64] cluster [1]
  tensor out : f32[3] out
  role a warps 0..1 {
    if lane == 0 {
      st.global out[0], 1.0
    }
  }
  role b warps 1..2 {
    if lane == 0 {
      st.global out[1], 2.0
    }
  }
  role again warps 0..1 {
    if lane == 0 {
      st.global out[2], 3.0
    }
  }
}
"""


def test_warps_that_play_two_roles_play_both() -> None:
    (kernel,) = parse(TWICE, "k.syncir")
    source = emit(kernel)
    assert source.count("else if (warp == 1)") == 1 and source.count("  if (warp == 0)") == 2


def test_cubin_is_sm_90() -> None:
    code = compile_source(emit(build(examples.mul, Schedule())), "mul").code
    assert code[:4] == b"\x7fELF" and len(code) > 2000


def test_source_reads_like_the_ir() -> None:
    body = emit(build(examples.mul, Schedule(tile=4096, stages=4, blocks_per_sm=1))).removeprefix(helpers())
    for line in (
        'extern "C" __global__ void __launch_bounds__(288, 1) mul(',
        "const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int R, int C",
        "mbarrier_init(&full0[s], 1);",
        "mbarrier_init(&empty0[s], 8);",
        "if (warp < 8) {  // compute",
        "} else if (warp == 8) {  // load0",
        "mbarrier_wait(&full0[i_slot], i_parity);",
        "mbarrier_wait(&empty0[i_slot2], (i_parity2 ^ 1));",
        "if (++i_slot == 4) { i_slot = 0; i_parity ^= 1; }",
        "for (int k = 0; k < 4; ++k) t2[k] = a_v[k] * b_v[k];",
    ):
        assert line in body
    assert body.count("{") == body.count("}")


def test_compiler_messages_reach_the_user() -> None:
    with pytest.raises(InputError, match="NVRTC cannot compile k"):
        compile_source("this is not C", "k")


@pytest.mark.parametrize(
    "text",
    [
        "tma.prefetch A[0, 0]",
        "fence.proxy.async.shared_cluster",
        "mbarrier.arrive b[0] @ 0, count 2",
        "let x = mbarrier.test b[0], 0",
    ],
)
def test_unsupported_statements_are_input_errors(text: str) -> None:
    source = f"""
kernel k {{
  launch grid [1] block [32] cluster [1]
  tensor a : f32[4096] in
  tensormap A of a box [32, 32]
  shared t : f32[1, 1024] align 128
  mbarrier b[1]
  {text}
}}
"""
    (kernel,) = parse(source, "k.syncir")
    with pytest.raises(InputError, match="code generation"):
        emit(kernel)


def _c(text: str, env: dict[str, int]) -> int:
    """Evaluates the C text of an index expression in Python, with C's truncating division."""

    def divide(a: int, b: int) -> int:
        return abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1)

    class C(int):
        def __truediv__(self, o: int) -> C:
            return C(divide(int(self), int(o)))

        def __mod__(self, o: int) -> C:
            return C(int(self) - divide(int(self), int(o)) * int(o))

        def __add__(self, o: int) -> C:
            return C(int(self) + int(o))

        def __sub__(self, o: int) -> C:
            return C(int(self) - int(o))

        def __mul__(self, o: int) -> C:
            return C(int(self) * int(o))

        def __neg__(self) -> C:
            return C(-int(self))

    functions = {
        "floor_div": lambda a, b: C(int(a) // int(b)), "floor_mod": lambda a, b: C(int(a) % int(b)),
        "ceil_div": lambda a, b: C(-(-int(a) // int(b))), "least": min, "most": max,
    }  # fmt: skip
    text = re.sub(r"<(int|long long)>", "", text)
    text = re.sub(r"(?<![\w.])(\d+)", r"C(\1)", text)
    return int(eval(text, {"C": C, **functions, **{k: C(v) for k, v in env.items()}}))


i, j = Var("i"), Var("j")


@pytest.mark.parametrize(
    "e",
    [
        i // 4 % 2, (i - 2) // 4 % 2, (i - 7) % 3, i - (j - 3), i - (j + 3),
        (i + j) * 3 - i * (j - 1), -(i + 1) // 2,
        Call("cdiv", (i - 9, Int(4))), Call("min", (i - 5, j, Int(2))), Call("max", (Int(1), i - j)),
        i % 3 * 4 + j,
    ],
)  # fmt: skip
def test_index_expressions_mean_the_same_in_c(e: Expr) -> None:
    text = index(e, Names(natural={"i", "j"}))
    for a in range(12):
        for b in (0, 1, 5):
            assert _c(text, {"i": a, "j": b}) == evaluate(e, {"i": a, "j": b}), text


def test_wide_names_widen_what_they_touch() -> None:
    names = Names(wide={"n"}, natural={"n"})
    assert index((Var("n") - 1) % 3, names) == "floor_mod<long long>(n - 1, 3)"


def test_a_difference_is_made_before_its_exponential() -> None:
    """Of equal numbers it is 0, however large. Scaled apart, one product is rounded: the result is not 1."""
    e = Call("exp", (Binary("-", Var("x"), Var("m")),))
    assert value(e, Values({"x": 4, "m": 1}, bits=8)) == "exp_fast(__fsub_rn(x[k], m[0]))"
    assert "float exp_fast(float x)" in helpers() and "float exp_fast(float x, float" not in helpers()


def test_value_expressions() -> None:
    values = Values({"x": 4, "s": 1})
    x, s = Var("x"), Var("s")
    assert value(x * (s - 1.0) / 2.0, values) == "x[k] * (s[0] - 1.0f) / 2.0f"
    assert value(-(x + s), values) == "-(x[k] + s[0])"
    assert value(Call("select", (Binary(">", x, s), x, Float(0.0))), values) == "x[k] > s[0] ? x[k] : 0.0f"
    assert value(Call("relu", (x,)), values) == "max_nan(x[k], 0.0f)"
    assert value(Call("sigmoid", (x,)), Values({"x": 4}, bits=8)) == "sigmoid_fast(x[k])"
    assert value(Call("sigmoid", (x,)), values) == "sigmoid(x[k])"
    assert value(x + -s, values) == value(x - s, values) == "__fsub_rn(x[k], s[0])"
    assert value(-Float(-0.0), values) == "-(-0.0f)"
    with pytest.raises(InputError):
        value(Call("unheard_of", (x,)), values)


def test_forms_by_what_their_errors_meet() -> None:
    """Beside a constant of a sum an absolute error is as small as any, and a relative one may be all."""
    x, short = Var("x"), Values({"x": 1}, bits=8)
    for name, beside, alone in (("erf", "erf_fast", "erff"), ("tanh", "tanhf", "tanh_fast")):
        e = Call(name, (x,))
        assert value(e, short) == f"{alone}(x[0])"
        assert value(1.0 + e * x, short) == f"1.0f + {beside}(x[0]) * x[0]"
        assert value((x + e) * 2.0, short) == f"(x[0] + {alone}(x[0])) * 2.0f"
        assert value(1.0 - Call("exp", (e,)), short) == f"1.0f - exp_fast({alone}(x[0]))"
    assert set(sums_with_constants(1.0 - Var("a") * -Var("b") + Var("c") / Var("d"))) == {"a", "b"}


@pytest.mark.parametrize(("dtype", "fast"), [("bf16", True), ("f16", True), ("f32", False)])
def test_quotients_are_as_exact_as_the_result(dtype: str, fast: bool) -> None:
    def quotient(x: Value, y: Value) -> Value:
        return (x / y + x / 3.0).cast(dtype)

    source = gate.compile(trace(quotient, {n: Tensor("f32", ("N",)) for n in "xy"})).source
    assert ("divide_fast(x_v" in source) == fast == ("div.full.f32" in source)
    assert "/ 3.0f" in source
