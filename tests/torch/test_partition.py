"""Searches for groups that start again: what was found before is asked for, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from syncverify.torch import partition, translate  # noqa: E402
from syncverify.torch.dims import UnfitError  # noqa: E402
from syncverify.torch.partition import _Grown  # noqa: E402
from syncverify.torch.region import Group  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402
from tests.torch.test_context import graph_of, norm  # noqa: E402


def network(x: Any, w: Any, y: Any) -> Any:
    """A sum of a widened tensor, a product whose result enters a norm, and what no kernel holds."""
    wide = torch.cumsum(x, 0).float()
    hidden = norm(torch.nn.functional.gelu(x @ y), w)
    return wide.sum(-1), wide * 2, hidden.cumsum(0) + hidden, norm(hidden, w)


def told(graph: Any) -> Any:
    found = partition.partition(graph, products=True)
    groups = [(tuple(f.group.nodes), tuple(f.group.leaves), f.translation.extents) for f in found.found]
    return groups, dict(found.left)


def test_searches_that_start_again_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    bf16 = torch.bfloat16
    graph = graph_of(network, draw(64, 64).to(bf16), draw(64).to(bf16), draw(64, 64).to(bf16)).graph
    asked: list[Any] = []

    def counted(group: Any) -> Any:
        asked.append(group)
        return translate.translate(group)

    monkeypatch.setattr(partition, "translate", counted)
    kept = told(graph)
    once = len(asked)
    assert len(kept[0]) > 1 and len({id(g) for g in asked}) == once

    class Forgetful(_Grown):
        def with_node(self, group: Any, node: Any) -> Any:
            found = group.copy()
            found.add(node)
            return found

        def of(self, nodes: Any) -> Any:
            return Group.of(nodes)

        def translated(self, group: Any) -> Any:
            return _Grown().translated(group)

    monkeypatch.setattr(partition, "_Grown", Forgetful)
    assert told(graph) == kept and len(asked) - once > once


def test_what_does_not_fit_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sums along different dimensions are no kernel, nor with any node behind them."""
    graph = graph_of(lambda x: x.sum(1) + x.sum(0) * 2 - 3, draw(8, 8)).graph
    nodes = [n for n in graph.nodes if n.op == "call_function"]
    added: list[Any] = []
    plain = Group.add

    def counted(group: Any, node: Any) -> None:
        added.append(node)
        plain(group, node)

    monkeypatch.setattr(Group, "add", counted)
    grown = _Grown()
    for end in range(2, len(nodes) + 1):
        with pytest.raises(UnfitError):
            grown.of(nodes[:end])
    assert added == nodes[:2]
    one = grown.of(nodes[:1])
    assert grown.of(nodes[:1]) is one and list(one.nodes) == nodes[:1]
