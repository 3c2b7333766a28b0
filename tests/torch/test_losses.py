"""Losses of chosen classes and their gradients: two kernels, and one, and nothing that is left to torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.torch.losses import CHOSEN, PLACED  # noqa: E402
from tests.torch.compiled import compiled, draw, trained  # noqa: E402

BF16 = torch.bfloat16


def targets(rows: int, classes: int, ignored: int = -100) -> Any:
    found = (torch.arange(rows) * 7) % classes
    found[::5] = ignored
    return found


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
@pytest.mark.parametrize(
    ("reduction", "ignored", "regions"), [("mean", -100, 2), ("sum", 3, 2), ("none", 0, 1), ("mean", 39, 2)]
)
def test_a_loss(reduction: str, ignored: int, regions: int, dtype: Any) -> None:
    target = targets(12, 40, ignored)

    def loss(x: Any) -> Any:
        return F.cross_entropy(
            x.float() if x.dtype is BF16 else x, target, None, None, ignored, None, reduction
        )

    report = compiled(loss, draw(12, 40, dtype=dtype))
    assert len(report.regions) == regions and not report.graphs[0].left
    report = trained(loss, draw(12, 40))
    assert [len(g.regions) for g in report.graphs] == [regions, 1]
    assert not any(g.left for g in report.graphs)


def test_proved_and_simulated() -> None:
    target = targets(19, 64)
    runner = sv.SimulatorRunner()
    report = compiled(lambda x: F.cross_entropy(x.float(), target), draw(19, 64, dtype=BF16), runner=runner)
    assert [r.status for r in report.regions] == ["proved, and simulated"] * 2


def test_all_rows_ignored() -> None:
    target = torch.full((8,), -100)
    function = torch.compile(lambda x: F.cross_entropy(x, target), backend=sv.Backend(sv.ReferenceRunner()))
    assert torch.isnan(function(draw(8, 16)))


def test_what_is_left_as_torch_takes_it_apart() -> None:
    target, weight = targets(12, 40), draw(40).abs()
    compiled(lambda x, w: F.cross_entropy(x, target, w), draw(12, 40), weight)
    target = torch.arange(12)
    compiled(lambda x: F.cross_entropy(x, target, ignore_index=-(1 << 30)), draw(12, 40))


def test_operators_by_themselves() -> None:
    x, target = draw(6, 8), torch.tensor([0, 7, -1, 3, -1, 2])
    found, kept = CHOSEN(x, target, -1)
    want = torch.where(target >= 0, x[torch.arange(6), target], 0.0)
    assert torch.equal(found, want) and torch.equal(kept, (target >= 0).float())
    spread = PLACED(kept.unsqueeze(1), x, target, -1)
    assert torch.equal(spread, torch.zeros(6, 9).scatter(1, (target % 9).unsqueeze(1), 1.0)[:, :8])


def test_the_mean_of_many_rows_is_left_to_torch() -> None:
    report = compiled(lambda x: (x * x).mean(), draw(40000))
    assert {entry[2] for entry in report.left} == {"a reduction of a whole tensor"} and not report.regions
    assert len(compiled(lambda x: (x * x).mean(), draw(4000)).regions) == 1


def test_a_divergence_whose_code_names_nan() -> None:
    """``xlogy`` gives NaN where its second factor is: the kernel holds that as a number of its text."""

    def loss(x: Any, y: Any) -> Any:
        return F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean")

    report = sv.explain(loss, runner="prove")(draw(12, 40), draw(12, 40))
    assert report.regions and not report.refused, str(report)


def test_an_ignored_class_that_is_a_symbol_is_left_to_torch() -> None:
    target = targets(12, 40, 3)

    def loss(x: Any, ignored: int) -> Any:
        return F.cross_entropy(x, target, ignore_index=ignored)

    compiled(loss, draw(12, 40), 3, dynamic=True)
