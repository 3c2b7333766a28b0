"""A thread's elements: the registers that hold them, and what is computed of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import networkx as nx

from syncverify.base.source import InputError
from syncverify.fusion import row_strides
from syncverify.fusion.functions import FUNCTIONS
from syncverify.fusion.graph import Fusion, Output
from syncverify.ir.expr import Call, Expr, Float, Int, Var
from syncverify.ir.nodes import Compute, GlobalRegion, LdGlobal, Stmt

#: Whether a thread's elements stand in the lower half of their row: an integer register.
LOW = "low_"


def register(tensor: str, partner: bool = False) -> str:
    """The value register of an input's elements, or of those half a row apart."""
    return f"{tensor}_w" if partner else f"{tensor}_v"


def broadcast_loads(fusion: Fusion, index: Expr, vector: int, partner: bool = False) -> list[Stmt]:
    """Loads of the operands that lack a dimension; ``index`` is the flat element of the full shape."""
    result: list[Stmt] = []
    wanted = partners(fusion) if partner else fusion.broadcast
    for name, tensor in fusion.inputs:
        if name not in fusion.broadcast or name not in wanted:
            continue
        along_rows = bool(tensor.dims) and tensor.dims[-1] == fusion.dims[-1]
        region = GlobalRegion(name, element_of(fusion, name, index), Int(vector) if along_rows else Int(1))
        result.append(LdGlobal(register(name, partner), region))
    return result


def element_of(fusion: Fusion, name: str, index: Expr) -> Expr:
    """The element of an input, or of an output, for the flat element ``index`` of the full shape."""
    apart = row_strides.tensors(fusion)
    if name in apart:
        return row_strides.element(fusion.dims, name, apart[name], index)
    inputs = dict(fusion.inputs)
    return broadcast_index(fusion.dims, inputs[name].dims, index) if name in inputs else index


def broadcast_index(dims: tuple[str, ...], own: tuple[str, ...], index: Expr) -> Expr:
    """The flat element of an operand with dimensions ``own`` for the flat element ``index`` of ``dims``."""
    result: Expr = Int(0)
    run_end = len(dims)
    stride: list[Expr] = []
    terms: list[Expr] = []
    while run_end > 0:
        if dims[run_end - 1] not in own:
            run_end -= 1
            continue
        start = run_end
        while start > 0 and dims[start - 1] in own:
            start -= 1
        coordinate = index
        if run_end < len(dims):
            coordinate = coordinate // _product([Var(d) for d in dims[run_end:]])
        run = [Var(d) for d in dims[start:run_end]]
        if start > 0:
            coordinate = coordinate % _product(run)
        terms.append(coordinate * _product(stride) if stride else coordinate)
        stride = [*run, *stride]
        run_end = start
    for term in terms:
        result = term if result == Int(0) else result + term
    return result


def random_numbers(fusion: Fusion, index: Expr, vector: int) -> list[Stmt]:
    """Random numbers for a thread's elements."""
    result: list[Stmt] = []
    for i in live(fusion):
        if fusion.node(i).op == "random":
            key = [fusion.node(a) for a in fusion.node(i).args]
            seed, offset = (Var(register(n.name)) if n.name else Int(int(n.value)) for n in key)
            numbers = Call("philox", (seed, offset, index, Int(vector), Int(1), Int(vector)))
            result.append(Compute(f"t{i}", numbers))
    return result


def arithmetic(fusion: Fusion) -> list[Stmt]:
    """Computes every shared or final node that is not an input."""
    named = (i for i in live(fusion) if is_named(fusion, i) and fusion.node(i).op != "random")
    return [Compute(f"t{i}", expression(fusion, i, top=True)) for i in named]


def stored_node(fusion: Fusion, output: Output) -> int:
    """The node whose value is stored: a final cast to the output's own type is what the store does anyway."""
    node = fusion.node(output.node)
    return node.args[0] if node.op == f"cast.{output.dtype}" else output.node


def result_of(fusion: Fusion, output: Output) -> Expr:
    return expression(fusion, stored_node(fusion, output))


def live(fusion: Fusion) -> list[int]:
    """The nodes that results depend on, arguments before users."""
    needed = fusion.needed(stored_node(fusion, o) for o in fusion.outputs)
    return [i for i in fusion.order() if i in needed]


def is_named(fusion: Fusion, i: int) -> bool:
    """Whether a node has a register of its own."""
    op = fusion.node(i).op
    if op in ("input", "const", "integer"):
        return False
    if op == "random":
        return True
    used = set(live(fusion))
    users = [u for u in fusion.graph.successors(i) if u in used]
    return len(users) > 1 or any(stored_node(fusion, o) == i for o in fusion.outputs)


def expression(fusion: Fusion, i: int, top: bool = False, partner: bool = False) -> Expr:
    """A node; ``top``: its own computation, not its register; ``partner``: of elements half a row apart."""
    node = fusion.node(i)
    if node.op == "input":
        along = fusion.dims[-1] in fusion.dims_of(i)
        return Var(register(node.name, partner and along))
    if node.op == "const":
        return Float(node.value)
    if node.op == "integer":
        return Int(int(node.value))
    if partner and node.op == "random":
        raise InputError(f"{fusion.name}: rotate(..., 'halves') of random numbers: rotate first, then drop")
    if is_named(fusion, i) and not top and not partner:
        return Var(f"t{i}")
    if node.op == "rotate.halves":
        other = expression(fusion, node.args[0], partner=True)
        return Call("select", (Var(LOW), -other, other))
    args = [expression(fusion, a, partner=partner) for a in node.args]
    return Call("pairs", (args[0],)) if node.op == "rotate.pairs" else FUNCTIONS[node.op].express(*args)


def partners(fusion: Fusion) -> tuple[str, ...]:
    """The inputs that are also read half a row apart."""
    turned = {a for i in live(fusion) if fusion.node(i).op == "rotate.halves" for a in fusion.node(i).args}
    needed = turned.union(*(nx.ancestors(fusion.graph, a) for a in turned))
    names = {fusion.node(i).name for i in needed if fusion.node(i).op == "input"}
    return tuple(n for n, t in fusion.inputs if n in names and fusion.dims[-1] in t.dims)


def _product(factors: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: a * b, factors) if factors else Int(1)


__all__ = [
    "LOW", "arithmetic", "broadcast_index", "broadcast_loads", "element_of", "expression", "is_named", "live",
    "partners", "random_numbers", "register", "result_of", "stored_node",
]  # fmt: skip
