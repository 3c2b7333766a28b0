"""What is timed with a region: the nodes that Inductor might fuse with it, and none that it cannot."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402
from torch._inductor.decomposition import select_decomp_table  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from syncverify.torch.context import Context, alone, contexts  # noqa: E402
from syncverify.torch.partition import partition  # noqa: E402
from syncverify.torch.region import outputs_of  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402

BF16 = torch.bfloat16


def graph_of(function: Any, *inputs: Any) -> Any:
    table = {**select_decomp_table()}
    return make_fx(function, decomposition_table=table, tracing_mode="fake")(*inputs)


def found(function: Any, *inputs: Any) -> tuple[Any, list[Any], list[Context]]:
    module = graph_of(function, *inputs)
    groups = [f.group for f in partition(module.graph).found]
    return module, groups, contexts(module.graph, groups)


def names(nodes: Any) -> list[str]:
    return [n.target._schema.name.split("::")[1] for n in nodes if n.op == "call_function"]


def norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def test_neighbours_that_no_kernel_holds_are_in_the_context() -> None:
    function = lambda x, w: torch.cat([norm(x, w), x], -1).neg()  # noqa: E731
    _, groups, (context,) = found(function, draw(6, 32), draw(32))
    assert {"cat", "neg"} <= set(names(context.nodes)) and set(groups[0].nodes) <= set(context.nodes)


def test_what_a_library_computes_ends_a_context() -> None:
    def function(x: Any, w: Any) -> Any:
        return norm(norm(x, w).cumsum(0) + 1, w)

    _, _, (first, second) = found(function, draw(6, 32), draw(32))
    assert "cumsum" not in names([*first.nodes, *second.nodes])
    assert "add" in names(second.nodes) and not set(first.nodes) & set(second.nodes)


def test_nothing_outside_lies_between_nodes_of_a_context() -> None:
    """A residual stream: the second sum reads the first, but a product of what follows it as well."""

    def function(x: Any, y: Any, w: Any) -> Any:
        x = x + y
        x = x + torch.cumsum(norm(x, w), 0)
        return norm(x, w)

    module, _, made = found(function, draw(6, 32), draw(6, 32), draw(32))
    assert len(made) == 2
    order = list(module.graph.nodes)
    for context in made:
        inside = set(context.nodes)
        for node in order[order.index(context.nodes[0]) :]:
            if node not in inside and any(u in inside for u in node.users):
                pending = list(node.all_input_nodes)
                while pending:
                    one = pending.pop()
                    assert one not in inside
                    pending += one.all_input_nodes


def test_a_context_alone_computes_the_same() -> None:
    function = lambda x, w: torch.cat([norm(x, w), x], -1).neg()  # noqa: E731
    given = draw(6, 32), draw(32)
    module, _, (context,) = found(function, *given)
    nodes, copies = alone(module, context.nodes, context.arguments, context.outputs)
    inputs = dict(zip([n.name for n in module.graph.nodes if n.op == "placeholder"], given, strict=True))
    (got,) = nodes(*(inputs[a.name] for a in context.arguments))
    torch.testing.assert_close(got, function(*given))
    assert set(copies) >= set(context.nodes)


# ---------------------------------------------------------------- where a product's kernel ends


def test_a_product_leaves_to_a_norm_what_the_norm_makes_itself() -> None:
    """With the first steps of the gradient of a norm a product would write three tensors instead of one."""

    def function(a: Any, b: Any, x: Any, w: Any) -> Any:
        return torch.autograd.grad(norm(x, w), x, a @ b)[0]

    a, b = draw(64, 16, dtype=BF16), draw(16, 64, dtype=BF16)
    x, w = draw(64, 64, dtype=BF16).requires_grad_(), draw(64, dtype=BF16)
    _, groups, _ = found(function, a, b, x, w)
    assert not any(g.products for g in groups)
    assert any(g.reduced for g in groups)


def test_a_product_keeps_what_only_another_product_reads() -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        before = a @ b
        return before, F.gelu(before, approximate="tanh") @ c

    a, b, c = (draw(32, 32, dtype=BF16, seed=k) for k in range(3))
    _, groups, _ = found(function, a, b, c)
    (product,) = [g for g in groups if g.products]
    assert len(product.operations) > 5 and len(outputs_of(product)) == 2


def test_readers_make_again_what_is_cheap() -> None:
    """A sum over rows of ``g * x`` reads g and x: the kernel along the columns writes no product for it."""

    def function(g: Any, x: Any) -> Any:
        wide = g.float() * x.float()
        return (wide * wide.sum(-1, keepdim=True)).to(BF16), wide.sum(0)

    g, x = draw(64, 48, dtype=BF16), draw(64, 48, dtype=BF16, seed=1)
    _, groups, _ = found(function, g, x)
    (rows,) = [group for group in groups if group.reduced]
    assert [n.meta["val"].dtype for n in outputs_of(rows)] == [BF16]
