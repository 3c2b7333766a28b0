"""What a spin compares with is made before its load, for the whole spin is one event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from syncverify.frontends.ptx.decode.global_access import GlobalSpin
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Reg
from syncverify.frontends.ptx.syntax.operands import results, sources

_PLAIN = frozenset({"mov", "add", "sub", "shl", "mul", "mad", "cvt", "and", "or", "min", "max"})


def bounds_first(function: Function, flow: Flow, spins: Iterable[GlobalSpin]) -> Function:
    """The same function with bounds ahead of the loads of ``spins``, in the same block, as far as nothing in
    between has to do with them."""
    body = list(function.body)
    for spin in spins:
        made = _made(flow, spin)
        if made is None:
            continue
        i = function.body[made]
        between = function.body[spin.load : made]
        touched = {r for x in between for r in results(x)}
        read = {r for x in between for r in sources(x)}
        if touched.intersection((*sources(i), *results(i))) or read.intersection(results(i)):
            continue
        body[spin.load : made + 1] = [i, *between]
    return function if body == list(function.body) else replace(function, body=tuple(body))


def _made(flow: Flow, spin: GlobalSpin) -> int | None:
    """Where the one instruction stands that makes a spin's bound, if that is behind its load in one block."""
    if not isinstance(spin.bound, Reg):
        return None
    makers = [k for k, i in enumerate(flow.body) if spin.bound.name in results(i)]
    if len(makers) != 1 or makers[0] <= spin.load or flow.block_of[makers[0]] != flow.block_of[spin.load]:
        return None
    i = flow.body[makers[0]]
    return makers[0] if i.op in _PLAIN and i.guard is None else None


__all__ = ["bounds_first"]
