"""The elementwise ends of a matrix product as statements of the kernel IR: what is computed of A before it,
or of C behind it.

Their registers have names of their own: what is made of shared memory in one is nothing to the other."""

from __future__ import annotations

from collections.abc import Mapping

from syncverify.fusion.functions import FUNCTIONS
from syncverify.fusion.graph import Fusion, Output
from syncverify.ir.expr import Call, Expr, Float, Int, Var
from syncverify.ir.nodes import Compute, GlobalRegion, LdGlobal, StGlobal, Stmt
from syncverify.matmul.problem import FACTOR_DIMS, PRODUCT, SECOND

#: Where values are computed, by dimension: what an epilogue's ``index`` gives.
Places = Mapping[str, Expr]


def places(row: Expr, column: Expr, vector: int) -> Places:
    """Of ``vector`` neighbours of a row of C."""
    return {"M": row, "N": Call("iota", (Int(vector), Int(1), Int(vector))) + column}


def register(name: str) -> str:
    """The value register that holds a thread's elements of an input."""
    return f"{name}_v"


def loads(f: Fusion, row: Expr, column: Expr, vector: int) -> list[Stmt]:
    """Reads the epilogue's inputs at a place of C."""
    result: list[Stmt] = []
    for name, tensor in f.inputs:
        if name in (PRODUCT, SECOND):
            continue
        count = Int(vector if "N" in tensor.dims else 1)
        result.append(LdGlobal(register(name), GlobalRegion(name, _at(tensor.dims, row, column), count)))
    return result


def arithmetic(f: Fusion, at: Places | None = None) -> list[Stmt]:
    """Computes every value that is stored or used twice."""
    named = [i for i in f.order() if _is_named(f, i)]
    return [Compute(_value(f, i), _expression(f, i, at or {}, True)) for i in named]


def _value(f: Fusion, i: int) -> str:
    """A node's register."""
    return f"ta{i}" if f.dims == FACTOR_DIMS else f"t{i}"


def results(f: Fusion, at: Places | None = None) -> list[tuple[Output, Expr]]:
    """The outputs, each with the value that is stored."""
    return [(o, _expression(f, _stored(f, o), at or {})) for o in f.outputs]


def stores(f: Fusion, row: Expr, column: Expr, vector: int, at: Expr) -> list[Stmt]:
    """Writes the results of a place of C to the elements ``at`` in memory."""
    return [
        StGlobal(GlobalRegion(o.name, at, Int(vector)), value)
        for o, value in results(f, places(row, column, vector))
    ]


def _at(dims: tuple[str, ...], row: Expr, column: Expr) -> Expr:
    match dims:
        case ("M", "N"):
            return row * Var("N") + column
        case ("N",):
            return column
        case ("M",):
            return row
    return Int(0)


def _stored(f: Fusion, output: Output) -> int:
    """The node that is stored: a final cast to the output's type is what the store does anyway."""
    node = f.node(output.node)
    return node.args[0] if node.op == f"cast.{output.dtype}" else output.node


def _is_named(f: Fusion, i: int) -> bool:
    stored = {_stored(f, o) for o in f.outputs}
    dropped = {o.node for o in f.outputs} - stored
    users = [u for u in f.graph.successors(i) if u not in dropped]
    if f.node(i).op in ("input", "const", "integer", "size") or i in dropped:
        return False
    return i in stored or len(users) > 1


def _expression(f: Fusion, i: int, at: Places, top: bool = False) -> Expr:
    node = f.node(i)
    if node.op == "input":
        return Var(register(node.name))
    if node.op == "const":
        return Float(node.value)
    if _is_named(f, i) and not top:
        return Var(_value(f, i))
    if node.op == "integer":
        return Int(int(node.value))
    if node.op == "size":
        return Var(node.dim)
    if node.op == "index":
        return at[node.dim]
    return FUNCTIONS[node.op].express(*(_expression(f, a, at) for a in node.args))


__all__ = ["arithmetic", "loads", "places", "register", "results", "stores"]
