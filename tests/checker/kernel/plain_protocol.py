"""A protocol as plain data: the other input of the second checker (docs/proof_format.md)."""

from __future__ import annotations

from typing import Any

from syncverify.checker.kernel.linear import Apply, Term
from syncverify.checker.kernel.protocol import Loop, Op, Protocol, Tiles


def _term(t: Term) -> list[Any]:
    parts = [
        [k, [a.function, _term(a.argument)] if isinstance(a, Apply) else a]
        for a, k in sorted(t.parts.items(), key=str)
    ]
    return [t.const, *parts]


def _op(op: Op) -> dict[str, Any]:
    return {
        "kind": op.kind.value,
        "ring": op.ring,
        "index": _term(op.index),
        "parity": op.parity,
        "count": op.count,
        "bytes": op.bytes,
        "group": None if op.group is None else op.group.value,
        "touches": [
            [
                t.access.name.lower(),
                t.buffer,
                _term(t.slot),
                None if t.pieces is None else [list(x) for x in t.pieces],
                t.version,
            ]
            for t in op.touches
        ],
        "guard": [_term(g) for g in op.guard],
        "synchronizes": op.synchronizes,
        "narrow": op.narrow,
        "label": op.label,
    }


def _part(x: Any) -> dict[str, Any]:
    if isinstance(x, Tiles):
        return {"tiles": [x.first, x.stride, _term(x.count), [_part(y) for y in x.body]]}
    if isinstance(x, Loop):
        return {"loop": [_term(x.lo), _term(x.hi), [_op(op) for op in x.body]]}
    return {"block": [_op(op) for op in x]}


def plain(p: Protocol) -> dict[str, Any]:
    """The data of a protocol."""
    return {
        "roles": [
            {"name": r.name, "threads": list(r.threads), "body": [_part(x) for x in r.body]} for r in p.roles
        ],
        "rings": {
            x: {
                "depth": _term(r.depth), "count": r.count, "named": r.named, "level": int(r.level),
                "visible": r.visible, "barrier": r.barrier, "initialized": r.initialized,
            }
            for x, r in p.rings.items()
        },
        "buffers": {x: _term(d) for x, d in p.buffers.items()},
        "parameters": sorted(p.parameters),
        "facts": [_term(f) for f in p.facts],
        "prefix": list(p.prefix),
        "marks": list(p.marks),
        "schemas": [_term(s) for s in p.schemas],
        "registers": None if p.registers is None else [p.registers.each, p.registers.pool],
        "warp": p.warp,
    }  # fmt: skip
