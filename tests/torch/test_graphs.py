"""The order of nodes once kernels are in the place of some."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch.fx import Graph  # noqa: E402

from syncverify.torch import ReferenceRunner  # noqa: E402
from syncverify.torch.backend import lower  # noqa: E402
from syncverify.torch.graphs import in_order, sort  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402
from tests.torch.test_context import graph_of  # noqa: E402

aten = torch.ops.aten


def drawing(x: Any) -> Any:
    """What is drawn first reads the first part of a kernel, and its last part reads what is drawn then."""
    rate = torch.relu(x) + 1
    first, second = torch.poisson(rate), torch.poisson(x.abs())
    return first, (rate + second) * 2


def test_draws_stay_in_order() -> None:
    x = draw(8, 16)
    lowered, report = lower(graph_of(drawing, x), ReferenceRunner())
    results = []
    for function in (drawing, lowered):
        torch.manual_seed(0)
        results.append(function(x))
    torch.testing.assert_close(results[1], results[0])
    assert report.regions


def collectives() -> tuple[Graph, list[Any]]:
    """Two sums over processes, of which the first waits for what comes behind the second."""
    if not hasattr(torch.ops._c10d_functional, "all_reduce"):
        pytest.skip("a torch without other processes")
    graph = Graph()
    x = graph.placeholder("x")
    total = torch.ops._c10d_functional.all_reduce.default
    first, second = (graph.call_function(total, (x, "sum", "0")) for _ in range(2))
    late = graph.call_function(aten.neg.default, (x,))
    first.replace_input_with(x, late)
    graph.output((first, second))
    return graph, [x, late, first, second]


def test_processes_meet_in_one_order() -> None:
    graph, wanted = collectives()
    assert list(map(in_order, wanted)) == [False, False, True, True]
    sort(graph)
    assert list(graph.nodes)[:-1] == wanted


def test_arguments_come_first() -> None:
    graph, (x, late, first, second) = collectives()
    late.replace_input_with(x, second)
    sort(graph)
    assert list(graph.nodes)[:-1] == [x, second, late, first]
