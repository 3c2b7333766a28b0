"""parse(print_kernel(k)) == (k,): for every node type, and for whole kernels."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncverify.ir import nodes
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel, print_stmt
from tests.ir.strategies import FRAGMENTS, STATEMENTS, kernels, of_node

QUIET = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def round_trip(kernel: nodes.Kernel) -> None:
    text = print_kernel(kernel)
    read = parse(text)
    assert read == (kernel,), text
    assert print_kernel(read[0]) == text


@pytest.mark.parametrize("node", STATEMENTS, ids=lambda n: n.__name__)
@QUIET
@given(data=st.data())
def test_every_statement(node: type[nodes.Stmt], data: st.DataObject) -> None:
    stmt = data.draw(of_node(node))
    fragments = tuple(nodes.Fragment(n, "f32", (64, 8)) for n in FRAGMENTS)
    round_trip(nodes.Kernel("k", fragments=fragments, body=(stmt,)))
    assert "\n" not in print_stmt(stmt)


@settings(QUIET, max_examples=60)
@given(kernels())
def test_whole_kernels(kernel: nodes.Kernel) -> None:
    round_trip(kernel)


def test_there_are_strategies_for_all_nodes() -> None:
    assert len(STATEMENTS) == len(set(STATEMENTS)) > 55
