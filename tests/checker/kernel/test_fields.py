"""Each field of a protocol is compared by some rule: a right proof is rejected where the field is another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from syncverify.checker.kernel.accept import Accepted, Rejected, accept
from syncverify.checker.kernel.linear import num, var
from syncverify.checker.kernel.proof import Proof
from syncverify.checker.kernel.protocol import (
    Group,
    Kind,
    Level,
    Loop,
    N,
    Op,
    Protocol,
    Registers,
    Ring,
    Role,
    Tiles,
    Touch,
    malformed,
)
from syncverify.model.proxies import Access
from tests.checker.kernel.families import FAMILIES, T
from tests.checker.kernel.sweep import proofs

#: What only words and places in reports are made of, by class.
SHOWN = {Op: {"span"}, Role: {"name"}}
Change = Callable[[Protocol], Protocol]


def of_op(which: Kind, **new: Any) -> Change:
    """All operations of a kind with other fields; a callable makes the new value from the old operation."""

    def one(op: Op) -> Op:
        if op.kind is not which:
            return op
        return replace(
            op, **{x: v(op) if callable(v) and not isinstance(v, type) else v for x, v in new.items()}
        )

    return lambda p: each(p, lambda b: replace(b, body=tuple(map(one, b.body))), lambda b: tuple(map(one, b)))


def each(
    p: Protocol, loop: Callable[[Loop], Any], block: Callable[[Any], Any], tiles: Any = None
) -> Protocol:
    def part(b: Any) -> Any:
        if isinstance(b, Tiles):
            b = replace(b, body=tuple(map(part, b.body)))
            return tiles(b)
        return loop(b) if isinstance(b, Loop) else block(b)

    return replace(p, roles=tuple(replace(r, body=tuple(map(part, r.body))) for r in p.roles))


def of_loop(**new: Callable[[Loop], Any]) -> Change:
    return lambda p: each(p, lambda b: replace(b, **{x: v(b) for x, v in new.items()}), lambda b: b)


def of_tiles(**new: Any) -> Change:
    return lambda p: each(p, lambda b: b, lambda b: b, lambda t: replace(t, **new))


def of_ring(ring: str, **new: Any) -> Change:
    return lambda p: replace(p, rings={**p.rings, ring: replace(p.rings[ring], **new)})


def of_touch(which: Kind, **new: Any) -> Change:
    return of_op(which, touches=lambda op: tuple(replace(t, **new) for t in op.touches))


def twice(op: Op) -> tuple[Touch, ...]:
    return (*op.touches, replace(op.touches[0], slot=N + 1))


def threads(p: Protocol) -> Protocol:
    first, *more = p.roles
    return replace(p, roles=(replace(first, threads=(*first.threads, 99)), *more))


def idle(p: Protocol) -> Protocol:
    first, *more = p.roles
    return replace(p, roles=(replace(first, body=()), *more))


CASES: dict[tuple[type, str], tuple[str, Change]] = {
    (Op, "kind"): ("plain", of_op(Kind.FENCE, kind=Kind.NOTHING)),
    (Op, "ring"): ("plain", of_op(Kind.WAIT, ring="full")),
    (Op, "index"): ("plain", of_op(Kind.WAIT, index=N + 1)),
    (Op, "parity"): ("plain", of_op(Kind.WAIT, parity=0)),
    (Op, "count"): ("plain", of_op(Kind.ARRIVE, count=2)),
    (Op, "bytes"): ("plain", of_op(Kind.COPY, bytes=3)),
    (Op, "group"): ("wgmma, one group pending", of_op(Kind.COMMIT, group=Group.BULK)),
    (Op, "touches"): ("plain", of_op(Kind.COPY, touches=twice)),
    (Op, "guard"): ("plain", of_op(Kind.ARRIVE, guard=(N - 1,))),
    (Op, "synchronizes"): ("plain", of_op(Kind.ARRIVE, synchronizes=False)),
    (Op, "narrow"): ("plain", of_op(Kind.ARRIVE, narrow=True)),
    (Op, "label"): ("plain", of_op(Kind.COPY, label="x")),
    (Touch, "access"): ("plain", of_touch(Kind.ACCESS, access=Access.GENERIC_WRITE)),
    (Touch, "buffer"): ("plain", of_touch(Kind.ACCESS, buffer="other")),
    (Touch, "slot"): ("plain", of_touch(Kind.ACCESS, slot=N + 1)),
    (Touch, "pieces"): ("plain", of_touch(Kind.ACCESS, pieces=((0, 4, 77),))),
    (Touch, "version"): ("a word that steers", of_touch(Kind.ACCESS, version=3)),
    (Loop, "lo"): ("plain", of_loop(lo=lambda b: b.lo + 1)),
    (Loop, "hi"): ("plain", of_loop(hi=lambda b: b.hi + 1)),
    (Loop, "body"): ("plain", of_loop(body=lambda b: b.body[:-1])),
    (Tiles, "first"): ("persistent", of_tiles(first=1, stride=2)),
    (Tiles, "stride"): ("persistent", of_tiles(stride=2)),
    (Tiles, "count"): ("persistent", of_tiles(count=T + 1)),
    (Tiles, "body"): ("persistent", of_tiles(body=())),
    (Role, "threads"): ("plain", threads),
    (Role, "body"): ("plain", idle),
    (Ring, "depth"): ("plain", of_ring("full", depth=var("S") + 1)),
    (Ring, "count"): ("plain", of_ring("full", count=2)),
    (Ring, "named"): ("plain", of_ring("full", named=True)),
    (Ring, "level"): ("init and inval", of_ring("begin", level=Level.WARP)),
    (Ring, "visible"): ("init and inval", of_ring("begin", visible=False)),
    (Ring, "barrier"): ("init and inval", of_ring("begin", barrier="", level=Level.WARPGROUP)),
    (Ring, "initialized"): ("init and inval", of_ring("full", initialized=False)),
    (Registers, "each"): ("register pool", lambda p: replace(p, registers=Registers(133, 264))),
    (Registers, "pool"): ("register pool", lambda p: replace(p, registers=Registers(132, 263))),
    (Protocol, "roles"): ("plain", lambda p: replace(p, roles=p.roles[:1])),
    (Protocol, "rings"): ("plain", lambda p: replace(p, rings={"full": p.rings["full"]})),
    (Protocol, "buffers"): ("plain", lambda p: replace(p, buffers={"buf": num(1)})),
    (Protocol, "parameters"): ("plain", lambda p: replace(p, parameters=frozenset({"S"}))),
    (Protocol, "facts"): ("plain", lambda p: replace(p, facts=p.facts[1:])),
    (Protocol, "prefix"): ("persistent", lambda p: replace(p, prefix=(), marks=p.prefix)),
    (Protocol, "marks"): ("persistent", lambda p: replace(p, marks=p.prefix)),
    (Protocol, "schemas"): ("nonempty tiles, unguarded drain", lambda p: replace(p, schemas=())),
    (Protocol, "registers"): ("register pool", lambda p: replace(p, registers=None)),
    (Protocol, "warp"): ("elected lane", lambda p: replace(p, warp=1)),
}


@pytest.fixture(scope="module")
def good() -> dict[str, tuple[Protocol, Proof]]:
    known = {base for base, _ in CASES.values() if not base.startswith("nonempty")}
    return proofs([x for x in FAMILIES if x in known])


def test_every_field_is_looked_at() -> None:
    classes = (Op, Touch, Loop, Tiles, Role, Ring, Registers, Protocol)
    every = {(c, f.name) for c in classes for f in fields(c) if f.name not in SHOWN.get(c, ())}
    assert every == set(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].__name__}.{c[1]}")
def test_a_field_is_compared(case: tuple[type, str], good: dict[str, tuple[Protocol, Proof]]) -> None:
    base, change = CASES[case]
    if base not in good:
        pytest.skip("its proof takes seconds: see the slow test")
    p, proof = good[base]
    assert isinstance(accept(p, proof), Accepted)
    assert isinstance(accept(change(p), proof), Rejected)


@pytest.mark.slow
def test_schemas_are_compared() -> None:
    base, change = CASES[Protocol, "schemas"]
    ((p, proof),) = proofs([base]).values()
    assert isinstance(accept(p, proof), Accepted) and isinstance(accept(change(p), proof), Rejected)


@pytest.mark.parametrize("kind", Kind)
def test_what_nobody_compares_may_not_be_said(kind: Kind) -> None:
    """A parity of an arrival, bytes of a read: of an operation that has no such thing."""
    other: dict[str, Any] = {
        "parity": 1, "count": 2, "bytes": 4, "synchronizes": False, "narrow": True, "label": "x"
    }  # fmt: skip
    said = {
        Kind.ARRIVE: {"count", "bytes", "synchronizes", "narrow"}, Kind.EXPECT: {"bytes"},
        Kind.WAIT: {"parity", "synchronizes"}, Kind.COPY: {"bytes"}, Kind.ASYNC: {"label"},
        Kind.DRAIN: {"count"}, Kind.SYNC: {"count", "synchronizes", "narrow"},
        Kind.JOIN: {"count", "synchronizes", "narrow"}, Kind.ACCESS: {"label"}, Kind.USE: {"label"},
        Kind.FENCE: {"narrow"}, Kind.INIT: {"count"}, Kind.REGISTERS: {"count"},
    }  # fmt: skip
    ring = "o" if kind in (Kind.SYNC, Kind.JOIN) else "b"
    ringed = kind in (
        Kind.ARRIVE,
        Kind.EXPECT,
        Kind.WAIT,
        Kind.COPY,
        Kind.INIT,
        Kind.INVAL,
        Kind.SYNC,
        Kind.JOIN,
    )
    grouped = kind in (Kind.ASYNC, Kind.COMMIT, Kind.DRAIN)
    op = Op(kind, ring if ringed else "", group=Group.BULK if grouped else None)
    for what, value in other.items():
        rings = {"b": Ring(num(1), 1), "o": Ring(num(1), 2 if what == "count" else 1, named=True)}
        p = Protocol((Role("x", (0,), ((replace(op, **{what: value}),),)),), rings, {})
        assert (malformed(p) is None) == (what in said.get(kind, set())), what
