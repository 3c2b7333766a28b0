"""Plain accesses to global memory that follow each other at one distance, as one event of several rows.

Nothing happens between them that others could tell: whoever knows of one of them, or is to know of it, does
so of all. A thread stores the sums of a tile, 16 bytes at a time, with a dozen of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from syncverify.frontends.ptx.decode.global_access import GlobalAccess
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Mem, Reg
from syncverify.frontends.ptx.syntax.operands import results

T = TypeVar("T")


def joined(flow: Flow, decoded: dict[int, T]) -> dict[int, T]:
    """What instructions do, with such accesses at the first of them."""
    out: dict[int, T] = {}
    last = -1  # the access that rows may be joined to, and the instruction up to which they were
    newest = -1
    for k in sorted(decoded):
        e = decoded[k]
        first = out.get(last)
        if first is not None and _follows(flow, last, first, newest, k, e):
            assert isinstance(first, GlobalAccess) and isinstance(e, GlobalAccess)
            pitch = _offset(e) - _offset(first) if first.rows == 1 else first.pitch
            out[last] = replace(first, rows=first.rows + 1, pitch=pitch)
            newest = k
            continue
        out[k] = e
        last = newest = k
    return out


def _follows(flow: Flow, at: int, first: object, newest: int, k: int, e: object) -> bool:
    """Whether an access is the next row."""
    if not (isinstance(first, GlobalAccess) and isinstance(e, GlobalAccess)):
        return False
    if not (_plain(flow, at, first) and _plain(flow, k, e)) or flow.block_of[at] != flow.block_of[k]:
        return False
    alike = (first.code, first.total, first.bits) == (e.code, e.total, e.bits)
    base = _base(first)
    if not alike or base != _base(e) or any(base in results(flow.body[j]) for j in range(newest, k)):
        return False
    step = _offset(e) - _offset(first)
    return step == first.rows * first.pitch if first.rows > 1 else step >= e.total


def _plain(flow: Flow, k: int, e: GlobalAccess) -> bool:
    """Whether an access is weak, of every thread, and known to be to global memory."""
    weak = not e.flags and e.inside is None and e.space == "global"
    return weak and flow.body[k].guard is None and bool(_base(e))


def _base(e: GlobalAccess) -> str:
    at = e.address
    return at.base.name if isinstance(at, Mem) and isinstance(at.base, Reg) else ""


def _offset(e: GlobalAccess) -> int:
    return e.address.offset if isinstance(e.address, Mem) else 0


__all__ = ["joined"]
