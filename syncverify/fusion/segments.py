"""A fusion that no single kernel can hold, cut into several that run one after the other.

A kernel reduces along one dimension of one shape. Where results of a reduction are needed outside of the
kernel that makes them they are stored, as f32; everything else is computed again where it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import networkx as nx

from syncverify.base.source import InputError
from syncverify.fusion import online
from syncverify.fusion.functions import REDUCTIONS
from syncverify.fusion.graph import ROTATIONS, Fusion, Node, Output, Tensor
from syncverify.fusion.reshape import Merged, merged
from syncverify.fusion.transposable import obstacle

Kind = Literal["tiles", "rows", "columns"]


@dataclass(frozen=True)
class Segment:
    """One fusion that one kernel holds (two, where strips of rows are reduced), and how it runs."""

    kind: Kind
    merged: Merged

    @property
    def fusion(self) -> Fusion:
        return self.merged.fusion


def whole(fusion: Fusion) -> bool:
    """Whether one kernel holds the fusion as it is."""
    dims = fusion.dims
    if not fusion.along:
        full = all(set(o.dims) == set(dims) for o in fusion.outputs)
        return full and not (fusion.transposed and obstacle(fusion))
    return (
        fusion.along == {dims[-1]}
        and fusion.ops().isdisjoint(ROTATIONS)
        and all(o.dims in (dims, dims[:-1]) for o in fusion.outputs)
        and all(dims[-1] in fusion.dims_of(fusion.node(i).args[0]) for i in _reductions(fusion))
    )


def cut(fusion: Fusion) -> tuple[Segment, ...]:
    """The kernels that make the fusion's outputs, in order."""
    first = merged(fusion)
    found = _Cut(first.fusion).run()
    return tuple(
        replace(s, merged=Merged(s.fusion, (*first.pairs, *s.merged.pairs))) for s in found
    )  # fmt: skip


class _PartError(InputError):
    """A reduction along an outer dimension, beside what has some of the dimensions inside of it."""


@dataclass
class _Cut:
    """What is still to be made (``pending``), and what has been stored (``stored``: node to name)."""

    fusion: Fusion
    pending: list[Output] = field(default_factory=list)
    stored: dict[int, str] = field(default_factory=dict)
    found: list[Segment] = field(default_factory=list)

    def run(self) -> list[Segment]:
        self.pending = list(self.fusion.outputs)
        while self.pending:
            live = self._needed(o.node for o in self.pending)
            groups = self._groups(live)
            if not groups:
                self._elementwise()
                continue
            key = max(groups, key=lambda k: (len(groups[k]), k[0] == "rows", -min(groups[k])))
            self._reduce(key, groups[key])
        return self.found

    def _needed(self, roots: Iterable[int]) -> set[int]:
        """Nodes that are computed for some, down to what is stored."""
        found: set[int] = set()
        work = list(roots)
        while work:
            i = work.pop()
            if i not in found:
                found.add(i)
                work += () if i in self.stored else self.fusion.node(i).args
        return found

    def _open(self, i: int) -> set[int]:
        """The reductions that a node needs and that are not stored, itself included."""
        return {j for j in self._needed([i]) if _reduces(self.fusion.node(j)) and j not in self.stored}

    def _groups(self, live: set[int]) -> dict[tuple[Kind, tuple[str, ...], str], list[int]]:
        """Reductions that one kernel can make next, by its shape and the dimension that it reduces."""
        f = self.fusion
        groups: dict[tuple[Kind, tuple[str, ...], str], list[int]] = {}
        open_ = [i for i in f.order() if i in live and i not in self.stored and _reduces(f.node(i))]
        pairs: dict[str, dict[int, int]] = {}
        for i in open_:
            node = f.node(i)
            space = f.dims_of(node.args[0])
            kind: Kind = "rows" if node.dim == space[-1] else "columns"
            key = (kind, space, node.dim)
            before = self._open(i) - {i}
            if self._rotates(i):
                raise InputError(f"{f.name} reduces what is rotated: rotate in a fusion of its own", f.span)
            mine = groups.setdefault(key, [])
            if kind == "columns":
                if node.dim not in pairs:
                    made = online.statistics(f, node.dim, tuple(open_))
                    pairs[node.dim] = online.together(made)
                partner = pairs[node.dim].get(i)
                if before <= ({partner} & set(mine)):
                    mine.append(i)
            elif before <= set(mine):
                mine.append(i)
        return {k: v for k, v in groups.items() if v}

    def _reduce(self, key: tuple[Kind, tuple[str, ...], str], group: list[int]) -> None:
        """A kernel that makes some reductions, and all outputs that it can.

        Where what outputs read besides has some of the inner dimensions alone, those stay for later; where
        what is reduced does, another kernel stores that first.
        """
        made = [o for o in self.pending if self._fits(o, *key, set(group))]
        own = self._read(group)
        alike = [o for o in made if self._read([o.node]) <= own]
        for outputs, last in ((made, True), (alike, False)):
            try:
                self._reduced(key, group, outputs, last)
                return
            except _PartError as e:
                error = e
        arguments = {self.fusion.node(i).args[0] for i in group} - self.stored.keys()
        free = sorted(a for a in arguments if not self._open(a) and self.fusion.node(a).op != "input")
        if not free:
            raise error
        before = [Output(f"stored{a}", a, "f32", key[1]) for a in free]
        self.found.append(self._segment("tiles", before, key[1], ""))
        self.stored |= {o.node: o.name for o in before}

    def _read(self, nodes: Iterable[int]) -> set[int]:
        """The inputs that nodes need, and what is stored."""
        return {i for i in self._needed(nodes) if i in self.stored or self.fusion.node(i).op == "input"}

    def _reduced(
        self, key: tuple[Kind, tuple[str, ...], str], group: list[int], made: list[Output], last: bool
    ) -> None:
        """A kernel for some reductions and outputs; ``last``: it hands on what is made of them alone."""
        kind, space, dim = key
        pending = [o for o in self.pending if o not in made]
        later = self._needed(o.node for o in pending)
        users = {i for i in group if i in later}
        handed = sorted({self._last_alike(i, later, set(group), pending) if last else i for i in users})
        names = {i: f"stored{i}" for i in handed}
        outputs = [*made, *(Output(names[i], i, "f32", self.fusion.dims_of(i)) for i in handed)]
        self.found.append(self._segment(kind, outputs, space, dim))
        self.pending = pending
        self.stored |= names

    def _fits(self, o: Output, kind: Kind, space: tuple[str, ...], dim: str, group: set[int]) -> bool:
        """Whether the kernel that makes a group of reductions can also make an output."""
        needs = self._open(o.node)
        if self._rotates(o.node):
            return False
        less = tuple(d for d in space if d != dim)
        if kind == "columns" and o.dims == space:
            return not needs
        if not needs <= group or o.dims not in (space, less):
            return False
        return bool(needs) if o.dims == less else True

    def _rotates(self, i: int) -> bool:
        return any(self.fusion.node(j).op in ROTATIONS for j in self._needed([i]))

    def _last_alike(self, i: int, later: set[int], group: set[int], pending: list[Output]) -> int:
        """What is stored for a reduction: the last number that is made of it alone, like a mean."""
        f = self.fusion
        while True:
            users = [u for u in f.graph.successors(i) if u in later]
            if len(users) != 1 or any(o.node == i for o in pending):
                return i
            (u,) = users
            node = f.node(u)
            others = self._needed(a for a in node.args if a != i)
            plain = all(
                f.node(j).op in ("const", "size", "input", "div", "mul", "add", "sub") for j in others
            )
            if _reduces(node) or not plain or f.dims_of(u) != f.dims_of(i) or f.kind_of(u) != "float":
                return i
            if any(j in self.stored for j in others):
                return i
            i = u

    def _elementwise(self) -> None:
        """Kernels for outputs that need no reduction any more, one for each shape."""
        while self.pending:
            shape = set(self.pending[0].dims)
            same = [o for o in self.pending if set(o.dims) == shape]
            self.pending = [o for o in self.pending if o not in same]
            space = tuple(d for d in self.fusion.dims if d in shape)
            if not space:
                self._number(same)
                continue
            self._tiles(same, space)

    def _number(self, outputs: list[Output]) -> None:
        """A kernel for numbers, as arrays of one element."""
        one = "one_"
        while one in {*self.fusion.dims, *dict(self.fusion.inputs), *(o.name for o in self.fusion.outputs)}:
            one += "_"
        part = self._segment("tiles", [replace(o, dims=(one,)) for o in outputs], (one,), "")
        self.found.append(Segment("tiles", Merged(part.fusion, ((one, "", ""),))))

    def _tiles(self, outputs: list[Output], space: tuple[str, ...]) -> None:
        """A kernel for outputs of one shape, and one that turns those that it cannot make turned."""
        part = self._segment("tiles", outputs, space, "")
        turned = [o for o in outputs if o.name in part.fusion.transposed]
        if not turned or not obstacle(part.fusion):
            self.found.append(part)
            return
        straight = {o.node: replace(o, name=f"stored{o.node}", dims=space) for o in turned}
        rest = [o for o in outputs if o not in turned]
        self.found.append(self._segment("tiles", [*rest, *straight.values()], space, ""))
        graph: Any = nx.DiGraph()
        for i, o in straight.items():
            graph.add_node(i, **{**self.fusion.graph.nodes[i], "node": Node("input", name=o.name)})
        inputs = tuple((o.name, Tensor(o.dtype, space)) for o in straight.values())
        last = Fusion(self._name(), inputs, tuple(turned), space, graph, self.fusion.span)
        self.found.append(Segment("tiles", Merged(last)))

    def _name(self) -> str:
        f = self.fusion
        return f.name if not self.found else f"{f.name}_{len(self.found) + 1}"

    def _segment(self, kind: Kind, outputs: list[Output], space: tuple[str, ...], dim: str) -> Segment:
        f = self.fusion
        needed = self._needed(o.node for o in outputs)
        graph: Any = nx.DiGraph()
        for i in f.order():
            if i not in needed:
                continue
            node = f.node(i)
            if i in self.stored:
                node = Node("input", name=self.stored[i])
            graph.add_node(i, **{**f.graph.nodes[i], "node": node})
            graph.add_edges_from((a, i) for a in node.args)
        read = {graph.nodes[i]["node"].name for i in graph if graph.nodes[i]["node"].op == "input"}
        inputs = [(n, t) for n, t in f.inputs if n in read]
        inputs += [(self.stored[i], Tensor("f32", f.dims_of(i))) for i in self.stored if i in graph]
        part = Fusion(self._name(), tuple(inputs), tuple(outputs), space, graph, f.span)
        for n, t in inputs:
            if not set(t.dims) <= set(space):
                raise InputError(f"{f.name}: {n} has dimensions that its kernel ({', '.join(space)}) lacks")
        joined = merged(part) if kind != "tiles" else Merged(part)
        if kind == "columns" and joined.fusion.dims[-1] == _name_of(dim, joined):
            return Segment("rows", joined)
        if kind == "columns" and joined.fusion.dims[-2] != _name_of(dim, joined):
            raise _PartError(
                f"{f.name} reduces along {dim} of ({', '.join(space)}), and has operands of some of the "
                "dimensions behind it: give them all of these dimensions, or none",
                f.span,
            )
        return Segment(kind, joined)


#: What may be computed of operands alone, beside a reduction's result.
_PLAIN = ("const", "size", "input", "add", "sub", "mul", "div")


def _name_of(dim: str, joined: Merged) -> str:
    for new, a, b in joined.pairs:
        if dim in (a, b):
            dim = new
    return dim


def _reduces(node: Node) -> bool:
    return node.op in REDUCTIONS or node.op == "take"


def _reductions(fusion: Fusion) -> list[int]:
    return [i for i in fusion.graph if fusion.node(i).op in REDUCTIONS]


__all__ = ["Segment", "cut", "whole"]
