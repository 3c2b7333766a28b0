"""Functions with kernels that the gate proves: simulated, or launched on a GPU that is not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.codegen import driver  # noqa: E402
from syncverify.fusion import Tensor, Value, rms_norm, trace  # noqa: E402
from syncverify.gate import fusions, matmul  # noqa: E402
from syncverify.gate.padded import padded_sizes  # noqa: E402
from syncverify.matmul import Schedule, product  # noqa: E402
from syncverify.matmul.choose import ranked  # noqa: E402
from syncverify.matmul.problem import PRODUCT, Problem  # noqa: E402
from syncverify.torch.runners import FusionOnGpu, Kernel, ProductOnGpu  # noqa: E402
from tests.torch.compiled import close, compiled, draw  # noqa: E402

BF16 = torch.bfloat16


def norm(x: Any, residual: Any, w: Any) -> Any:
    total = x + residual
    return F.rms_norm(total, total.shape[-1:], w, 1e-6), total


def linear(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(F.linear(x, w, b))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (norm, ((19, 64), (19, 64), (64,))),
        (lambda x, y: F.silu(x) * y, ((3, 7, 8), (3, 7, 8))),
        (linear, ((20, 64), (72, 64), (72,))),
    ],
)
def test_proved_and_simulated(function: Any, shapes: Any) -> None:
    report = compiled(function, *(draw(*s, dtype=BF16) for s in shapes), runner=sv.SimulatorRunner())
    assert [r.status for r in report.regions] == ["proved, and simulated"]


def test_proved_without_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch._dynamo.reset()
    backend = sv.make_backend({"runner": "prove"})
    with FakeTensorMode():
        given = [torch.empty(s, dtype=BF16, device="cuda") for s in ((19, 64), (19, 64), (64,))]
        results = torch.compile(norm, backend=backend)(*given)
    assert [r.status for r in backend.report.regions] == ["proved, not run"]
    assert results[0].shape == (19, 64)


# ---------------------------------------------------------------- launches


def _run(kernel: Kernel, sizes: dict[str, int], inputs: list[Any], shape: tuple[int, ...]) -> Any:
    out = torch.full(shape, float("nan"), dtype=BF16)
    device = out.device
    assert not kernel.prepared(sizes, device)
    assert kernel.prepare(sizes, device).startswith("proved: IR for every launch, PTX for ")
    assert kernel.prepared(sizes, device)
    kernel(sizes, inputs, [out])
    return out


def test_a_launch_names_tensors_and_stream(launches: list[tuple[Any, ...]]) -> None:
    def normed(x: Value, w: Value) -> Value:
        return rms_norm(x, w)

    fusion = trace(normed, {"x": Tensor("bf16", ("R", "C")), "w": Tensor("bf16", ("C",))})
    x, w = draw(24, 64, dtype=BF16), draw(64, dtype=BF16)
    out = _run(FusionOnGpu(fusion, fusions.Policy.PRACTICAL), {"R": 24, "C": 64}, [x, w], (24, 64))
    close(out, F.rms_norm(x.double(), (64,), w.double(), 1e-6))
    ((_, _, device, stream),) = launches
    assert (device, stream) == (0, 77)


def test_a_launch_of_a_product(launches: list[tuple[Any, ...]]) -> None:
    a, b = draw(24, 64, dtype=BF16), draw(40, 64, dtype=BF16)
    kernel = ProductOnGpu(product("bf16", "KK"), fusions.Policy.PRACTICAL)
    out = _run(kernel, {"M": 24, "N": 40, "K": 64}, [a, b], (24, 40))
    close(out, a.double() @ b.double().t())
    assert len(launches) == 1


@pytest.mark.parametrize(("layout", "n"), [("KK", 136), ("MN", 136), ("KN", 137)])
def test_few_rows_are_the_columns_of_a_kernel(
    layout: str, n: int, launches: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel whose tiles go by columns multiplies the transposes: each factor is the other one there."""
    problem = product("bf16", layout)
    kernel, sizes = ProductOnGpu(problem, fusions.Policy.PRACTICAL), {"M": 8, "N": n, "K": 64}
    by_columns = next(s for s in ranked(problem, padded_sizes(problem, sizes), 2) if s.by_columns)
    monkeypatch.setattr(matmul.Matmul, "schedule", lambda self, sizes, multiprocessors: by_columns)
    a, b = draw(8, 64, dtype=BF16), draw(64, n, dtype=BF16, seed=1)
    stored = [(a.t() if problem.a_t else a).contiguous(), (b.t() if problem.b_t else b).contiguous()]
    out = torch.full((8, n), float("nan"), dtype=BF16)
    assert kernel.prepare(sizes, torch.device("cpu")).startswith("proved")
    kernel(sizes, stored, [out])
    close(out, a.double() @ b.double())


def test_a_kernel_of_other_tensors_is_refused(
    launches: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch that mixes the factors up would read memory that is not theirs: nothing is launched."""
    problem, sizes = product("bf16", "KK"), {"M": 8, "N": 136, "K": 64}
    by_columns = next(s for s in ranked(problem, sizes, 2) if s.by_columns)
    monkeypatch.setattr(matmul.Matmul, "schedule", lambda self, sizes, multiprocessors: by_columns)
    monkeypatch.setattr(matmul.CompiledMatmul, "named", lambda self, given: dict(given))
    kernel = ProductOnGpu(problem, fusions.Policy.PRACTICAL)
    with pytest.raises(
        sv.RefusedError, match=r"the kernel's a is \[136, 64\], and a of the call is \[8, 64\]"
    ):
        kernel.prepare(sizes, torch.device("cpu"))
    assert launches == []


def test_few_rows_are_simulated_by_columns() -> None:
    report = compiled(
        lambda x, w: F.relu(x @ w.t()), draw(8, 64, dtype=BF16), draw(72, 64, dtype=BF16),
        runner=sv.SimulatorRunner(),
    )  # fmt: skip
    assert [r.status for r in report.regions] == ["proved, and simulated"]


def test_blocks_that_share_a_sum_get_their_memory(
    launches: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []

    def zeroed(size: int) -> int:
        kept.append(np.zeros(size, np.uint8))
        return int(kept[-1].ctypes.data)

    split = matmul.CompiledMatmul(
        product("bf16", "KK"), Schedule(64, 64, consumers=1, split_k=2), each_launch=True
    )
    monkeypatch.setattr(matmul.Matmul, "proved", lambda self, sizes, multiprocessors: split)
    monkeypatch.setattr(driver, "zeroed", zeroed)
    monkeypatch.setattr(driver, "capture", lambda stream: 0)
    monkeypatch.setattr(driver, "use_device", lambda device: None)
    a, b = draw(64, 256, dtype=BF16), draw(64, 256, dtype=BF16)
    kernel, out = (
        ProductOnGpu(product("bf16", "KK"), fusions.Policy.PRACTICAL),
        torch.empty(64, 64, dtype=BF16),
    )
    kernel({"M": 64, "N": 64, "K": 256}, [a, b], [out])
    close(out, a.double() @ b.double().t())
    assert len(kept) == 2, "partial sums, and the semaphores that count them"


@pytest.mark.parametrize(
    ("layout", "m", "n", "k"),
    [("KK", 24, 40, 60), ("KN", 24, 37, 64), ("MN", 21, 40, 64), ("MN", 21, 39, 50)],
)
def test_rows_that_no_tensor_copy_can_address_are_copied(
    layout: str, m: int, n: int, k: int, launches: list[tuple[Any, ...]]
) -> None:
    """The kernel reads factors whose rows were made longer, with zeros; its result is the product's."""
    problem = product("bf16", layout)
    kernel = ProductOnGpu(problem, fusions.Policy.PRACTICAL)
    sizes = {"M": m, "N": n, "K": k}
    a, b = draw(m, k, dtype=BF16), draw(k, n, dtype=BF16, seed=1)
    stored = [(a.t() if problem.a_t else a).contiguous(), (b.t() if problem.b_t else b).contiguous()]
    out = torch.full((m, n), float("nan"), dtype=BF16)
    assert kernel.prepare(sizes, torch.device("cpu")).startswith("proved")
    kernel(sizes, stored, [out])
    close(out, a.double() @ b.double())
    assert len(launches) == 1 and kernel.bound(sizes, torch.device("cpu")) is None


def test_rows_of_several_results_are_refused_where_these_would_be_longer(launches: list[Any]) -> None:
    def two(acc: Value) -> dict[str, Value]:
        return {"y0": acc.cast("bf16"), "y1": (acc * 2.0).cast("bf16")}

    problem = Problem("two", "bf16", "KN", trace(two, {PRODUCT: Tensor("f32", ("M", "N"))}))
    kernel = ProductOnGpu(problem, fusions.Policy.PRACTICAL)
    with pytest.raises(sv.RefusedError, match="no multiple of 16 bytes"):
        kernel.prepare({"M": 24, "N": 37, "K": 64}, torch.device("cpu"))
    assert launches == []


def test_a_refuted_kernel_never_launches(launches: list[tuple[Any, ...]], monkeypatch: Any) -> None:
    from syncverify.base.diagnostics import KernelReport, Scope, ScopeKind, Verdict

    def refuted(self: Any, stage: str, values: Any = None) -> KernelReport:
        scope = Scope(ScopeKind.ALL, {}, ())
        return KernelReport("normed", "", Verdict.UNKNOWN, fusions.Policy.PRACTICAL, scope, reason="a test")

    def doubled(x: Value) -> Value:
        return x * 2.125

    monkeypatch.setattr(fusions.Program, "check", refuted)
    kernel = FusionOnGpu(trace(doubled, {"x": Tensor("bf16", ("R",))}), fusions.Policy.PRACTICAL)
    x, out = draw(64, dtype=BF16), torch.empty(64, dtype=BF16)
    with pytest.raises(sv.RefusedError, match="a test"):
        kernel({"R": 64}, [x], [out])
    assert launches == []
