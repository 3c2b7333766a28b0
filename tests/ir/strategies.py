"""Random kernels over every node type, from the type hints of the nodes: good as text, not as programs."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from syncverify.ir import nodes
from syncverify.ir.expr import BINARY_OPS, BUILTINS, VALUE_CALLS, Binary, Call, Expr, Float, Int, Unary, Var

NAMES = st.sampled_from(
    ["x", "y", "i", "n0", "count", "step", "rows", "tile", "full", "_a", "multicast", "exit", "in"]
)
FRAGMENTS = ["acc", "frag1"]
READABLE = st.one_of(NAMES, st.sampled_from(sorted(BUILTINS)))

leaves = st.one_of(
    st.integers(-(2**40), 2**40).map(Int),
    st.floats().map(Float),
    READABLE.map(Var),
)


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    calls = [*VALUE_CALLS, "cdiv"]
    return st.one_of(
        st.builds(Unary, st.sampled_from(["-", "not", "~"]), inner),
        st.builds(Binary, st.sampled_from(BINARY_OPS), inner, inner),
        st.builds(Call, st.sampled_from(calls), st.lists(inner, min_size=1, max_size=3).map(tuple)),
    )


exprs: st.SearchStrategy[Expr] = st.recursive(leaves, _grow, max_leaves=6)


@st.composite
def regions(draw: Callable[..., Any]) -> nodes.Region:
    index = tuple(draw(st.lists(exprs, max_size=2)))
    start = count = rows = pitch = None
    if draw(st.booleans()):
        start, count = draw(exprs), draw(exprs)
        if draw(st.booleans()):
            rows, pitch = draw(exprs), draw(exprs)
    return nodes.Region(draw(NAMES), index, start, count, rows, pitch, draw(st.none() | exprs))


BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    Expr: exprs,
    str: NAMES,
    bool: st.booleans(),
    int: st.integers(1, 10**6),
    type(None): st.none(),
    nodes.Region: regions(),
    nodes.BarrierRef: st.builds(nodes.BarrierRef, NAMES, st.none() | exprs, st.none() | exprs),
    nodes.GlobalRegion: st.builds(nodes.GlobalRegion, NAMES, exprs, st.one_of(st.just(Int(1)), exprs)),
}


def of_hint(hint: Any) -> st.SearchStrategy[Any]:
    """A strategy for values of a field's type."""
    if hint in BY_TYPE:
        return BY_TYPE[hint]
    origin = get_origin(hint)
    if origin is Literal:
        return st.sampled_from(get_args(hint))
    if origin in (Union, types.UnionType):
        return st.one_of([of_hint(a) for a in get_args(hint)])
    if origin is tuple and get_args(hint)[0] is nodes.Stmt:
        return st.deferred(lambda: st.lists(statements, max_size=2).map(tuple))
    if origin is tuple:
        return st.lists(of_hint(get_args(hint)[0]), min_size=1, max_size=3).map(tuple)
    raise TypeError(f"no strategy for {hint}")


def _fits(s: nodes.Stmt) -> bool:
    """Whether the combination of fields exists: the rest is for the verifier to reject."""
    match s:
        case nodes.Multimem("ld_reduce"):
            return s.name is not None and s.value is None
        case nodes.Multimem("st"):
            return s.name is None and s.value is not None and s.op == "add"
        case nodes.Multimem():
            return s.name is None and s.value is not None
        case nodes.Fence():
            return not s.sync_restrict or (s.sem in ("acquire", "release") and s.scope == "cluster")
    return True


def of_node(node: type[nodes.Stmt]) -> st.SearchStrategy[nodes.Stmt]:
    hints = typing.get_type_hints(node)
    table = {f.name: of_hint(hints[f.name]) for f in fields(node) if f.name != "span"}
    if node is nodes.Wgmma:
        table["a"] = st.one_of(regions(), st.sampled_from(FRAGMENTS))
    if node in (nodes.LdMatrix, nodes.FragRead):
        table["name"] = NAMES
    return st.builds(node, **table).filter(_fits)


# a slotted dataclass leaves its slotless twin among the subclasses
STATEMENTS: list[type[nodes.Stmt]] = [
    n for n in nodes.Stmt.__subclasses__() if getattr(nodes, n.__name__) is n
]
statements: st.SearchStrategy[nodes.Stmt] = st.deferred(lambda: st.one_of([of_node(n) for n in STATEMENTS]))

_swizzles = st.sampled_from(["none", "32B", "64B", "128B"])
_dtypes = st.sampled_from(sorted(nodes.DTYPE_BYTES))
_shapes = st.lists(exprs, min_size=1, max_size=3).map(tuple)
_modes = st.sampled_from(["in", "out", "inout"])
_numbers = st.lists(st.integers(-5, 1000), min_size=1, max_size=3).map(tuple)


@st.composite
def kernels(draw: Callable[..., Any], body: st.SearchStrategy[Any] | None = None) -> nodes.Kernel:
    """A kernel with random declarations, all of different names."""
    counter = iter(range(100))

    def named(build: Callable[..., st.SearchStrategy[Any]]) -> tuple[Any, ...]:
        return tuple(draw(build(st.just(f"d{next(counter)}"))) for _ in range(draw(st.integers(0, 2))))

    size = st.integers(1, 99)
    launch = nodes.Launch(
        draw(st.tuples(exprs, exprs, exprs)), draw(st.tuples(size, size, size)),
        draw(st.tuples(size, size, size)),
        draw(st.none() | size), draw(st.booleans()),
    )  # fmt: skip
    return nodes.Kernel(
        draw(NAMES),
        launch,
        named(lambda n: st.builds(nodes.Param, n, st.sampled_from(["i32", "i64", "u32", "u64"]),
                                  st.none() | st.integers(-(2**31), 2**31))),
        named(lambda n: st.builds(nodes.Tensor, n, _dtypes, _shapes, _modes)),
        named(lambda n: st.builds(nodes.TensorMap, n, NAMES, _numbers, _swizzles)),
        named(lambda n: st.builds(nodes.Shared, n, _dtypes, _shapes, size, st.none() | exprs, _swizzles)),
        named(lambda n: st.builds(nodes.Barrier, n, exprs, st.none() | exprs)),
        tuple(nodes.Fragment(n, "f32", draw(_numbers)) for n in FRAGMENTS),
        tuple(draw(st.lists(exprs, max_size=2))),
        tuple(draw(st.lists(statements, max_size=4) if body is None else body)),
        draw(st.sampled_from(["sm_90", "sm_90a"])),
    )  # fmt: skip
