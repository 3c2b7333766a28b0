"""What the warps of a kernel do: one walk over the text for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from syncverify.checker.prover.rings.expressions import alternatives, is_linear, simple
from syncverify.checker.prover.rings.linear import Facts, Lin, OutsideError, comparison, linear, num, var
from syncverify.checker.prover.rings.operations import Lanes
from syncverify.checker.prover.rings.program import (
    ALL,
    BEFORE,
    BEHIND,
    FIRST,
    TILE,
    Case,
    Op,
    single,
    stage_parameters,
)
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import fold, statements
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var
from syncverify.ir.text.printed_expressions import print_expr
from syncverify.ir.value_uses import carried, pinned

#: Most ways of electing lanes that are distinguished.
MAX_ELECTIONS = 8
#: Loops with at most this many iterations, by numbers, are unrolled.
MAX_UNROLL = 16
#: Statements that neither meet others nor touch shared memory.
_LOCAL = (n.Compute, n.LdGlobal, n.StGlobal, n.FragRead, n.FragWrite, n.WgmmaFence, n.SetMaxNReg,
          n.FenceMbarrierInit, n.BulkPrefetch, n.TmaPrefetch, n.Fence)  # fmt: skip
_MATRIX = ("mma", "mma_commit", "mma_drain")


@dataclass(frozen=True, slots=True)
class Walked:
    """What every warp of a block does in the launches of a case."""

    warps: tuple[_Warp, ...]
    depths: dict[str, Lin]
    facts: tuple[Lin, ...]


def walk(kernel: n.Kernel, case: Case, tiled: bool = False) -> Walked:
    """One walk over the text for each warp; OutsideError where the kernel is not of the class.

    ``tiled``: loops in loops are tiles, which only protocols know.
    """
    _plain(kernel)
    depths = _depths(kernel)
    facts = (*known(kernel), *case.sizes)
    fixed = case.fixed | stage_parameters(kernel)
    numbers = {id(s): i for i, s in enumerate(statements(kernel.body))}
    holds = Facts(facts)
    warps: list[_Warp] = []
    for number in range(kernel.launch.threads // 32):
        lane = case.elected[number] if case.elected else 0
        w = _Warp(kernel, number, numbers, depths, fixed, holds, lane, tiled=tiled)
        w.block(kernel.body, frozenset(range(32)), ())
        if case.sizes:
            w.prune()
        warps.append(w)
    _uniform_arrays(warps, depths)
    _meetings(warps)
    return Walked(tuple(warps), depths, facts)


def elections(kernel: n.Kernel) -> list[tuple[int, ...]]:
    """One choice of elected lanes for each way in which guards can distinguish them."""
    _plain(kernel)
    depths = {x.name: linear(x.shape[0]) for x in kernel.shared} | {
        b.name: linear(b.count) for b in kernel.barriers
    }
    numbers = {id(s): i for i, s in enumerate(statements(kernel.body))}
    holds = Facts(known(kernel))
    lanes: list[list[int]] = []
    for number in range(kernel.launch.threads // 32):
        kinds: dict[int, tuple[Expr, ...]] = dict.fromkeys(range(32), ())
        tried: set[int] = set()
        while left := {kinds[x]: x for x in reversed(range(32)) if kinds[x] not in {kinds[y] for y in tried}}:
            lane = min(left.values())
            w = _Warp(kernel, number, numbers, depths, stage_parameters(kernel), holds, lane, tiled=True)
            w.block(kernel.body, frozenset(range(32)), ())
            tried.add(lane)
            kinds = {x: kinds[x] + w.conditions[x] for x in range(32)}
            if not w.elected:
                break
        lanes.append(sorted(tried))
    if prod(map(len, lanes)) > MAX_ELECTIONS:
        raise OutsideError("too many ways to elect lanes")
    return list(product(*lanes))


def known(kernel: n.Kernel) -> tuple[Lin, ...]:
    """Linear facts that every launch keeps; one fact less only makes less provable."""
    sizes = [s.shape[0] for s in kernel.shared if s.shape] + [b.count for b in kernel.barriers]
    facts: list[Lin] = []
    for e in sizes:
        try:
            facts += [d for d in (linear(e) - 1,) if d.terms]
        except OutsideError:
            continue
    for e in kernel.assumes:
        try:
            facts += comparison(e) or ()
        except OutsideError:
            continue
    facts += [var(p.name) for p in kernel.params if p.dtype.startswith("u")]
    facts += [var(g.name) - 1 for g in kernel.launch.grid if isinstance(g, Var)]  # a grid has a block
    return tuple(dict.fromkeys(facts))


def _depths(kernel: n.Kernel) -> dict[str, Lin]:
    """How many slots or barriers each array has."""
    found = {s.name: linear(s.shape[0]) for s in kernel.shared}
    return found | {b.name: linear(b.count) for b in kernel.barriers}


def _plain(kernel: n.Kernel) -> None:
    """What the whole kernel must be."""
    if kernel.launch.ctas != 1:
        raise OutsideError("blocks of a cluster")
    if kernel.launch.threads % 32:
        raise OutsideError("a warp with fewer than 32 threads")
    if any(s.offset is not None for s in kernel.shared) or any(b.offset is not None for b in kernel.barriers):
        raise OutsideError("explicit offsets in shared memory")
    for s in kernel.shared:
        if not s.shape or any(not isinstance(d, Int) for d in s.shape[1:]):
            raise OutsideError(f"the size of a slot of {s.name} is a parameter")
    read = {s.src.tensor for s in statements(kernel.body) if isinstance(s, n.LdGlobal | n.BulkLoad)}
    maps = {m.name: m.tensor for m in kernel.maps}
    read |= {maps[s.map] for s in statements(kernel.body) if isinstance(s, n.TmaLoad)}
    written = {s.dst.tensor for s in statements(kernel.body) if isinstance(s, n.StGlobal | n.BulkStore)}
    written |= {maps[s.map] for s in statements(kernel.body) if isinstance(s, n.TmaStore)}
    if read & written:
        raise OutsideError(f"{min(read & written)} is read and written")


@dataclass(slots=True)
class _Warp(Lanes):
    """The walk of one warp through the text."""

    # ------------------------------------------------------------ control

    def block(self, body: Iterable[n.Stmt], mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        for s in body:
            if mask:
                self.statement(s, mask, guards)

    def statement(self, s: n.Stmt, mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        match s:
            case n.For():
                self.for_(s, mask, guards)
            case n.If():
                self.if_(s, mask, guards)
            case n.Role():
                self.role(s, mask, guards)
            case n.Elect(name):
                if len(mask) != 32 or guards:
                    raise OutsideError("an election among some lanes")
                self.elected.add(name)
                self.env.pop(name, None)
            case n.Let(name, value):
                self.counters.forget(name)
                self.declared[name] = (mask, guards)
                self.env[name] = self.value(value)
            case n.Assign(name, value):
                if self.declared.get(name) != (mask, guards):
                    raise OutsideError(f"{name} is set under a condition")
                self.env[name] = self.value(value)
            case _:
                self.operation(s, mask, guards)

    def role(self, s: n.Role, mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        unit = {"threads": "tid", "warps": "warp", "warpgroups": "wg"}[s.unit]
        inside = Binary("and", Binary("<=", s.lo, Var(unit)), Binary("<", Var(unit), s.hi))
        self.if_(n.If(inside, s.body), mask, guards)

    def if_(self, s: n.If, mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        cond = self.value(s.cond)
        nobody: dict[str, Expr] = {p: Int(0) for p in self.elected}
        tests = [simple(fold(cond, t | nobody)) for t in self.threads]
        if len(set(tests)) > 1:
            self.conditions = [(*old, test) for old, test in zip(self.conditions, tests, strict=True)]
        sides: dict[Expr, set[int]] = {}
        for lane in mask:
            sides.setdefault(simple(self.on(cond, lane)), set()).add(lane)
        for test, lanes in sides.items():
            some = frozenset(lanes)
            if isinstance(test, Int):
                self.block(s.then if test.value else s.orelse, some, guards)
                continue
            yes = comparison(test, self.opaque)
            if yes is None:
                raise OutsideError(f"the condition {print_expr(test)} is not linear")
            self.block(s.then, some, guards + yes)
            if s.orelse:
                no = comparison(Unary("not", test), self.opaque)
                if no is None:
                    raise OutsideError(f"the opposite of {print_expr(test)} is no conjunction")
                self.block(s.orelse, some, guards + no)

    def for_(self, s: n.For, mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        lo, hi, step = (self.shared_by(e, mask) for e in (s.lo, s.hi, s.step))
        if isinstance(lo, Int) and isinstance(hi, Int) and isinstance(step, Int) and step.value > 0:
            turns = range(lo.value, hi.value, step.value)
            if len(turns) <= MAX_UNROLL:
                copy = self.copy
                for i in turns:
                    self.env[s.var] = Int(i)
                    self.copy = (*copy, i)
                    self.block(s.body, mask, guards)
                self.copy = copy
                return
        if self.loop is None and self.region is None and self.tiled and any(map(self.runs_on, s.body)):
            self.tiles_(s, lo, hi, step, mask, guards)
            return
        if self.loop is not None:
            raise OutsideError("a loop inside a loop")
        if self.region is not None:
            self.inside_tile(s, lo, hi, step, mask, guards)
            return
        first: Expr = lo
        if step != Int(1):
            # the counter counts turns; how many there are may be any number
            lo, hi = Int(0), Call("cdiv", (Binary("-", hi, lo), step))
        bounds = [var(FIRST) - linear(x, self.opaque) for x in alternatives("max", lo)]
        bounds += [linear(x, self.opaque) - var(FIRST) - 1 for x in alternatives("min", hi)]
        outer, self.domain = self.domain, tuple(bounds)
        self.segment += 1
        self.bounds[self.segment] = self.domain
        self.loop = s.var
        stepped = Binary("+", first, Binary("*", Var(FIRST), step))
        self.env[s.var] = Var(FIRST) if step == Int(1) else stepped
        self.reads.clear()
        ahead = Binary("-", Var(FIRST), lo)
        hidden = self.counters.enter(s.body, self.env, ahead)
        self.block([x for x in s.body if id(x) not in hidden], mask, guards)
        self.env.pop(s.var, None)
        self.loop = None
        turns_made = Binary("-", hi, lo)
        if not self.facts.entails((), [(linear(turns_made, self.opaque),)] if is_linear(turns_made) else []):
            turns_made = Binary("-", Call("max", (hi, lo)), lo)
        self.counters.leave(self.env, turns_made)
        self.reads.clear()
        self.domain = outer
        self.segment += 1

    def runs_on(self, s: n.Stmt) -> bool:
        """Whether a statement is a loop that is not unrolled, or has one inside."""
        if not isinstance(s, n.For):
            return any(map(self.runs_on, (*s.then, *s.orelse))) if isinstance(s, n.If) else False
        lo, hi, step = (self.value(e) for e in (s.lo, s.hi, s.step))
        if isinstance(lo, Int) and isinstance(hi, Int) and isinstance(step, Int) and step.value > 0:
            if len(range(lo.value, hi.value, step.value)) <= MAX_UNROLL:
                return any(map(self.runs_on, s.body))
        return True

    def tiles_(
        self, s: n.For, lo: Expr, hi: Expr, step: Expr, mask: frozenset[int], guards: tuple[Lin, ...]
    ) -> None:
        """A loop around a loop: its counters move by prefix sums of the inner trip counts."""
        if guards:
            raise OutsideError("tiles under a condition")
        inner = [x for x in s.body if isinstance(x, n.For) and self.runs_on(x)]
        if len(inner) != 1 or sum(map(self.runs_on, s.body)) != 1:
            raise OutsideError("tiles with several loops inside, or one under a condition")
        length = Binary("-", hi, lo)
        count = length if step == Int(1) else Call("cdiv", (length, step))
        linear(count, self.opaque)
        self.segment += 1
        self.region = self.segment
        self.tiles[self.region] = count
        self.regions[self.segment] = self.region
        self.env[s.var] = Binary("+", lo, Binary("*", Var(TILE), step))
        outside = dict(self.env)
        stages = dict(self.counters.stages)
        moved = {x.name for x in statements(inner[0].body) if isinstance(x, n.Assign)}
        others = {x.name for x in statements(s.body) if isinstance(x, n.Assign)} - moved
        declared = {x.name for x in statements(s.body) if isinstance(x, n.Let)}
        if others - declared:
            raise OutsideError(f"{min(others - declared)} is carried from tile to tile")
        self.counters.enter(inner[0].body, self.env, Int(0))
        self.counters.leave(self.env, Var(BEFORE))
        self.reads.clear()
        self.block(s.body, mask, guards)
        self.reads.clear()
        self.env, self.counters.stages = outside, stages
        self.counters.enter(inner[0].body, self.env, Int(0))
        self.counters.leave(self.env, Var(ALL))
        self.env.pop(s.var, None)
        self.region = None
        self.segment += 1

    def inside_tile(
        self, s: n.For, lo: Expr, hi: Expr, step: Expr, mask: frozenset[int], guards: tuple[Lin, ...]
    ) -> None:
        """The loop inside a tile, whose counter goes on over all tiles."""
        assert self.region is not None
        if step != Int(1) or guards:
            raise OutsideError("a loop inside tiles that skips steps, or under a condition")
        trip = fold(Binary("-", hi, lo), {})
        if self.trips.setdefault(self.region, trip) != trip or not self.opaque(trip):
            raise OutsideError(
                "loops inside tiles with different trip counts, or one that depends on the tile"
            )
        outer, self.domain = self.domain, (var(FIRST) - var(BEFORE), var(BEHIND) - var(FIRST) - 1)
        self.segment += 1
        self.regions[self.segment] = self.region
        self.bounds[self.segment] = self.domain
        self.loop = s.var
        ahead = Binary("-", Var(FIRST), Var(BEFORE))
        self.env[s.var] = Binary("+", lo, ahead)
        self.reads.clear()
        hidden = self.counters.enter(s.body, self.env, ahead)
        self.block([x for x in s.body if id(x) not in hidden], mask, guards)
        self.env.pop(s.var, None)
        self.loop = None
        self.counters.leave(self.env, Binary("-", Var(BEHIND), Var(BEFORE)))
        self.reads.clear()
        self.domain = outer
        self.segment += 1
        self.regions[self.segment] = self.region

    # ------------------------------------------------------------ operations

    def operation(self, s: n.Stmt, mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        self.used(s, mask, guards)
        if isinstance(s, n.SetMaxNReg):
            if self.loop is not None or any(o.kind not in ("meet", "init") for o in self.ops):
                raise OutsideError("setmaxnreg after the start of a role")
        if isinstance(s, n.LdGlobal | n.StGlobal) and s.sem != "weak":
            raise OutsideError("synchronization through global memory")
        if isinstance(s, _LOCAL):
            self.matrix_guards(s, guards)
            return
        if isinstance(s, n.FenceProxyAsync) and s.half is None and s.space not in ("all", "shared_cta"):
            return
        made = self.made(s, mask)
        if made is None:
            raise OutsideError(f"{type(s).__name__} with a number of stages that is a parameter")
        domain = (*self.domain, *guards)
        self.ops.append(
            replace(
                made,
                statement=(self.numbers[id(s)], *self.copy),
                segment=self.segment,
                place=len(self.ops),
                domain=domain,
                span=s.span,
            )
        )
        self.lanes.append(mask)
        if made.kind in _MATRIX:
            self.matrix_guards(s, guards)
        if isinstance(s, n.LdShared | n.LdMatrix):
            if s.name in self.reaching:
                self.reads[s.name] = frozenset({len(self.ops) - 1})
            else:
                self.arrived(len(self.ops) - 1, s)

    def matrix_guards(self, s: n.Stmt, guards: tuple[Lin, ...]) -> None:
        """Fragments are judged at one number of stages: what becomes of them must not depend on it."""
        if isinstance(s, n.Wgmma | n.WgmmaFence | n.WgmmaCommit | n.WgmmaWait | n.FragRead | n.FragWrite):
            for c in (*self.domain, *guards):
                if any(self.fixed & set(re.findall(r"\w+", name)) for name in c.names()):
                    raise OutsideError("which wgmmas execute depends on the number of stages")

    def used(self, s: n.Stmt, mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        """Notes the first statement that shows the value of a read of this iteration to be there (K1)."""
        if isinstance(s, n.LdGlobal):
            self.reads.pop(s.name, None)
        flow = carried(s)
        if flow is not None:
            name, sources = flow
            self.reads[name] = frozenset[int]().union(*(self.reads.get(x, frozenset()) for x in sources))
        over = frozenset[int]().union(*(self.reads.get(x, frozenset()) for x in pinned(s)))
        if not over:
            return
        self.reads = {x: ats - over for x, ats in self.reads.items()}
        for at in sorted(over):
            if self.ops[at].domain == (*self.domain, *guards) and self.lanes[at] == mask:
                self.arrived(at, s)

    def arrived(self, at: int, s: n.Stmt) -> None:
        """The value of a read is there, or never needed, from a statement on."""
        statement = (self.numbers[id(s)], *self.copy, at)
        use = Op("use", statement, self.segment, len(self.ops), self.ops[at].domain)
        self.ops.append(replace(use, of=at, span=s.span))
        self.lanes.append(self.lanes[at])

    # ------------------------------------------------------------ agents

    def prune(self) -> None:
        """Leaves out what no size of the case executes."""
        kept = [i for i, op in enumerate(self.ops) if not self.facts.impossible(op.domain)]
        self.ops, self.lanes = [self.ops[i] for i in kept], [self.lanes[i] for i in kept]

    def parts(self) -> list[tuple[int, tuple[Op, ...]]]:
        """The warp's lanes, grouped by what they do."""
        groups: dict[tuple[int, ...], int] = {}
        for lane in range(32):
            key = tuple(i for i, mask in enumerate(self.lanes) if lane in mask)
            groups[key] = groups.get(key, 0) + 1
        return [(count, tuple(self.ops[i] for i in key)) for key, count in groups.items()]


# ---------------------------------------------------------------- across warps


def _uniform_arrays(warps: list[_Warp], depths: Mapping[str, Lin]) -> None:
    """Arrays indexed by numbers alone are one ring of depth 1 for each element; others are one ring."""
    names_: dict[str, bool] = {}
    for w in warps:
        for op in w.ops:
            if op.ring is None:
                continue
            uniform = op.ring[1] is not None or (not op.index.terms and not depths[op.ring[0]].terms)
            names_[op.ring[0]] = names_.get(op.ring[0], True) and uniform
    for w in warps:
        for i, op in enumerate(w.ops):
            if op.ring is None:
                continue
            array = op.ring[0]
            if not names_[array]:
                if op.ring[1] is not None:
                    raise OutsideError(f"{array} is waited for by slots and by turns")
                continue
            if op.kind == "wait" and op.ring[1] is not None:
                continue
            slot = op.index.const
            index = num(0)
            if op.kind == "wait" and single(op.domain) is None:
                raise OutsideError(f"a wait on {array} whose parity never changes")
            tiled = op.segment in w.regions
            if tiled and op.kind == "wait":
                raise OutsideError(f"a wait on {array} whose parity is the same in every tile")
            if tiled and single(op.domain) is not None:
                index = var(TILE)
            if op.kind in ("arrive", "expect", "copy") and single(op.domain) is None:
                index = var(FIRST)
            w.ops[i] = replace(op, ring=(array, slot), index=index)


def _meetings(warps: list[_Warp]) -> None:
    """A barrier id belongs to one set of warps, all of whose lanes execute the same statements on it."""
    members: dict[int, dict[tuple[int, ...], dict[int, set[int]]]] = {}
    counts: dict[int, set[int]] = {}
    domains: dict[tuple[int, ...], tuple[Lin, ...]] = {}
    for w in warps:
        for op, lanes in zip(w.ops, w.lanes, strict=True):
            if op.kind == "meet":
                met = members.setdefault(op.lag, {}).setdefault(op.statement, {})
                met.setdefault(w.warp, set()).update(lanes)
                counts.setdefault(op.lag, set()).add(op.count)
                if domains.setdefault(op.statement, op.domain) != op.domain:
                    raise OutsideError(f"warps that meet at barrier {op.lag} in different turns")
            elif op.kind in ("warp_meet", *_MATRIX) and len(lanes) != 32:
                raise OutsideError("some lanes of a warp alone in an operation of the whole warp")
    for number, by_statement in members.items():
        sets = {frozenset(met) for met in by_statement.values()}
        full = all(len(lanes) == 32 for met in by_statement.values() for lanes in met.values())
        if len(sets) != 1 or not full or counts[number] != {32 * len(next(iter(sets)))}:
            raise OutsideError(f"barrier {number} with different statements or threads")


__all__ = ["Walked", "known", "walk"]
