"""Operators of torch that regions become."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from syncverify.torch import ReferenceRunner, operators  # noqa: E402
from syncverify.torch.backend import lower  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402
from tests.torch.test_context import graph_of  # noqa: E402


def test_threads_that_make_one_operator_share_it() -> None:
    """A backward pass is compiled when it first runs, in a thread of its own."""
    runner = ReferenceRunner()
    lowered, _ = lower(graph_of(lambda x: x.relu() + 1, draw(6, 72)), runner)
    (op,) = (n.target for n in lowered.graph.nodes if getattr(n.target, "namespace", "") == "syncverify")
    fused = operators.fused_of(op._schema.name.split("::")[1])
    kinds = ["Tensor"] * len(op._schema.arguments)
    name = f"made_by_threads_{id(runner)}"

    def made(_: int) -> Any:
        return operators.make(name, fused, kinds, runner)

    with ThreadPoolExecutor(4) as threads:
        assert len({id(one) for one in threads.map(made, range(8))}) == 1


def test_nodes_have_every_cast_that_there_was() -> None:
    """Where there is no kernel, a caller's autocast does not round what nodes compute."""
    halves = [draw(16, 16).half() for _ in range(2)]
    lowered, _ = lower(graph_of(lambda x, y: (x @ y).relu() + 1, *halves), ReferenceRunner())
    (op,) = (n.target for n in lowered.graph.nodes if getattr(n.target, "namespace", "") == "syncverify")
    nodes = operators.fused_of(op._schema.name.split("::")[1]).nodes
    wanted = nodes(*halves)
    with torch.autocast("cpu", torch.bfloat16):
        got = nodes(*halves)
    assert torch.equal(got[0], wanted[0])
