"""Padded tensors are shared: what products compute stays the same, and less is copied."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402
from functorch import make_fx  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from syncverify.torch.padding import padded_once  # noqa: E402
from tests.torch.compiled import compiled  # noqa: E402
from tests.torch.compiled import draw as numbers  # noqa: E402

aten = torch.ops.aten
BF16 = torch.bfloat16
ROWS, WORDS, WIDTH = 32, 61, 48


def gradients(g: Any, w: Any, x: Any) -> Any:
    """Of an input, with rows that were padded, and of a weight."""
    scaled = g * 0.5
    return F.pad(scaled, (0, 3)) @ F.pad(w, (0, 0, 0, 3)), scaled.t() @ x


def both_padded(g: Any, w: Any, x: Any) -> Any:
    scaled = g * 0.5
    return F.pad(scaled, (0, 3)) @ F.pad(w, (0, 0, 0, 3)), (F.pad(scaled.t(), (0, 0, 0, 3)) @ x)[:WORDS]


def turned_later(g: Any, w: Any, x: Any) -> Any:
    """The product of the weight's gradient comes first."""
    scaled = g * 0.5
    first = scaled.transpose(0, 1) @ x
    return F.pad(scaled, (0, 3)) @ F.pad(w, (0, 0, 0, 3)), first


def given(words: int = WORDS) -> tuple[Any, Any, Any]:
    """A gradient of logits, a weight, and what the weight was multiplied with."""
    shapes = ((ROWS, words), (words, WIDTH), (ROWS, WIDTH))
    return tuple(numbers(*s, dtype=BF16, seed=k) for k, s in enumerate(shapes))


def nodes_of(function: Any, *inputs: Any) -> tuple[int, list[Any]]:
    """How many nodes read another one's padded tensor, and the targets of the graph then."""
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(x) for x in inputs]
        module = make_fx(function)(*fakes)
    with mode:
        count = padded_once(module.graph)
    module.graph.lint()
    return count, [n.target for n in module.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("function", [gradients, both_padded, turned_later])
def test_one_padded_tensor_serves_both_products(function: Any) -> None:
    count, targets = nodes_of(function, *given())
    assert count == 1 and targets.count(aten.constant_pad_nd.default) == 2  # of the gradient, of the weight
    compiled(function, *given())


def test_the_product_of_the_longer_factor_is_the_kernel() -> None:
    sizes = [r.sizes for r in compiled(gradients, *given(), least=1).regions if r.kind == "product"]
    assert str(WORDS) not in str(sizes)


@pytest.mark.parametrize("function", [gradients, both_padded])
def test_rows_of_16_bytes_are_left_alone(function: Any) -> None:
    assert nodes_of(function, *given(words=64))[0] == 0


def test_other_paddings_are_left_alone() -> None:
    def shifted(g: Any, w: Any, x: Any) -> Any:
        return F.pad(g, (3, 0)) @ F.pad(w, (0, 0, 3, 0)), g.t() @ x

    def filled(g: Any, w: Any, x: Any) -> Any:
        return F.pad(g, (0, 3)) @ F.pad(w, (0, 0, 0, 3)), F.pad(g.t(), (0, 0, 0, 3), value=1.0) @ x

    def not_turned(g: Any, w: Any, x: Any) -> Any:
        return F.pad(g, (0, 3)) @ F.pad(w, (0, 0, 0, 3)), g @ w + x

    def returned(g: Any, w: Any, x: Any) -> Any:
        """What is returned lies in memory as torch has it."""
        padded = F.pad(g.t(), (0, 0, 0, 3))
        return F.pad(g, (0, 3)) @ F.pad(w, (0, 0, 0, 3)), padded @ x, padded

    for function in (shifted, filled, not_turned, returned):
        assert nodes_of(function, *given())[0] == 0
        compiled(function, *given())
