"""Batched products: kernels for many matrices of one shape, with what follows them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.base.diagnostics import Policy  # noqa: E402
from syncverify.base.source import InputError  # noqa: E402
from syncverify.fusion import Tensor, Value, gelu, trace  # noqa: E402
from syncverify.gate.ahead import kernel_signature  # noqa: E402
from syncverify.matmul import Problem, product  # noqa: E402
from syncverify.torch.runners import ProductOnGpu  # noqa: E402
from tests.torch.compiled import close, compiled, draw, trained, wide  # noqa: E402
from tests.torch.test_products import clocks  # noqa: E402, F401
from tests.torch.test_products import compiled as faster  # noqa: E402

BF16 = torch.bfloat16
MODES = ("KK", "KN", "MK", "MN")


def factors(layout: str, b: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    """Many matrices whose memory runs along the dimensions that a layout names."""
    x = draw(b, k, m, dtype=BF16).mT if layout[0] == "M" else draw(b, m, k, dtype=BF16)
    y = draw(b, n, k, dtype=BF16, seed=1).mT if layout[1] == "K" else draw(b, k, n, dtype=BF16, seed=1)
    return x, y


def operations(report: sv.Report) -> list[set[str]]:
    """What the kernels of a report compute."""
    return [{o.split(".")[0] for o in r.operations} for r in report.regions]


@pytest.mark.parametrize("layout", MODES)
def test_a_kernel_reads_factors_in_any_layout(layout: str) -> None:
    report = compiled(lambda x, y: F.relu(x @ y), *factors(layout, 3, 24, 40, 16))
    assert operations(report) == [{"bmm", "relu"}]
    assert list(report.regions[0].sizes) == ["B", "M", "N", "K"]


@pytest.mark.parametrize("shape", [(40,), (24, 40), (1, 24, 40), ()])
def test_what_is_the_same_for_each_matrix_is_read_by_the_kernel(shape: tuple[int, ...]) -> None:
    x, y = factors("KK", 3, 24, 40, 16)
    report = compiled(lambda x, y, z: F.gelu(x @ y * 0.5 + z), x, y, draw(*shape, dtype=BF16))
    (found,) = operations(report)
    assert {"bmm", "add"} <= found


def test_a_tensor_of_many_matrices_is_added_outside() -> None:
    x, y = factors("KN", 3, 24, 40, 16)
    report = compiled(lambda x, y, z: F.silu((x @ y).relu() + z), x, y, draw(3, 24, 40, dtype=BF16))
    assert {"bmm", "relu"} in operations(report)
    assert all("bmm" not in found or "add" not in found for found in operations(report))


@pytest.mark.parametrize(("shape", "taken"), [((1, 24, 40), True), ((3, 24, 40), False)])
def test_a_product_that_adds_a_tensor(shape: tuple[int, ...], taken: bool) -> None:
    x, y = factors("KN", 3, 24, 40, 16)
    report = compiled(lambda z, x, y: torch.baddbmm(z, x, y).relu(), draw(*shape, dtype=BF16), x, y)
    assert operations(report) == ([{"baddbmm", "relu"}] if taken else [])


def test_two_products_of_one_factor_are_one_kernel() -> None:
    x, y = factors("KN", 3, 24, 40, 16)
    z = draw(3, 16, 40, dtype=BF16, seed=2)
    report = compiled(lambda x, y, z: F.silu(x @ y) * (x @ z), x, y, z)
    assert len(report.regions) == 1 and report.regions[0].operations.count("bmm.default") == 2


def test_a_product_of_one_matrix_and_one_of_many_are_two_kernels() -> None:
    def function(x: Any, y: Any, w: Any) -> Any:
        return F.relu(x @ y).sum(1) + F.relu(x[0] @ w).sum(0)

    report = compiled(function, *factors("KN", 3, 24, 40, 16), draw(16, 40, dtype=BF16))
    assert all(not {"bmm", "mm"} <= found for found in operations(report))


def test_heads_are_matrices() -> None:
    """Products of heads that lie beside each other: their views are copied, or read, and never mixed up."""

    def function(q: Any, k: Any) -> Any:
        return (q.transpose(1, 2) @ k.permute(0, 2, 3, 1)).relu() * 0.25

    report = compiled(function, draw(2, 24, 4, 16, dtype=BF16), draw(2, 32, 4, 16, dtype=BF16))
    assert any("bmm" in found for found in operations(report))


def test_gradients() -> None:
    report = trained(lambda x, y: F.silu(x @ y), *factors("KN", 3, 24, 40, 16))
    kinds = [(r.kind, {"bmm.default"} & set(r.operations)) for r in report.regions]
    assert kinds == [("product", {"bmm.default"}), ("fusion", set())]


def test_numbers_of_matrices_that_are_symbols() -> None:
    torch._dynamo.reset()
    backend = sv.Backend(sv.ReferenceRunner())
    run = torch.compile(lambda x, y: F.relu(x @ y), backend=backend, dynamic=True, fullgraph=True)
    for many in (3, 5, 2):
        x, y = factors("KK", many, 24, 40, 16)
        close(run(x, y), F.relu(wide(x) @ wide(y)))
    assert len(backend.report.graphs) == 1 and len(backend.report.regions) == 1


def test_proved_and_simulated() -> None:
    x, y = factors("KN", 3, 72, 40, 40)
    report = compiled(lambda x, y: F.relu(x @ y), x, y, runner=sv.SimulatorRunner())
    assert [r.status for r in report.regions] == ["proved, and simulated"]


@pytest.mark.parametrize(("layout", "n", "k"), [("KN", 40, 40), ("KN", 37, 40), ("KK", 40, 36)])
def test_launched_with_rows_made_longer_where_they_have_to_be(
    layout: str, n: int, k: int, launches: list[tuple[Any, ...]]
) -> None:
    problem = product("bf16", layout, batched=True)
    kernel, sizes = ProductOnGpu(problem, Policy.PRACTICAL), {"B": 3, "M": 24, "N": n, "K": k}
    x, y = factors(layout, 3, 24, n, k)
    out = torch.full((3, 24, n), float("nan"), dtype=BF16)
    assert kernel.prepare(sizes, out.device).startswith("proved")
    kernel(sizes, [x, y.mT if problem.b_t else y], [out])
    close(out, wide(x) @ wide(y))
    assert len(launches) == 1


def test_many_products_are_no_proof_of_one() -> None:
    assert kernel_signature(product()) != kernel_signature(product(batched=True))


# ---------------------------------------------------------------- beside the library


@pytest.mark.parametrize(("kernel", "taken"), [(9.0, 1), (9.95, 1), (10.1, 0)])
def test_alone_it_is_a_kernel_where_it_is_as_fast(
    kernel: float,
    taken: int,
    clocks: dict[str, float],  # noqa: F811
) -> None:
    clocks["kernel"] = kernel
    report = faster(lambda x, y: (x @ y).cumsum(0), *factors("KK", 3, 24, 40, 16))
    assert operations(report) == [{"bmm"}] * taken
    assert len(report.regions) + len(report.refused) == 1


# ---------------------------------------------------------------- custom operators


def bias_gelu(acc: Value, bias: Value) -> Value:
    return gelu(acc + bias).cast("bf16")


EPILOGUE = trace(bias_gelu, {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("N",))})


@pytest.mark.parametrize("runner", [None, sv.ReferenceRunner()], ids=["cpu", "kernel"])
def test_an_operator_of_ones_own(runner: Any) -> None:
    op = sv.matmul_op(Problem("batched_linear", "bf16", "KK", EPILOGUE, batched=True), runner=runner)
    given = tuple(draw(*s, dtype=BF16).requires_grad_() for s in ((3, 16, 24), (3, 24, 40), (40,)))
    assert set(torch.library.opcheck(op, given).values()) == {"SUCCESS"}
    exact = [wide(x).requires_grad_() for x in given]
    got, want = op(*given), F.gelu(exact[0] @ exact[1] + exact[2])
    close(got.detach(), want.detach())
    weights = torch.linspace(-1, 1, got.numel()).view(got.shape)
    got.backward(weights.bfloat16())
    want.backward(weights.double())
    for x, y in zip(given, exact, strict=True):
        close(x.grad, y.grad)


@pytest.mark.parametrize(
    "shapes", [((16, 24), (24, 40)), ((3, 16, 24), (2, 24, 40)), ((3, 16, 24), (24, 40))]
)
def test_other_numbers_of_matrices_are_an_error(shapes: tuple[tuple[int, ...], ...]) -> None:
    op = sv.matmul_op(Problem("batched_wrong", "bf16", "KK", EPILOGUE, batched=True))
    with pytest.raises(InputError, match="cannot multiply"):
        op(*(draw(*s, dtype=BF16) for s in shapes), draw(40, dtype=BF16))
