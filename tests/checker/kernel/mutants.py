"""Random mistakes in protocols and in proofs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from syncverify.checker.kernel.linear import num
from syncverify.checker.kernel.proof import Proof, read
from syncverify.checker.kernel.protocol import Kind, Loop, N, Op, Protocol, Role, Tiles, malformed
from syncverify.checker.prover.protocols.written import proof as write

_NOTHING = Op(Kind.NOTHING)


@dataclass(slots=True)
class _Part:
    """A block or loop that can be changed."""

    ops: list[Op]
    loop: Loop | None = None

    def closed(self) -> Any:
        return replace(self.loop, body=tuple(self.ops)) if self.loop else tuple(self.ops)


@dataclass(slots=True)
class _Tiles:
    tiles: Tiles
    parts: list[_Part]


def _open(b: Any) -> _Part | _Tiles:
    if isinstance(b, Tiles):
        return _Tiles(b, [_opened(q) for q in b.body])
    return _opened(b)


def _opened(b: Any) -> _Part:
    return _Part(list(b.body), b) if isinstance(b, Loop) else _Part(list(b))


def _blocks(body: list[_Part | _Tiles]) -> Iterator[_Part]:
    for b in body:
        yield from b.parts if isinstance(b, _Tiles) else (b,)


def _close(body: list[_Part | _Tiles]) -> tuple[Any, ...]:
    out: list[Any] = []
    for b in body:
        if isinstance(b, _Tiles):
            parts = tuple(q.closed() for q in b.parts if q.ops or q.loop)
            out.append(replace(b.tiles, body=parts))
        elif b.ops or b.loop:
            out.append(b.closed())
    return tuple(out)


KINDS = (
    "parity", "count", "drop", "drop", "drop", "index", "index", "slot", "guard", "guard", "unguarded",
    "bound", "bound", "depth", "bytes", "number", "relax", "ring", "new guard", "lanes", "fact",
)  # fmt: skip
MOVING = ("swap", "swap", "twice", "move", "move")


def mutate(r: random.Random, p: Protocol, keep: bool = False) -> tuple[Protocol, str] | None:
    """One random mistake; with ``keep`` sites keep their numbers. None where the choice does not apply."""
    bodies = [[_open(b) for b in role.body] for role in p.roles]
    choices = [(i, b) for i, body in enumerate(bodies) for b in _blocks(body) if b.ops]
    i, b = r.choice(choices)
    k = r.randrange(len(b.ops))
    kind = r.choice(KINDS if keep else KINDS + MOVING)
    changed = _changed(r, p, kind, b, k, keep, [q for j, q in choices if j == i])
    if changed is None:
        return None
    threads = [role.threads for role in p.roles]
    if kind == "lanes":
        if len(threads[i]) > 1:
            threads[i] = threads[i][:1]
        else:
            threads[i] = (*threads[i], max(t for some in threads for t in some) + 1)
    roles = tuple(
        Role(role.name, t, _close(body)) for role, t, body in zip(changed.roles, threads, bodies, strict=True)
    )
    out = replace(changed, roles=roles)
    if malformed(out) is not None:
        return None
    return out, f"{kind} of {b.ops[k].kind.value if k < len(b.ops) else '-'} in {p.roles[i].name}"


def _changed(
    r: random.Random, p: Protocol, kind: str, b: _Part, k: int, keep: bool, others: list[_Part]
) -> Protocol | None:
    """The protocol with other rings, or itself; the block is changed in place."""
    op = b.ops[k]
    step = r.choice((-1, 1))

    def put(**fields: Any) -> Protocol:
        b.ops[k] = replace(op, **fields)
        return p

    match kind:
        case "parity" if op.kind is Kind.WAIT:
            return put(parity=1 - op.parity)
        case "count":
            name = r.choice(list(p.rings)) if p.rings else None
            return name and replace(
                p, rings={**p.rings, name: replace(p.rings[name], count=max(1, p.rings[name].count + step))}
            )  # type: ignore[return-value]
        case "drop":
            if keep:
                b.ops[k] = _NOTHING
            else:
                b.ops.pop(k)
            return p
        case "index" if op.ring:
            return put(index=op.index + r.choice((-1, 1, 2)))
        case "slot" if op.touches:
            return put(touches=tuple(replace(t, slot=t.slot + step) for t in op.touches))
        case "guard" if op.guard:
            return put(guard=tuple(g + step for g in op.guard))
        case "unguarded" if op.guard:
            return put(guard=())
        case "new guard" if b.loop:
            more = r.choice((N - b.loop.lo - 1, b.loop.hi - N - 2, N - 1))
            return put(guard=(*op.guard, more))
        case "bound" if b.loop:
            lo, hi = (b.loop.lo + step, b.loop.hi) if r.random() < 0.5 else (b.loop.lo, b.loop.hi + step)
            b.loop = replace(b.loop, lo=lo, hi=hi)
            return p
        case "depth":
            names = [*p.rings, *p.buffers]
            name = r.choice(names)
            if name in p.buffers:
                return replace(p, buffers={**p.buffers, name: p.buffers[name] + step})
            ring = p.rings[name]
            return replace(p, rings={**p.rings, name: replace(ring, depth=ring.depth + step)})
        case "bytes" if op.bytes:
            return put(bytes=max(1, op.bytes + step))
        case "number" if op.kind in (Kind.ARRIVE, Kind.DRAIN, Kind.REGISTERS, Kind.INIT):
            return put(count=max(0 if op.kind is Kind.DRAIN else 1, op.count + step))
        case "relax" if op.kind in (Kind.ARRIVE, Kind.WAIT):
            return put(synchronizes=not op.synchronizes)
        case "ring" if op.ring:
            return put(ring=r.choice(list(p.rings)))
        case "fact" if p.facts and not keep:
            j = r.randrange(len(p.facts))
            return replace(p, facts=(*p.facts[:j], p.facts[j] + 1, *p.facts[j + 1 :]))
        case "swap" if k + 1 < len(b.ops):
            b.ops[k], b.ops[k + 1] = b.ops[k + 1], b.ops[k]
            return p
        case "twice":
            b.ops.insert(k, op)
            return p
        case "move":
            b.ops.pop(k)
            there = r.choice(others)
            there.ops.insert(r.randrange(len(there.ops) + 1), op)
            return p
        case "lanes":
            return p
    return None


def mutated(r: random.Random, p: Protocol, times: int, keep: bool = False) -> tuple[Protocol, list[str]]:
    """Several mistakes; fewer where choices do not apply."""
    whats: list[str] = []
    for _ in range(times):
        found = mutate(r, p, keep)
        if found is not None:
            p, what = found
            whats.append(what)
    return p, whats


# ---------------------------------------------------------------- proofs


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a proof, and the places of its data by field."""

    data: dict[str, Any]
    places: dict[str, list[tuple[Any, ...]]]

    @classmethod
    def of(cls, proof: Proof) -> Text:
        data = write(proof)
        found = {field: list(_leaves(data[field], (field,))) for field in data}
        return cls(data, {field: some for field, some in found.items() if some})


def corrupted(r: random.Random, text: Text) -> tuple[dict[str, Any], str]:
    """A proof with one leaf of its data changed, dropped or doubled, of any field."""
    path = r.choice(text.places[r.choice(list(text.places))])
    data = dict(text.data)
    node: Any = data
    for step in path[:-1]:  # what is changed is copied, the rest is shared
        kid = node[step]
        node[step] = dict(kid) if isinstance(kid, dict) else list(kid)
        node = node[step]
    last = path[-1]
    old = node[last]
    how = r.choice(("change", "change", "change", "drop", "double"))
    if how == "change" or not isinstance(node, list):
        node[last] = _other(r, old)
    elif how == "drop":
        node.pop(last)
    else:
        node.insert(last, old)
    return data, f"{how} {'/'.join(map(str, path))}: {old!r}"


def _leaves(x: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    if path and not isinstance(x, dict | list):
        yield path
    for k, v in items:
        yield from _leaves(v, (*path, k))


def _other(r: random.Random, old: Any) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + r.choice((-2, -1, 1, 2, 7))
    if isinstance(old, str):
        words = [
            "in",
            "out",
            "done",
            "along",
            "reverse",
            "same",
            "turn",
            "follows",
            "absurd",
            "S",
            "N",
            "u",
            "n",
            "%1",
        ]
        return r.choice([w for w in words if w != old])
    return 0


def shifted(r: random.Random, p: Protocol, proof: Proof) -> Proof:
    """The proof with another shift, end or rank here and there."""
    shift, end, rank = dict(proof.shift), dict(proof.end), dict(proof.rank)
    if r.random() < 0.4 and shift:
        i = r.choice(list(shift))
        shift[i] += r.choice((-2, -1, 1, 2))
    if r.random() < 0.3 and end:
        ring = r.choice(list(end))
        end[ring] = end[ring] + r.choice((-1, 1))
    if r.random() < 0.2:
        key = r.choice(list(rank))
        at = r.randrange(len(rank[key]))
        rank[key] = (*rank[key][:at], rank[key][at] + num(r.choice((-1, 1))), *rank[key][at + 1 :])
    return replace(proof, shift=shift, end=end, rank=rank)


__all__ = ["Callable", "Text", "corrupted", "mutate", "mutated", "read", "shifted"]
