"""torch.compile with this backend: functions of networks become kernels, and their results stay right."""

from __future__ import annotations

import importlib.metadata
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.base.source import InputError  # noqa: E402
from tests.torch.compiled import compiled, draw, trained  # noqa: E402

BF16, F16 = torch.bfloat16, torch.float16


def kernels(report: sv.Report) -> list[tuple[str, ...]]:
    """The operations of each kernel, without their overloads."""
    return [tuple(o.split(".")[0] for o in r.operations) for r in report.regions]


def norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def layer(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, x.shape[-1:], w, b)


def mlp(x: Any, w: Any, b: Any, v: Any) -> Any:
    return F.linear(F.gelu(F.linear(x, w, b)), v)


@pytest.mark.parametrize("dtype", [torch.float32, BF16, F16])
@pytest.mark.parametrize(
    ("function", "shapes", "sizes"),
    [
        (norm, [(3, 5, 48), (48,)], {"r0": "15", "c": "48"}),
        (layer, [(3, 5, 48), (48,), (48,)], {"r0": "15", "c": "48"}),
        (lambda x: F.softmax(x + 0.5, -1), [(7, 33)], {"r0": "7", "c": "33"}),
        (lambda x: F.log_softmax(x + 1, -1), [(7, 33)], {"r0": "7", "c": "33"}),
        (lambda x, b: F.gelu(x + b), [(4, 6, 16), (16,)], {"r0": "24", "c": "16"}),
        (lambda x, y: F.silu(x) * y, [(4, 6), (4, 6)], {"c": "24"}),
        (lambda x, p: torch.tanh(x + p) * p, [(2, 3, 8), (3, 8)], {"r0": "2", "c": "24"}),
        (lambda x, y: (x - y) / (x.std(-1, keepdim=True) + 1), [(6, 16), (6, 1)], {"r0": "6", "c": "16"}),
        (lambda x: (x * x).sum((1, 2)).sqrt(), [(4, 3, 8)], {"r0": "4", "c": "24"}),
        (lambda x: (x - x.mean(-1, keepdim=True)).abs().amax(-1), [(5, 12)], {"r0": "5", "c": "12"}),
        (lambda x, y: torch.where(x > 0, x, y.exp()).clamp(-1, 2), [(6, 6), (6, 6)], {"c": "36"}),
        (lambda x, y: F.leaky_relu(x) + F.softplus(y), [(8, 8), (8, 8)], {"c": "64"}),
        (lambda x: F.layer_norm(x, (24,)), [(24,)], {"r0": "1", "c": "24"}),
    ],
)
def test_one_kernel(function: Any, shapes: Any, sizes: Any, dtype: Any) -> None:
    report = compiled(function, *(draw(*s, dtype=dtype) for s in shapes))
    assert [dict(r.sizes) for r in report.regions] == [sizes]
    assert report.left == [] and report.refused == []


def test_several_results_of_one_kernel() -> None:
    def add_norm(x: Any, residual: Any, w: Any) -> Any:
        total = x + residual
        return norm(total, w), total, total.sum(-1)

    report = compiled(add_norm, *(draw(*s, dtype=BF16) for s in ((9, 40), (9, 40), (40,))))
    assert len(report.regions) == 1 and len(report.regions[0].outputs) == 3


def test_products_take_what_follows_them() -> None:
    shapes = ((2, 5, 16), (32, 16), (32,), (16, 32))
    report = compiled(mlp, *(draw(*s, dtype=BF16) for s in shapes))
    (region,) = report.regions
    assert region.kind == "product" and kernels(report)[0][0] == "addmm" and "erf" in kernels(report)[0]
    assert dict(region.sizes) == {"M": "10", "N": "32", "K": "16"}
    assert ("mm.default", "alone: torch does it as well") in {entry[1:] for entry in report.left}


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_every_layout_of_factors(transposed: tuple[bool, bool]) -> None:
    a, b = draw(24, 16, dtype=BF16), draw(16, 40, dtype=BF16)
    a = a.t().contiguous().t() if transposed[0] else a
    b = b.t().contiguous().t() if transposed[1] else b
    report = compiled(lambda a, b: torch.relu(a @ b) * 2, a, b)
    assert [r.kind for r in report.regions] == ["product"]


def gated(x: Any, y: Any, w: Any, v: Any) -> Any:
    return F.silu(F.linear(x, w)) * F.linear(y, v)


@pytest.mark.parametrize("shape", [(12, 16), (3, 4, 16)])
def test_gated_products_of_one_factor_are_one_kernel(shape: tuple[int, ...]) -> None:
    shapes = (shape, (24, 16), (24, 16))
    report = compiled(lambda x, w, v: gated(x, x, w, v), *(draw(*s, dtype=BF16) for s in shapes))
    (region,) = report.regions
    assert region.kind == "product" and {"mm": 2, "exp": 1}.items() <= Counter(kernels(report)[0]).items()
    assert dict(region.sizes) == {"M": "12", "N": "24", "K": "16"} and not report.refused


def test_gated_products_may_have_biases() -> None:
    def gated(x: Any, w: Any, v: Any, b: Any, c: Any) -> Any:
        return F.silu(F.linear(x, w, b)) * F.linear(x, v, c) + 1

    shapes = ((12, 16), (24, 16), (24, 16), (24,), (24,))
    report = compiled(gated, *(draw(*s, dtype=BF16) for s in shapes))
    assert [Counter(k)["addmm"] for k in kernels(report)] == [2]


@pytest.mark.parametrize("turned", [False, True])
def test_gated_products_of_other_factors_are_two_kernels(turned: bool) -> None:
    x, y, w, v = (draw(*s, dtype=BF16) for s in ((16, 16), (16, 16), (24, 16), (24, 16)))
    given = (x, w, v) if turned else (x, y, w, v)
    function = (lambda x, w, v: gated(x, x.t(), w, v)) if turned else gated
    report = compiled(function, *given)
    assert [r.kind for r in report.regions] == ["product"]
    assert Counter(kernels(report)[0])["mm"] == 1


def test_products_of_f32_are_left_to_torch() -> None:
    report = compiled(lambda a, b: torch.relu(a @ b) * 2, draw(8, 8), draw(8, 8))
    assert kernels(report) == [("relu", "mul")]
    assert ("mm.default", "products are of bf16 or f16") in {entry[1:] for entry in report.left}


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_gradients(dtype: Any) -> None:
    report = trained(layer, *(draw(*s, dtype=dtype) for s in ((4, 5, 16), (16,), (16,))))
    assert len(report.graphs) == 2 and all(g.regions for g in report.graphs)


def test_gradients_of_products() -> None:
    report = trained(mlp, *(draw(*s, dtype=BF16) for s in ((2, 5, 16), (32, 16), (32,), (16, 32))))
    assert [r.kind for r in report.regions] == ["product", "product"]


def test_gradients_of_a_loss() -> None:
    x, target = draw(12, 40), torch.arange(12) % 40
    target[3] = -100

    def loss(x: Any) -> Any:
        return F.cross_entropy(x, target)

    trained(loss, x)


# ---------------------------------------------------------------- sizes


def test_one_compilation_for_all_numbers_of_rows() -> None:
    backend = sv.Backend(sv.ReferenceRunner())
    torch._dynamo.reset()
    function = torch.compile(norm, backend=backend, dynamic=True)
    w = draw(24)
    for rows in (5, 9, 1, 300):
        x = draw(rows, 3, 24)
        torch.testing.assert_close(function(x, w), norm(x, w))
    assert len(backend.report.graphs) <= 2  # one row is a size of its own to torch
    assert "s" in backend.report.regions[0].sizes["r0"]


def test_sizes_that_only_a_view_tells_apart() -> None:
    def function(x: Any, p: Any) -> Any:
        # rows become (2, rows / 2), which no argument has as its shape
        return torch.relu(x * 2).view(2, -1, x.shape[-1]) + p

    compiled(function, draw(10, 8), draw(2, 1, 8), dynamic=True)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), ()])
def test_empty_tensors_and_numbers(shape: tuple[int, ...]) -> None:
    torch._dynamo.reset()
    x = torch.zeros(shape)
    function = torch.compile(lambda x: torch.relu(x * 2) + 1, backend=sv.Backend(sv.ReferenceRunner()))
    assert torch.equal(function(x), torch.relu(x * 2) + 1)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x[1:, 3:],
        lambda x: x.unsqueeze(0).expand(4, -1, -1),
        lambda x: x.flip(0)[::3],
    ],
)
def test_inputs_that_are_not_contiguous(view: Any) -> None:
    compiled(lambda x: F.softmax(x * 2, -1), view(draw(12, 16)))
    compiled(lambda x: torch.tanh(x) * x + 1, view(draw(12, 16)))


def test_results_keep_the_strides_that_torch_expects() -> None:
    x = draw(12, 16).t()
    function = torch.compile(lambda x: torch.tanh(x) * x, backend=sv.Backend(sv.ReferenceRunner()))
    torch._dynamo.reset()
    assert function(x).stride() == (torch.tanh(x) * x).stride()


def test_inputs_whose_memory_has_other_signs() -> None:
    """The imaginary part of a conjugate is a view with a flag; Inductor's code would miss the flag."""
    z = torch.complex(draw(6, 32), draw(6, 32, seed=1))
    given, plain = z.conj().imag, z.imag.contiguous()
    assert given.is_neg()

    def function(x: Any) -> Any:
        return F.softmax(x + 0.5, -1)

    torch._dynamo.reset()
    made = torch.compile(function, backend=sv.Backend(sv.ReferenceRunner()))
    for x in (plain, given):
        torch.testing.assert_close(made(x), function(x))


def test_halves_of_a_row() -> None:
    def gated(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    (kernel,) = kernels(compiled(gated, draw(6, 32, dtype=BF16)))
    assert "exp" in kernel and "mul" in kernel


def test_inputs_are_changed_in_place_as_in_torch() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(y).mul_(2)
        return torch.relu(x) + y

    torch._dynamo.reset()
    x, y = draw(4, 8), draw(4, 8) + 1
    other = x.clone()
    got = torch.compile(function, backend=sv.Backend(sv.ReferenceRunner()))(x, y)
    torch.testing.assert_close(got, function(other, y))
    torch.testing.assert_close(x, other)


# ---------------------------------------------------------------- what is left to torch


def test_tensors_on_a_cpu_are_left_to_torch() -> None:
    report = compiled(norm, draw(4, 8), draw(8), runner=sv.GateRunner())
    assert report.regions == []
    assert "tensors on cpu" in report.refused[0].refused


def test_reasons() -> None:
    def function(x: Any, y: Any) -> Any:
        order = torch.argsort(torch.relu(x) + 1)
        return order, torch.cumsum(y * 2 + 1, 0)

    report = compiled(function, draw(4, 8), draw(4, 8))
    reasons = {operation: why for _, operation, why in report.left}
    assert reasons["cumsum.default"] == "fusions have no such function"
    assert len(report.regions) == 2
    assert "cumsum" in str(report)


def test_a_refusal_at_run_time_is_left_to_torch() -> None:
    class Late(sv.ReferenceRunner):
        def fusion(self, fusion: Any) -> Any:
            kernel = super().fusion(fusion)

            class Refusing:
                prepare, prepared = kernel.prepare, kernel.prepared

                def __call__(self, sizes: Any, inputs: Any, outputs: Any) -> None:
                    raise sv.RefusedError("no proof for these sizes")

            return Refusing()

    report = compiled(norm, draw(4, 8), draw(8), runner=Late())
    assert "left to torch for r0 = 4, c = 8: no proof for these sizes" in report.regions[0].notes


def test_one_operation_alone_is_left_unless_asked_for() -> None:
    assert compiled(torch.relu, draw(4, 8)).regions == []
    assert kernels(compiled(torch.relu, draw(4, 8), least=1)) == [("relu",)]


def test_explain() -> None:
    explained = sv.explain(norm, runner="reference")
    report = explained(draw(4, 8), draw(8))
    assert explained.result.shape == (4, 8)
    assert "1 kernels" in str(report) and "fused_" in str(report)


# ---------------------------------------------------------------- the name


def test_name_is_registered() -> None:
    torch._dynamo.reset()
    function = torch.compile(norm, backend="syncverify", options={"runner": "reference"})
    x, w = draw(4, 8), draw(8)
    torch.testing.assert_close(function(x, w), norm(x, w))


def test_entry_point_names_the_backend() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    point = project["entry-points"]["torch_dynamo_backends"]["syncverify"]
    entry = importlib.metadata.EntryPoint("syncverify", point, "torch_dynamo_backends")
    assert entry.load() is sv.backend


@pytest.mark.parametrize("options", [{"runner": "gpu"}, {"stages": 3}])
def test_wrong_options(options: Any) -> None:
    with pytest.raises(InputError, match="unknown"):
        sv.make_backend(options)


def test_a_proof_that_takes_too_long_leaves_the_rest_to_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    x, w = draw(4, 48), draw(48)
    found = sv.make_backend({"runner": "simulator", "proof_seconds": 1e-9})
    torch._dynamo.reset()
    got = torch.compile(norm, backend=found)(x, w)
    torch.testing.assert_close(got, norm(x, w))
    (refused,) = found.report.graphs[0].refused
    assert "no proof within 1e-09 seconds of processor time" in refused.refused


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"proof_seconds": 0}, "use a number above 0"),
        ({"runner": "simulator", "proof_seconds": "soon"}, "use a number above 0"),
        ({"runner": "reference", "proof_seconds": 3}, "the reference proves nothing"),
        ({"runner": sv.SimulatorRunner(), "proof_seconds": 3}, "give it to the runner"),
        ({"least": "two"}, "use a number of operations"),
        ({"seconds": 3}, "use runner, least, use, proof_seconds, or a setting of"),
        ({"use": "sometimes"}, "use faster, always, never"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        sv.make_backend(options)


@pytest.mark.parametrize(
    "options",
    [{"emulate_precision_casts": True}, {"batch_invariant": True}, {"use": "faster", "deterministic": True}],
    ids=["rounding", "batches", "times"],
)
def test_what_kernels_do_not_do_is_left_to_inductor(options: dict[str, Any]) -> None:
    known = torch._inductor.config.get_config_copy()
    if not {*options} - {"use"} <= known.keys():
        pytest.skip("another version of torch")
    found = sv.make_backend({"runner": "reference", **options})
    torch._dynamo.reset()
    x, w = draw(4, 48), draw(48)
    torch.testing.assert_close(torch.compile(norm, backend=found)(x, w), norm(x, w))
    assert not found.report.graphs


def test_a_variance_of_fewer_elements_than_its_correction() -> None:
    def function(x: Any) -> Any:
        return (x * 2).var(-1, correction=5) + 1

    found = sv.make_backend({"runner": "reference"})
    torch._dynamo.reset()
    x = draw(6, 3)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert torch.equal(torch.compile(function, backend=found)(x), function(x))
    (graph,) = found.report.graphs
    assert all("var" not in name for r in graph.regions for name in r.operations)
