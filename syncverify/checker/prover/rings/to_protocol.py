"""From a kernel of the IR to its protocol: the roles, rings and operations that ``checker.kernel`` judges.

The walk over the text is that of ``extract``; warps and lanes that do the same become one role. What a role
does must be as the kernel executes it: nothing else looks at the text again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from syncverify.checker.kernel import protocol as k
from syncverify.checker.kernel.linear import ZERO, Term, apply, num, var
from syncverify.checker.prover.rings.extract import Walked, walk
from syncverify.checker.prover.rings.linear import Lin, OutsideError, linear
from syncverify.checker.prover.rings.linear import num as lin_num
from syncverify.checker.prover.rings.linear import var as lin_var
from syncverify.checker.prover.rings.operations import Lanes
from syncverify.checker.prover.rings.program import (
    ALL,
    BEFORE,
    BEHIND,
    FIRST,
    TILE,
    Case,
    Op,
    Ring,
    highs,
    lows,
)
from syncverify.ir import nodes as n
from syncverify.ir.expr import BUILTINS, LANE_BUILTINS

#: Numbers of a whole block, and what expressions are made with.
_OF_BLOCK = BUILTINS - LANE_BUILTINS - {"warp", "wg"}
_FUNCTIONS = frozenset({"and", "or", "not", "min", "max", "cdiv", "select", "abs", "log2"})
#: The steps before a tile.
PREFIX = "P"
#: Names that protocols use themselves.
_TAKEN = frozenset({PREFIX, "u", "n", "u'", "n'", "j", "x"})
_KINDS = {
    "arrive": k.Kind.ARRIVE, "expect": k.Kind.EXPECT, "wait": k.Kind.WAIT, "init": k.Kind.INIT,
    "inval": k.Kind.INVAL, "copy": k.Kind.COPY, "store": k.Kind.ASYNC, "commit": k.Kind.COMMIT,
    "drain": k.Kind.DRAIN, "mma": k.Kind.ASYNC, "mma_commit": k.Kind.COMMIT, "mma_drain": k.Kind.DRAIN,
    "meet": k.Kind.SYNC, "warp_meet": k.Kind.SYNC, "fence": k.Kind.FENCE, "touch": k.Kind.ACCESS,
    "use": k.Kind.USE,
}  # fmt: skip
_GROUPS = {
    "store": k.Group.BULK, "commit": k.Group.BULK, "drain": k.Group.BULK,
    "mma": k.Group.WGMMA, "mma_commit": k.Group.WGMMA, "mma_drain": k.Group.WGMMA,
}  # fmt: skip
_COLLECTIVE = ("mma", "mma_commit", "mma_drain")


@dataclass(slots=True)
class Names:
    """Names of parameters in a protocol; an expression that represents a number of its own has one too."""

    given: dict[str, str] = field(default_factory=dict)

    def of(self, x: str) -> str:
        if x not in self.given:
            plain = (
                x
                if re.fullmatch(r"[A-Za-z_]\w*", x) and x not in _TAKEN
                else "v_" + "_".join(re.findall(r"\w+", x))
            )
            while plain in self.given.values():
                plain += "_"
            self.given[x] = plain
        return self.given[x]

    def back(self, t: Term) -> Lin | None:
        """The form of the kernel's parameters that a term represents."""
        names = {v: x for x, v in self.given.items()}
        if t.functions() or not t.names() <= set(names):
            return None
        total = lin_num(t.const)
        for name, c in t.parts.items():
            total = total + lin_var(names[str(name)]).scaled(c)
        return total


def protocol_of(kernel: n.Kernel, case: Case, names: Names) -> k.Protocol:
    """The protocol of a kernel in the launches of a case; OutsideError where it is none."""
    walked = walk(kernel, case, tiled=True)
    return _Maker(kernel, walked, names).protocol()


@dataclass(slots=True)
class _Part:
    """Lanes that do the same, in one warp or in several."""

    name: str
    threads: list[int]
    ops: list[Op]
    split: bool  # other lanes of its warps do something else
    bounds: dict[int, tuple[Lin, ...]]  # of its loops, by segment
    regions: dict[int, int]  # of segments inside tiles


@dataclass(slots=True)
class _Maker:
    kernel: n.Kernel
    walked: Walked
    names: Names
    facts: list[Term] = field(default_factory=list)
    rings: dict[str, k.Ring] = field(default_factory=dict)
    count: Term = ZERO  # of tiles
    none: bool = False  # there is no tile
    schemas: list[Term] = field(default_factory=list)

    def protocol(self) -> k.Protocol:
        tiles = self.tiles()
        parts = self.parts()
        self.facts += [self.term(f) for f in self.walked.facts]
        self.barriers(parts)
        roles = tuple(self.role(p) for p in parts)
        buffers = {s.name: self.term(self.walked.depths[s.name]) for s in self.kernel.shared}
        registers = None
        if self.kernel.launch.registers is not None:
            each = self.kernel.launch.registers
            registers = k.Registers(each, each * self.kernel.launch.threads)
        return k.Protocol(
            roles, self.rings, buffers, frozenset(self.names.given.values()),
            tuple(dict.fromkeys(self.facts)), (PREFIX,) if tiles else (), schemas=tuple(self.schemas),
            registers=registers,
        )  # fmt: skip

    # ---------------------------------------------------------------- terms

    def term(self, f: Lin) -> Term:
        total = num(f.const)
        for x, c in f.terms:
            total = total + self.atom(x) * c
        return total

    def atom(self, x: str) -> Term:
        """A counter, a prefix sum of trip counts, or a parameter."""
        if x in (BEFORE, BEHIND, ALL):
            return apply(PREFIX, {BEFORE: k.U, BEHIND: k.U + 1, ALL: self.count}[x])
        if x in (FIRST, TILE):
            return k.N if x == FIRST else k.U
        # an expression may be any number, but one number for all: nothing that a thread or an iteration sets
        known = {p.name for p in self.kernel.params} | _OF_BLOCK | _FUNCTIONS
        strange = set(re.findall(r"[A-Za-z_][\w.]*", x)) - known
        if strange and x not in known:
            raise OutsideError(f"{min(strange)} is no number of the launch")
        return var(self.names.of(x))

    # ---------------------------------------------------------------- tiles

    def tiles(self) -> bool:
        """Whether there are tiles; all roles must have as many, and as many steps in each."""
        counts = {x for w in self.walked.warps for x in w.tiles.values()}
        trips = {x for w in self.walked.warps for x in w.trips.values()}
        if len(counts) > 1 or len(trips) > 1 or any(len(w.tiles) > 1 for w in self.walked.warps):
            raise OutsideError("tiles of different numbers or lengths, or twice in one role")
        if not counts:
            return False
        w = next(w for w in self.walked.warps if w.tiles)
        count = linear(counts.pop(), w.opaque)
        self.count = self.term(count)
        self.none = w.facts.entails((), [(count.scaled(-1),)])
        trip = linear(trips.pop(), w.opaque)
        if w.facts.entails((), [(trip,)]):
            step = apply(PREFIX, k.X + 1) - apply(PREFIX, k.X) - self.term(trip)
            self.schemas += [step, -step]
        return True

    # ---------------------------------------------------------------- parts

    def parts(self) -> list[_Part]:
        """The lanes of all warps, those together that do the same."""
        kinds: dict[object, list[list[tuple[int, frozenset[int], list[Op]]]]] = {}
        bounds: dict[object, tuple[dict[int, tuple[Lin, ...]], dict[int, int]]] = {}
        for w in self.walked.warps:
            lanes: dict[tuple[int, ...], set[int]] = {}
            for lane in range(32):
                key = tuple(i for i, mask in enumerate(w.lanes) if lane in mask)
                lanes.setdefault(key, set()).add(lane)
            found = [
                (w.warp, frozenset(some), [_with_pieces(w.ops[i], w, frozenset(some)) for i in key])
                for key, some in lanes.items()
            ]
            kind: object = (
                tuple(tuple(ops) for _, _, ops in found),
                tuple(w.bounds.items()),
                tuple(w.regions.items()),
            )
            kinds.setdefault(kind, []).append(found)
            bounds[kind] = (w.bounds, w.regions)
        out: list[_Part] = []
        for made, same in kinds.items():
            for members in zip(*same, strict=True):
                threads = [32 * warp + lane for warp, some, _ in members for lane in sorted(some)]
                ops = [_merged(ops) for ops in zip(*(ops for _, _, ops in members), strict=True)]
                warps = ", ".join(str(warp) for warp, _, _ in members)
                shown = f"warp {warps}" if len(members) == 1 else f"warps {warps}"
                split = len(same[0]) > 1
                name = f"{shown}, {len(members[0][1])} lanes" if split else shown
                if ops:
                    out.append(_Part(name, threads, ops, split, *bounds[made]))
        return out

    # ---------------------------------------------------------------- rings

    def barriers(self, parts: Iterable[_Part]) -> None:
        """The rings of mbarriers, with the counts of their inits."""
        counts: dict[Ring, set[int]] = {}
        for p in parts:
            for op in p.ops:
                if op.ring is not None:
                    counts.setdefault(op.ring, set())
                    if op.kind == "init":
                        counts[op.ring].add(op.count)
        for ring, some in counts.items():
            if len(some) != 1:
                raise OutsideError(f"{ring[0]} is not initialized with one number")
            depth = self.term(self.walked.depths[ring[0]]) if ring[1] is None else num(1)
            self.rings[_ring(ring)] = k.Ring(depth, some.pop(), initialized=True)

    def meeting(self, op: Op, start: Term) -> k.Op:
        """A meeting of the block, of some warps, or of a warp's lanes; each statement is a ring."""
        where = "_".join(map(str, op.statement))
        if op.kind == "meet":
            ring = k.Ring(num(1), op.count, named=True, barrier=f"barrier {op.lag}")
            name = f"barrier {op.lag} at {where}"
        else:
            visible = op.kind == "warp_meet"
            barrier = "warp" if visible else "wgmma"
            ring = k.Ring(num(1), 32, named=True, level=k.Level.WARP, visible=visible, barrier=barrier)
            name = f"{barrier} at {where}"
        self.rings[name] = ring
        return k.Op(k.Kind.SYNC, name, start, count=ring.count, span=op.span)

    # ---------------------------------------------------------------- operations

    def role(self, part: _Part) -> k.Role:
        body: list[k.Block | k.Loop | k.Tiles] = []
        inside: dict[int, list[k.Block | k.Loop]] = {}
        segments: dict[int, list[Op]] = {}
        for op in part.ops:
            segments.setdefault(op.segment, []).append(op)
        for segment, ops in segments.items():
            region = part.regions.get(segment)
            if region is not None and self.none:
                continue
            found = self.segment(ops, part, part.bounds.get(segment), region is not None)
            if region is None:
                body.append(found)
            elif region not in inside:
                inside[region] = [found]
                body.append(k.Tiles(0, 1, self.count, ()))
            else:
                inside[region].append(found)
        tiles = iter(inside.values())
        body = [replace(b, body=tuple(next(tiles))) if isinstance(b, k.Tiles) else b for b in body]
        return k.Role(part.name, tuple(sorted(part.threads)), tuple(body))

    def segment(
        self, ops: Sequence[Op], part: _Part, bound: tuple[Lin, ...] | None, tiled: bool
    ) -> k.Block | k.Loop:
        """Straight code, or a loop; inside tiles or not."""
        if bound is None:
            return tuple(x for op in ops for x in self.made(op, part, 2, k.U if tiled else ZERO))
        # of several bounds one is the loop's, and the others are guards of all that it does
        low, *more = [self.term(x) for x in lows(bound)]
        high, *less = [self.term(x) + 1 for x in highs(bound)]
        guards = (*(k.N - x for x in more), *(x - k.N - 1 for x in less))
        turn = k.N if tiled else k.N - low
        body = [x for op in ops for x in self.made(op, part, len(bound), turn)]
        return k.Loop(low, high, tuple(replace(x, guard=(*guards, *x.guard)) for x in body))

    def made(self, op: Op, part: _Part, own: int, turn: Term) -> list[k.Op]:
        """The operations of a protocol that stand for one; ``own``: constraints of its loop."""
        guard = tuple(self.term(c) for c in op.domain[own:])
        if op.kind in ("meet", "warp_meet"):
            return [replace(self.meeting(op, turn), guard=guard)]
        made = k.Op(_KINDS[op.kind], guard=guard, group=_GROUPS.get(op.kind), span=op.span)
        if op.ring is not None:
            made = replace(made, ring=_ring(op.ring), index=self.term(op.index), bytes=op.bytes)
            made = replace(made, count=op.count) if op.kind in ("arrive", "init") else made
            made = replace(made, parity=op.lag) if op.kind == "wait" else made
        if op.kind in ("drain", "mma_drain"):
            if op.index.terms:
                raise OutsideError("a number of pending groups that is a parameter")
            made = replace(made, count=op.index.const)
        if op.touches:
            touches = tuple(k.Touch(t.access, t.buffer, self.term(t.index), t.pieces) for t in op.touches)
            made = replace(made, touches=touches)
        if op.kind in ("touch", "use"):
            made = replace(made, label=f"read {op.place if op.kind == 'touch' else op.of}")
        if op.kind == "mma":
            made = replace(made, label="wgmma " + "_".join(map(str, op.statement)))
        if op.kind in _COLLECTIVE and part.split:
            return [replace(self.meeting(op, turn), guard=guard), made]
        return [made]


def _ring(ring: Ring) -> str:
    return ring[0] if ring[1] is None else f"{ring[0]}[{ring[1]}]"


def _with_pieces(op: Op, w: Lanes, lanes: frozenset[int]) -> Op:
    """The bytes of these lanes alone; an elected lane represents all that could be elected."""
    if not op.touches:
        return op
    touches = []
    for t in op.touches:
        if lanes == {w.chosen} and w.elected:
            only = 32 * w.warp + w.chosen
            pieces = {(lo, hi, only) for lo, hi, _ in t.pieces}
        elif w.elected:
            pieces = set(t.pieces)
        else:
            pieces = {p for p in t.pieces if p[2] % 32 in lanes}
        touches.append(replace(t, pieces=tuple(sorted(pieces))))
    return replace(op, touches=tuple(touches))


def _merged(same: Sequence[Op]) -> Op:
    """One operation of several warps: their bytes together."""
    touches = [
        replace(t, pieces=tuple(sorted({p for op in same for p in op.touches[i].pieces})))
        for i, t in enumerate(same[0].touches)
    ]
    return replace(same[0], touches=tuple(touches))
