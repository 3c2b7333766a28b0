"""Fusions and products as operators: torch's own checks of operators, results, gradients, errors."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.base.source import InputError  # noqa: E402
from syncverify.fusion import Tensor, Value, cross_entropy, gelu, index, rms_norm, silu, trace  # noqa: E402
from syncverify.fusion.functions import FUNCTIONS  # noqa: E402
from syncverify.matmul import Problem  # noqa: E402
from syncverify.torch import interpret  # noqa: E402
from tests.torch.compiled import close, draw, wide  # noqa: E402

BF16 = torch.bfloat16
ROWS, WEIGHT = Tensor("bf16", ("R", "C")), Tensor("bf16", ("C",))


def add_norm(x: Value, residual: Value, w: Value) -> dict[str, Value]:
    total = x + residual
    return {"normed": rms_norm(total, w), "total": total}


def loss(x: Value, target: Value) -> Value:
    return cross_entropy(x, target)


def bias_gelu(acc: Value, bias: Value) -> Value:
    return gelu(acc + bias).cast("bf16")


FUSION = trace(add_norm, {"x": ROWS, "residual": ROWS, "w": WEIGHT})
LOSS = trace(loss, {"x": Tensor("f32", ("R", "C")), "target": Tensor("i64", ("R",))})
EPILOGUE = trace(bias_gelu, {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("N",))})
PRODUCT = Tensor("f32", ("M", "N"))
RUNNERS = pytest.mark.parametrize("runner", [None, sv.ReferenceRunner()], ids=["cpu", "kernel"])


def leaf(*shape: int, dtype: Any = BF16) -> Any:
    return draw(*shape, dtype=dtype).requires_grad_()


def in_torch(x: Any, residual: Any, w: Any) -> Any:
    total = x + residual
    return F.rms_norm(total, total.shape[-1:], w, 1e-6), total


@RUNNERS
def test_fusion(runner: Any) -> None:
    op = sv.custom_op(FUSION, "add_norm", runner=runner)
    given = (leaf(6, 40), leaf(6, 40), leaf(40))
    assert set(torch.library.opcheck(op, given).values()) == {"SUCCESS"}
    exact = [wide(x).requires_grad_() for x in given]
    got, want = op(*given), in_torch(*exact)
    close(tuple(x.detach() for x in got), tuple(x.detach() for x in want))
    (got[0] * 2 + got[1]).sum().backward()
    (want[0] * 2 + want[1]).sum().backward()
    for x, y in zip(given, exact, strict=True):
        close(x.grad, y.grad)


@RUNNERS
def test_indices_have_no_gradient(runner: Any) -> None:
    op = sv.custom_op(LOSS, "loss", runner=runner)
    x, target = leaf(7, 33, dtype=torch.float32), torch.arange(7) * 3
    assert set(torch.library.opcheck(op, (x, target)).values()) == {"SUCCESS"}
    exact = wide(x).requires_grad_()
    got, want = op(x, target), F.cross_entropy(exact, target, reduction="none")
    close(got.detach(), want.detach())
    got.sum().backward()
    want.sum().backward()
    close(x.grad, exact.grad)


@RUNNERS
@pytest.mark.parametrize("layout", ["KK", "MN"])
def test_product(runner: Any, layout: str) -> None:
    op = sv.matmul_op(Problem(f"linear_{layout}", "bf16", layout, EPILOGUE), runner=runner)
    given = (leaf(16, 24), leaf(24, 40), leaf(40))
    assert set(torch.library.opcheck(op, given).values()) == {"SUCCESS"}
    exact = [wide(x).requires_grad_() for x in given]
    got, want = op(*given), F.gelu(exact[0] @ exact[1] + exact[2])
    close(got.detach(), want.detach())
    weights = torch.linspace(-1, 1, got.numel()).view(got.shape)
    got.backward(weights.bfloat16())
    want.backward(weights.double())
    for x, y in zip(given, exact, strict=True):
        close(x.grad, y.grad)


@RUNNERS
def test_a_gated_pair(runner: Any) -> None:
    c = Tensor("f32", ("M", "N"))

    def swiglu(acc: Any, acc2: Any) -> Any:
        return (silu(acc) * acc2).cast("bf16")

    problem = Problem("gated_pair", "bf16", "KK", trace(swiglu, {"acc": c, "acc2": c}))
    op = sv.matmul_op(problem, runner=runner)
    given = (leaf(16, 24), leaf(24, 40), leaf(24, 40))
    assert set(torch.library.opcheck(op, given).values()) == {"SUCCESS"}
    exact = [wide(x).requires_grad_() for x in given]
    got, want = op(*given), F.silu(exact[0] @ exact[1]) * (exact[0] @ exact[2])
    close(got.detach(), want.detach())
    got.sum().backward()
    want.sum().backward()
    for x, y in zip(given, exact, strict=True):
        close(x.grad, y.grad)


def test_operators_stay_whole_in_compiled_functions() -> None:
    op = sv.custom_op(FUSION, "whole", runner=sv.ReferenceRunner())
    backend = sv.Backend(sv.ReferenceRunner())
    torch._dynamo.reset()
    given = (draw(6, 40, dtype=BF16), draw(6, 40, dtype=BF16), draw(40, dtype=BF16))
    function = torch.compile(lambda *a: F.silu(op(*a)[0]) * 2, backend=backend, fullgraph=True)
    close(function(*given), F.silu(in_torch(*map(wide, given))[0]) * 2)
    (region,) = backend.report.regions
    assert "exp.default" in region.operations and "whole" not in str(region.operations)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((6, 40), (6, 40), (41,)), "C of w is 41"),
        (((6, 40), (6, 40), (1, 40)), "w has 2 dimensions"),
    ],
)
def test_wrong_shapes(given: Any, message: str) -> None:
    op = sv.custom_op(FUSION, "shapes")
    with pytest.raises(InputError, match=message):
        op(*(draw(*s, dtype=BF16) for s in given))


def test_wrong_types() -> None:
    op = sv.custom_op(FUSION, "types")
    with pytest.raises(InputError, match="x is torch.float32, expected bf16"):
        op(draw(6, 40), draw(6, 40), draw(40))


def test_empty() -> None:
    op = sv.custom_op(FUSION, "empty")
    normed, total = op(draw(0, 40, dtype=BF16), draw(0, 40, dtype=BF16), draw(40, dtype=BF16))
    assert normed.shape == total.shape == (0, 40)


def test_views_are_copied() -> None:
    op = sv.custom_op(FUSION, "views", runner=sv.ReferenceRunner())
    x, w = draw(40, 6, dtype=BF16).t(), draw(40, dtype=BF16)
    close(op(x, x, w), in_torch(*map(wide, (x, x, w))))


def test_a_kernel_that_is_refused_says_why() -> None:
    class Refusing(sv.ReferenceRunner):
        def fusion(self, fusion: Any) -> Any:
            return sv.ProvingRunner().fusion(fusion)

    op = sv.custom_op(FUSION, "refused", runner=Refusing())
    with pytest.raises(sv.RefusedError, match="proved here, not run"):
        op(draw(6, 40, dtype=BF16), draw(6, 40, dtype=BF16), draw(40, dtype=BF16))


def test_every_float_function_has_a_form_in_torch() -> None:
    import inspect

    for name, row in FUNCTIONS.items():
        if name.startswith(("bit_", "cast.", "float")):
            continue
        assert name in interpret.FUNCTIONS, name
        if row.takes in ("float", "number") and name != "where":
            x = [draw(3, 17).abs() + 0.25 for _ in range(row.arity)]
            got = interpret.FUNCTIONS[name](*x)
            want = row.compute(*(y.numpy() for y in x))
            torch.testing.assert_close(got, torch.as_tensor(want), rtol=2e-6, atol=2e-6)
    assert inspect.isfunction(interpret.evaluate)


def test_places_in_a_row() -> None:
    def ramp(x: Value) -> Value:
        return x * index("C")

    fusion = trace(ramp, {"x": Tensor("f32", ("R", "C"))})
    x = draw(4, 9)
    (got,) = interpret.evaluate(fusion, {"x": x})
    close(got, x.double() * torch.arange(9))


def test_autocast_rounds_no_factor() -> None:
    problem = Problem("half_product", "f16", "KN", trace(lambda acc: acc.cast("f16"), {"acc": PRODUCT}))
    op = sv.matmul_op(problem)
    a, b = (draw(8, 16, dtype=torch.float16).requires_grad_() for _ in range(2))
    b = b.detach().T.contiguous().requires_grad_()
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            got = op(a, b)
            results.append((got, *torch.autograd.grad(got.float().sum(), (a, b))))
    for plain, other in zip(*results, strict=True):
        assert torch.equal(plain, other)
