"""What a fusion that reduces along one dimension computes when; its values as expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from syncverify.base.source import InputError
from syncverify.fusion import row_strides
from syncverify.fusion.elements import broadcast_index, stored_node
from syncverify.fusion.functions import COMPARISONS, FUNCTIONS, REDUCTIONS
from syncverify.fusion.graph import Fusion, Node, Output
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Var
from syncverify.ir.nodes import Compute, GlobalRegion, LdGlobal, LdShared, Let, LoadIndex, Shuffle, Stmt
from syncverify.passes.rewrite import flat_map, replaced, walk


@dataclass(frozen=True)
class Dataflow:
    """The operations of a fusion, ordered by the reductions along ``along`` that come before them.

    ``together``: reductions that are made in one step although one of them uses the other: from node to the
    node whose step it shares (see ``online``).
    """

    fusion: Fusion
    along: str
    together: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def live(self) -> tuple[int, ...]:
        needed = self.fusion.needed(stored_node(self.fusion, o) for o in self.fusion.outputs)
        return tuple(i for i in self.fusion.order() if i in needed)

    def node(self, i: int) -> Node:
        return self.fusion.node(i)

    def wide(self, i: int) -> bool:
        """Whether a node differs along the dimension."""
        return self.along in self.fusion.dims_of(i)

    @cached_property
    def depth(self) -> dict[int, int]:
        """How many steps of reductions, one after the other, come before a node."""
        depth: dict[int, int] = {}
        for i in self.live:
            node = self.node(i)
            before = max((depth[a] for a in node.args), default=0)
            if i in self.together:
                depth[i] = depth[self.together[i]]
            else:
                depth[i] = before + 1 if node.op in REDUCTIONS else before
        # random numbers are made where they are first needed, not kept until then
        for i in reversed(self.live):
            if i in self._drawn:
                users = [depth[u] for u in self.fusion.graph.successors(i) if u in depth]
                depth[i] = min(users, default=depth[i])
        return depth

    @cached_property
    def _drawn(self) -> frozenset[int]:
        """Nodes that are made of random numbers and constants alone."""
        found: set[int] = set()
        for i in self.live:
            node = self.node(i)
            wide = [a for a in node.args if self.node(a).op not in ("const", "integer")]
            if node.op == "random" or (node.op in FUNCTIONS and wide and found.issuperset(wide)):
                found.add(i)
        return frozenset(found)

    @property
    def steps(self) -> int:
        """How often elements are gone through."""
        return max(self.depth.values(), default=0) + 1

    @cached_property
    def named(self) -> frozenset[int]:
        """Nodes with registers of their own: used twice, or a row's number that its elements use."""
        live = set(self.live)
        stored = [stored_node(self.fusion, o) for o in self.fusion.outputs]
        found: set[int] = set()
        for i in self.live:
            node = self.node(i)
            users = [u for u in self.fusion.graph.successors(i) if u in live]
            if node.op in ("input", "const", "integer", "size", "index", *COMPARISONS):
                continue
            number = not self.wide(i) and any(self.wide(u) for u in users)
            if node.op in ("take", "random", *REDUCTIONS) or number or len(users) + stored.count(i) > 1:
                found.add(i)
        return frozenset(found)

    @cached_property
    def reductions(self) -> dict[int, list[int]]:
        """For every step, the reductions that end it."""
        steps: dict[int, list[int]] = {}
        for i in self.live:
            if self.node(i).op in REDUCTIONS:
                steps.setdefault(self.depth[i] - 1, []).append(i)
        return steps

    def at(self, step: int) -> list[int]:
        """Nodes with registers of their own that are computed in a step."""
        return [i for i in self.live if self.depth[i] == step and i in self.named]

    def inputs_of(self, roots: list[int]) -> list[str]:
        """The inputs along the dimension that nodes read, directly or through nodes without registers."""
        found: set[str] = set()
        work, seen = list(roots), set[int]()
        while work:
            i = work.pop(0)
            if i in seen:
                continue
            seen.add(i)
            node = self.node(i)
            if node.op == "take":
                continue
            if node.op == "input" and self.wide(i):
                found.add(node.name)
            elif i in roots or i not in self.named:
                work += node.args
        return [n for n, _ in self.fusion.inputs if n in found]

    @cached_property
    def taken(self) -> list[int]:
        """Elements of rows that an index names."""
        return [i for i in self.live if self.node(i).op == "take"]

    @cached_property
    def places(self) -> list[str]:
        """The inputs that hold those indices."""
        return sorted({self.node(self.node(i).args[1]).name for i in self.taken})

    @cached_property
    def row_places(self) -> dict[str, Expr]:
        """The place of a row along every dimension but the innermost."""
        leading = self.fusion.dims[:-1]
        return {leading[0]: Var("row")} if len(leading) == 1 else {d: Var(f"{d}_row_") for d in leading}

    @cached_property
    def read(self) -> frozenset[str]:
        """Inputs that are used other than as a place to take from."""
        return frozenset(
            self.node(a).name for i in self.live if i not in self.taken for a in self.node(i).args
        ) | {self.node(stored_node(self.fusion, o)).name for o in self.fusion.outputs}


@dataclass(frozen=True)
class Part:
    """The elements that a thread handles together: how their registers are called, and where they stand.

    ``suffix``: what registers of the part have behind their names. ``iota + base``: the places of its
    elements along the dimension. ``size``: the extent of a dimension. ``others``: places along others.
    ``run``: the first element's place among all, and the elements of a run, runs, and how far apart they are.
    """

    flow: Dataflow
    suffix: str
    size: Callable[[str], Expr]
    iota: Expr | None = None
    base: Expr | None = None
    others: Mapping[str, Expr] = field(default_factory=dict)
    run: tuple[Expr, int, int, int] | None = None

    def expression(self, i: int, top: bool = False) -> Expr:
        """A node; ``top``: its own computation, not its register."""
        flow, node = self.flow, self.flow.node(i)
        wide = flow.wide(i)
        if node.op == "input":
            return Var(register(node.name, self.suffix if wide else ""))
        if node.op == "const":
            return Float(node.value)
        if node.op == "integer":
            return Int(int(node.value))
        if node.op == "size":
            return self.size(node.dim)
        if i in flow.named and (not top or node.op in REDUCTIONS):
            return Var(self.name(i))
        if node.op == "take":
            at = Var(place_register(flow.node(node.args[1]).name))
            inside = Call("select", (at < _integer(self.size(node.dim)), Var(f"x{i}"), Float(0.0)))
            return Call("select", (at >= 0, inside, Float(0.0)))
        if node.op == "index":
            return self._index(node.dim)
        if node.op == "random" and self.run is not None:
            first, *form = self.run
            key = [self.expression(a) for a in node.args]
            return Call("philox", (*key, first, *map(Int, form)))
        if node.op in COMPARISONS:
            found = self._compared_index(i)
            if found is not None:
                return found
        if node.op not in FUNCTIONS:
            raise InputError(f"{flow.fusion.name}: {node.op} is for fusions without reductions")
        return FUNCTIONS[node.op].express(*(self.expression(a) for a in node.args))

    def _index(self, dim: str) -> Expr:
        if dim in self.others:
            return self.others[dim]
        if dim != self.flow.along or self.iota is None or self.base is None:
            raise InputError(
                f"{self.flow.fusion.name}: index({dim!r}) beside a reduction along {self.flow.along}: it is "
                f"known along that dimension, and along those outside where these are few"
            )
        return self.iota + self.base

    def name(self, i: int) -> str:
        """A node's register."""
        return f"t{i}_{self.suffix}" if self.suffix and self.flow.wide(i) else f"t{i}"

    def _compared_index(self, i: int) -> Expr | None:
        """A comparison of the place in the row with a number of the row: constants against a difference."""
        node = self.flow.node(i)
        a, b = node.args
        indexed = self.flow.node(a) == Node("index", dim=self.flow.along)
        if self.iota is None or self.base is None or not indexed or self.flow.wide(b):
            return None
        return FUNCTIONS[node.op].express(self.iota, self.expression(b) - self.base)


def row_numbers(flow: Dataflow, row: Expr, width: Expr) -> Iterator[Stmt]:
    """Loads of what a row has one of: its operands, and elements that they name."""
    f = flow.fusion
    if len(f.dims) > 2:
        for d in sorted({flow.node(i).dim for i in flow.live if flow.node(i).op == "index"} - {f.dims[-1]}):
            yield Let(f"{d}_row_", broadcast_index(f.dims[:-1], (d,), row))
    for name, t in f.inputs:
        if t.dims and f.dims[-1] not in t.dims and name in flow.read:
            yield LdGlobal(register(name), GlobalRegion(name, number_at(f, name, t.dims, row)))
    for name in flow.places:
        at = number_at(f, name, dict(f.inputs)[name].dims, row)
        yield LoadIndex(place_register(name), GlobalRegion(name, at))
    for i in flow.taken:
        x, place = (flow.node(a).name for a in flow.node(i).args)
        at = Var(place_register(place))
        inside = Call("select", (Binary("and", at >= 0, at < width), at, Int(0)))
        start = row_start(f, x, row, width)
        yield LdGlobal(f"x{i}", GlobalRegion(x, inside if start is None else start + inside))


def number_at(fusion: Fusion, tensor: str, own: tuple[str, ...], row: Expr) -> Expr:
    """Where a tensor of dimensions ``own``, without the innermost, has what belongs to a row."""
    leading = fusion.dims[:-1]
    apart = tensor in row_strides.tensors(fusion)
    return row_strides.element(leading, tensor, own, row) if apart else broadcast_index(leading, own, row)


def row_start(fusion: Fusion, tensor: str, row: Expr, width: Expr) -> Expr | None:
    """The first element of what an input has for a row along it; None where that is the first of all."""
    leading = dict(fusion.inputs)[tensor].dims[:-1]
    if tensor in row_strides.tensors(fusion):
        return row_strides.place(fusion.dims[:-1], tensor, leading, row)
    return broadcast_index(fusion.dims[:-1], leading, row) * width if leading else None


def stored_from(fusion: Fusion, output: Output, row: Expr, width: Expr) -> Expr:
    """The first element of a row of an output."""
    apart = output.name in row_strides.tensors(fusion)
    return row_strides.place(fusion.dims[:-1], output.name, output.dims[:-1], row) if apart else row * width


def _integer(e: Expr) -> Expr:
    """An extent as an integer, where it is a number."""
    return Int(int(e.value)) if isinstance(e, Float) else e


def register(tensor: str, suffix: str = "") -> str:
    return f"{tensor}_v{suffix}"


def place_register(tensor: str) -> str:
    return f"{tensor}_at"


def renamed(body: tuple[Stmt, ...], suffix: str) -> tuple[Stmt, ...]:
    """Statements with value registers of their own: those set among them get a suffix."""
    made = {s.name: Var(f"{s.name}_{suffix}") for s in walk(body) if isinstance(s, _MAKERS)}

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        stmt = replaced(stmt, made)
        return (replace(stmt, name=made[stmt.name].name),) if isinstance(stmt, _MAKERS) else (stmt,)

    return tuple(x for s in body for x in change(s))


def abreast(bodies: Sequence[tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """Bodies that differ in numbers alone, statement by statement in turns: unroll and jam.

    What is the same for all stands once; what is not has names of its own in each body.
    """
    if len(bodies) == 1:
        return bodies[0]
    differ: set[str] = set()
    found: list[Stmt] = []
    for same in zip(*bodies, strict=True):
        made = {s.name for s in walk(same[:1]) if isinstance(s, _NAMING)}
        own = [{n: Var(f"{n}_{k}") for n in differ | made} for k in range(len(same))]
        other = replaced(same[0], {n: own[1][n] for n in differ})
        if made and not made & differ and all(s == other for s in same):
            found.append(same[0])
            continue
        differ |= made
        for stmt, names in zip(same, own, strict=True):
            found += _called((replaced(stmt, names),), names)
    return tuple(found)


def _called(body: tuple[Stmt, ...], names: Mapping[str, Var]) -> tuple[Stmt, ...]:
    """What sets some of the names sets the others instead."""
    return flat_map(body, lambda s: (replace(s, name=names[s.name].name) if isinstance(s, _NAMING) else s,))


#: Statements that set value registers.
_MAKERS = (LdGlobal, LdShared, Compute, Shuffle)
#: And those that name anything.
_NAMING = (*_MAKERS, Let, LoadIndex)

__all__ = [
    "Dataflow",
    "Part",
    "abreast",
    "number_at",
    "place_register",
    "register",
    "renamed",
    "row_numbers",
    "row_start",
    "stored_from",
]  # fmt: skip
