"""Kernels with few launches that differ: each of them is checked by itself.

For kernels that graphs of decisions do not treat, for example where blocks synchronize through global memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice, product
from math import prod

from syncverify.checker.prover.parametric.concrete_checks import conjuncts, true_of
from syncverify.frontends.ir.symbolic_launch import launch_facts
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Expr, Int, Var, names

#: Launches that are checked one by one, and values that are looked at to find them.
MOST_LAUNCHES, MOST_ENUMERATED = 10, 4_096

_TYPES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


def launches(kernel: n.Kernel, given: Mapping[str, int]) -> list[dict[str, int]] | None:
    """Values of the parameters that ``given`` does not fix which together represent every launch; None where
    there are none, or too many.

    A parameter that nothing reads has one value: all launches that differ in it alone have the same events.
    """
    read = mentioned(kernel)
    facts = [*kernel.assumes, *launch_facts(kernel)]
    open_ = [p for p in kernel.params if p.name not in given]
    idle = {p.name: p.default if p.default is not None else 1 for p in open_ if p.name not in read}
    ranges = {p.name: _range(p, facts) for p in open_ if p.name in read}
    if prod(r.stop - r.start for r in ranges.values()) > MOST_ENUMERATED:
        return None
    choices = (dict(zip(ranges, some, strict=True)) for some in product(*ranges.values()))
    every = (v for v in choices if all(true_of(f, {**given, **idle, **v}) for f in facts))
    found = [idle | v for v in islice(every, MOST_LAUNCHES + 1)]
    return found if 0 < len(found) <= MOST_LAUNCHES else None


def mentioned(kernel: n.Kernel) -> frozenset[str]:
    """All names in a kernel, but for those in the shapes of tensors that no tensor map describes: where in
    global memory a flat tensor ends is no matter of synchronization."""
    mapped = {m.tensor for m in kernel.maps}
    shapes = [t.shape for t in kernel.tensors if t.name in mapped]
    rest = [getattr(kernel, f.name) for f in fields(kernel) if f.name not in ("tensors", "params")]
    return frozenset[str]().union(*(names(e) for part in (*shapes, *rest) for e in _expressions(part)))


def _expressions(node: object) -> Iterator[Expr]:
    if isinstance(node, Expr):
        yield node
    elif is_dataclass(node):
        for f in fields(node):
            yield from _expressions(getattr(node, f.name))
    elif isinstance(node, tuple | list):
        for part in node:
            yield from _expressions(part)


def _range(p: n.Param, facts: list[Expr]) -> range:
    """The values that a type and the facts about one parameter alone leave."""
    low, high = _TYPES[p.dtype]
    for f in facts:
        for g in conjuncts(f):
            match g:
                case Binary(">=", Var(x), Int(v)) | Binary("<=", Int(v), Var(x)) if x == p.name:
                    low = max(low, v)
                case Binary("<=", Var(x), Int(v)) | Binary(">=", Int(v), Var(x)) if x == p.name:
                    high = min(high, v)
                case Binary(">", Var(x), Int(v)) | Binary("<", Int(v), Var(x)) if x == p.name:
                    low = max(low, v + 1)
                case Binary("<", Var(x), Int(v)) | Binary(">", Int(v), Var(x)) if x == p.name:
                    high = min(high, v - 1)
                case Binary("==", Var(x), Int(v)) | Binary("==", Int(v), Var(x)) if x == p.name:
                    low, high = max(low, v), min(high, v)
    return range(low, max(low, high + 1))


__all__ = ["launches", "mentioned"]
