"""Grouping of blocks and of lanes against brute force: random guards, parities and counters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var
from syncverify.model.events import Ev
from tests.frontends.ir.helpers import run, streams

BLOCKS = 12
LEAVES = ["block", "block", "block.x", "block.y", "tid", "lane", "i", "k", "grid", "warp"]


def expressions() -> st.SearchStrategy[Expr]:
    leaves = st.one_of(st.integers(-9, 40).map(Int), st.sampled_from(LEAVES).map(Var))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        ops = st.sampled_from("+ + - * // % < <= >= > == != and or".split())
        simple, calls = st.sampled_from("* // % + <".split()), st.sampled_from("min max cdiv".split())
        small = st.integers(1, 9).map(Int)
        return st.one_of(
            st.builds(Binary, ops, inner, inner),
            st.builds(Binary, simple, inner, small),
            st.builds(Unary, st.sampled_from(["-", "not"]), inner),
            st.builds(lambda name, *args: Call(name, args), calls, inner, inner),
            st.builds(lambda *args: Call("select", args), inner, inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=7)


def kernel(guard: Expr, start: Expr, step: Expr, parity: Expr) -> n.Kernel:
    bar = n.BarrierRef("b", Binary("%", Var("k"), Int(3)))
    inner = (
        n.If(guard, (n.BulkCommit(),), (n.FenceMbarrierInit(),)),
        n.MbarrierWait(bar, Binary("%", parity, Int(2))),
        n.Assign("k", Binary("+", Var("k"), step)),
    )
    body = (n.Let("k", start), n.For("i", Int(0), Int(3), Int(1), inner))
    launch = n.Launch(grid=(Int(6), Int(2), Int(1)), block=(40, 1, 1))
    return n.Kernel("k", launch, barriers=(n.Barrier("b", Int(3)),), body=body)


def block_expressions() -> st.SearchStrategy[Expr]:
    """Expressions that may stand before the loop."""
    return st.sampled_from(
        [
            Int(0),
            Var("block"),
            Binary("*", Var("block.x"), Int(5)),
            Binary("%", Var("block"), Int(4)),
            Var("tid"),
        ]
    )


@settings(max_examples=60, deadline=None)
@given(expressions(), block_expressions(), st.sampled_from([Int(1), Int(-2), Var("grid"), Var("block")]),
       expressions())  # fmt: skip
def test_every_block_is_represented(guard: Expr, start: Expr, step: Expr, parity: Expr) -> None:
    k = kernel(guard, start, step, parity)
    found = [s for s in systems(k, {}) if isinstance(s, IrSystem)]
    seen = [streams(s) for s in found]
    for c in range(BLOCKS):
        one = IrSystem.fresh(found[0].program, found[0].grid, {}, c, found[0].elected, "")
        assert streams(one) in seen, c


@settings(max_examples=60, deadline=None)
@given(
    expressions(), block_expressions(), st.sampled_from([Int(1), Var("lane"), Var("block")]), expressions()
)
def test_every_lane_does_what_its_class_does(guard: Expr, start: Expr, step: Expr, parity: Expr) -> None:
    k = kernel(guard, start, step, parity)
    system = next(s for s in systems(k, {}) if isinstance(s, IrSystem))
    for agent in system.agents():
        c = system.info.classes[agent.cls]
        events = run(agent)
        for lane in (i for i in range(32) if c.lanes >> i & 1):
            alone = run(system._agent(0, replace(c, lanes=1 << lane)))
            if events[-1][0] == alone[-1][0] == Ev.UNKNOWN:
                assert events[:-1] == alone[: len(events) - 1]  # a class stops where its first lane stops
            else:
                assert events[-1][0] == Ev.UNKNOWN or events == alone
