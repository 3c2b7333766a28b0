"""Gradients of embeddings with few rows are products."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.torch import embeddings, table  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402

PLACES = (256, 128)


def turned(*shape: int) -> Any:
    """A gradient whose places follow each other in memory, as that of a bias of heads."""
    return draw(shape[-1], *shape[:-1]).movedim(0, -1)


def plain(grad: Any, indices: Any, rows: int, padding: int) -> Any:
    return torch.ops.aten.embedding_dense_backward(grad, indices, rows, padding, False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("padding", [-1, 3])
def test_sums_are_those_of_each_row(dtype: Any, padding: int) -> None:
    """Some rows are never chosen, and one is left out."""
    indices = torch.randint(0, 20, PLACES)
    grad = turned(*PLACES, 6).to(dtype)
    made = embeddings.backward(grad, indices, 32, padding, False)
    wanted = plain(grad.double(), indices, 32, padding)
    assert made.dtype == dtype and made.shape == (32, 6) and not made[20:].any()
    rel = {torch.float32: 1e-5, torch.bfloat16: 5e-3, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(made.double(), wanted, rtol=rel, atol=rel * 10)


@pytest.mark.parametrize("unusual", [torch.nan, torch.inf])
def test_what_is_left_out_may_be_no_number(unusual: float) -> None:
    """Places that are only there to fill a row: nobody looks at what their gradients are."""
    indices = torch.randint(0, 20, PLACES)
    grad = turned(*PLACES, 6)
    grad[indices == 3] = unusual
    made = embeddings.backward(grad, indices, 32, 3, False)
    torch.testing.assert_close(made, plain(grad, indices, 32, 3), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(*PLACES, 6), (1 << 16, 64)], ids=["turned", "of two rows"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_no_number_stays_in_its_row(shape: tuple[int, ...], dtype: Any) -> None:
    """Infinities of one sign stay what they are; of both they are no number, as in a sum of them."""
    rows = 20 if len(shape) > 2 else 2
    indices = torch.randint(0, rows, shape[:-1])
    grad = (turned(*shape) if len(shape) > 2 else draw(*shape)).to(dtype)
    signs = torch.inf, -torch.inf, torch.nan
    for k, numbers in enumerate((signs[:1], signs[:1] * 2, signs[1:2], signs[:2], signs[2:], signs[::2])):
        for at, number in enumerate(numbers):
            place = (at + 7, 3 * k + at)[: indices.dim()]
            indices[place], grad[(*place, k)] = k % (rows - 1), number
    made = embeddings.backward(grad, indices, rows, -1, False)
    wanted = plain(grad.double(), indices, rows, -1)
    assert not wanted.isfinite().all() and wanted.isfinite().any(0).all()
    torch.testing.assert_close(made.double(), wanted, rtol=1e-2, atol=1e-1, equal_nan=True)


@pytest.mark.parametrize(
    ("rows", "places", "by_frequency"),
    [(1000, PLACES, False), (32, (64, 64), False), (32, (257, 129), False), (32, PLACES, True)],
    ids=["many rows", "few places", "an odd number of places", "by frequency"],
)
def test_others_are_inductors(rows: int, places: tuple[int, int], by_frequency: bool) -> None:
    indices = torch.randint(0, rows, places)
    assert embeddings.backward(turned(*places, 4), indices, rows, -1, by_frequency) is NotImplemented


@pytest.mark.parametrize(
    ("rows", "places", "wide", "taken"),
    [(2, 1 << 16, 64, True), (2, 1 << 16, 16, False), (2, 1 << 14, 256, False), (32, 1 << 16, 64, False)],
)
def test_rows_that_lie_in_memory_are_added_unless_they_are_two(
    rows: int, places: int, wide: int, taken: bool
) -> None:
    indices = torch.zeros(places, dtype=torch.int64)
    grad = torch.empty(places, wide, dtype=torch.bfloat16, device="meta")
    made = embeddings.backward(grad, indices.to("meta"), rows, -1, False)
    assert (made is not NotImplemented) is taken


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_sums_of_f32_round_no_factor(precision: str) -> None:
    """A product may round factors of f32 then, to bf16 at least; those of bf16 lose nothing by it."""
    indices, grad = torch.randint(0, 20, PLACES), turned(*PLACES, 6)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        for others in (grad, grad.half()):
            assert embeddings.backward(others, indices, 32, -1, False) is NotImplemented
        assert embeddings.backward(grad.bfloat16(), indices, 32, -1, False) is not NotImplemented
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_bias_of_distances() -> None:
    """As T5 has it: nothing of its gradient is added in memory."""
    near = (torch.arange(128)[None, :] - torch.arange(256)[:, None]).clamp(-8, 7) + 8
    weight = draw(16, 4).requires_grad_()
    scores = draw(4, 256, 128)

    def attention(w: Any) -> Any:
        return (scores + F.embedding(near, w).permute(2, 0, 1)).softmax(-1).square().sum()

    torch._dynamo.reset()
    backend = sv.make_backend({"runner": "reference"})
    (made,) = torch.autograd.grad(torch.compile(attention, backend=backend)(weight), weight)
    (wanted,) = torch.autograd.grad(attention(weight.double()), weight)
    torch.testing.assert_close(made.double(), wanted.double(), rtol=1e-4, atol=1e-5)


def test_inductor_is_asked_for_others() -> None:
    decomposed = table.decompositions()[torch.ops.aten.embedding_dense_backward.default]
    grad, indices = draw(8, 8, 4), torch.randint(0, 1000, (8, 8))
    torch.testing.assert_close(decomposed(grad, indices, 1000, -1, False), plain(grad, indices, 1000, -1))
