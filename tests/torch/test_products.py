"""Products that nothing else takes become kernels where these are faster than the library's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.matmul.problem import Problem  # noqa: E402
from syncverify.torch import choice, trials, workers  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402

BF16 = torch.bfloat16
MM, ADDMM = torch.ops.aten.mm.default, torch.ops.aten.addmm.default


@pytest.fixture
def clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Microseconds of the library's product and of the kernel, and of contexts of more nodes."""
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(choice, "_FOUND", {})
    monkeypatch.setattr(trials, "_LEAST_SECONDS", 60.0)
    monkeypatch.setattr(sys.modules["syncverify.torch.backend"], "ALONE_SECONDS", 60.0)
    times = {"library": 10.0, "kernel": 9.0, "group": 99.0}

    def timed(runs: Any, arguments: Any, device: Any) -> list[float]:
        with choice.real(device):
            given = [choice._example(x) for x in arguments]
            results = [run(given) for run in runs]
            if isinstance(results[0], torch.Tensor):  # alone: the same product by both
                for other in results[1:]:
                    torch.testing.assert_close(results[0].float(), other.float(), rtol=2e-2, atol=2e-2)
                return [times["library"], times["kernel"]][: len(runs)]
        return [10.0, *[times["group"]] * (len(runs) - 1)]

    monkeypatch.setattr(trials, "timed", timed)
    monkeypatch.setattr(trials, "bytes_per_us", lambda device: 1e9)
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    return times


def compiled(function: Any, *given: Any) -> Any:
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    torch._dynamo.reset()
    got = torch.compile(function, backend=backend)(*given)
    torch.testing.assert_close(got.float(), function(*given).float(), rtol=2e-2, atol=2e-2)
    return backend.report


def product(x: Any, w: Any) -> Any:
    return (x @ w).neg()


def given_product() -> tuple[Any, Any]:
    return draw(64, 32, dtype=BF16), draw(24, 32, dtype=BF16).t()


@pytest.mark.parametrize(("kernel", "taken"), [(9.0, 1), (9.95, 1), (10.1, 0)])
def test_a_product_alone_is_a_kernel_where_it_is_as_fast(
    kernel: float, taken: int, clocks: dict[str, float]
) -> None:
    clocks["kernel"] = kernel
    clocks["group"] = 99.0
    report = compiled(lambda x, w: (x @ w).sum(0), *given_product())
    assert [r.kind for r in report.regions] == ["product"] * taken
    assert len(report.regions) + len(report.refused) == 1


def test_a_product_alone_is_tried_where_its_group_is_not_faster(clocks: dict[str, float]) -> None:
    report = compiled(product, *given_product())
    (region,), (refused,) = report.regions, report.refused
    assert region.operations == (str(MM.__name__),)
    assert len(refused.operations) == 2 and refused.refused.startswith("not faster: 99.0 us")


def test_a_group_that_is_faster_keeps_its_product(clocks: dict[str, float]) -> None:
    clocks["group"] = 5.0
    report = compiled(product, *given_product())
    (region,) = report.regions
    assert len(region.operations) == 2 and not report.refused


def gated(x: Any, w: Any, v: Any) -> tuple[Any, ...]:
    """With both products as results, as a gradient needs them."""
    a, b = x @ w, x @ v
    return F.silu(a) * b, a, b


def given_gate() -> tuple[Any, ...]:
    return draw(64, 32, dtype=BF16), draw(32, 40, dtype=BF16), draw(32, 40, dtype=BF16, seed=1)


@pytest.mark.parametrize(
    ("pair", "half", "kernels"), [(5.0, 99.0, [2]), (99.0, 5.0, [1, 1]), (99.0, 99.0, [1, 1])]
)
def test_of_two_products_with_several_results_the_second_is_tried_with_what_follows(
    pair: float, half: float, kernels: list[int], clocks: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the library's first product, or its own kernel; where neither helps, both products are alone."""
    plain = trials._run_of
    times = {2: pair, 1: half}

    def run_of(trial: Any, ops: Any) -> Any:
        if not trial.of_a_library:
            clocks["group"] = times[len(trial.members[0].found.group.products)]
        return plain(trial, ops)

    monkeypatch.setattr(trials, "_run_of", run_of)
    torch._dynamo.reset()
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    given = given_gate()
    for got, want in zip(torch.compile(gated, backend=backend)(*given), gated(*given), strict=True):
        torch.testing.assert_close(got.float(), want.float(), rtol=2e-2, atol=2e-2)
    regions = backend.report.regions
    assert sorted(r.operations.count("mm.default") for r in regions) == kernels
    with_more = [r for r in regions if len(r.operations) > 1]
    assert len(with_more) == (1 if min(pair, half) < 10 else 0)
    if len(with_more) == 1 and half < 10:
        assert len(with_more[0].outputs) == 2  # the second product, and what is made of both


@pytest.mark.parametrize(("there", "first"), [(True, "group"), (False, "product")])
def test_products_alone_come_first_only_while_inductors_processes_are_to_come(
    there: bool, first: str, clocks: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of many classes may gain more than a product, which takes time for trials as well."""
    tried: list[str] = []
    plain = trials._begin_plain

    def begin(trial: Any) -> None:
        tried.append("product" if trial.of_a_library else "group")
        plain(trial)

    monkeypatch.setattr(trials, "_begin_plain", begin)
    monkeypatch.setattr(trials, "bytes_per_us", lambda device: 1.0)
    monkeypatch.setattr(workers, "there", lambda device: there)
    torch._dynamo.reset()
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    target = torch.arange(16)
    given = draw(16, 8, dtype=BF16), draw(8, 9000, dtype=BF16)
    f = torch.compile(lambda x, w: F.cross_entropy((x @ w).float(), target), backend=backend)
    f(*given)
    assert set(tried) == {"group", "product"} and tried[0] == first


def test_a_bias_goes_with_the_product(clocks: dict[str, float]) -> None:
    x, w, b = draw(16, 32, dtype=BF16), draw(24, 32, dtype=BF16), draw(24, dtype=BF16)
    report = compiled(lambda x, w, b: F.linear(x, w, b).sum(0), x, w, b)
    assert [r.operations for r in report.regions] == [(str(ADDMM.__name__),)]


def test_other_types_are_the_librarys(clocks: dict[str, float]) -> None:
    report = compiled(lambda x, w: (x @ w).sum(0), draw(16, 32), draw(32, 24))
    assert not report.regions and not report.refused


def test_kernels_are_listed_without_elements() -> None:
    """What a model may need: its groups and its products alone, for proofs that come with the package."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from syncverify.torch.runners import ListingRunner

    runner = ListingRunner()
    torch._dynamo.reset()
    with FakeTensorMode():
        x, w = torch.empty(512, 256, dtype=BF16), torch.empty(128, 256, dtype=BF16, requires_grad=True)
        backend = sv.make_backend({"runner": runner})
        torch.compile(lambda x, w: (x @ w.t()).relu().sum(0), backend=backend)(x, w).sum().backward()
    products = sorted((k.name, sizes["K"]) for k, sizes in runner.found.values() if isinstance(k, Problem))
    assert products == [("fused_mm", 256), ("fused_mm", 512), ("fused_mm_relu", 256)]
