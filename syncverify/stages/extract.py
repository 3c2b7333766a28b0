"""From a kernel to its ``Program``: one walk over the text for each warp."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from syncverify.ir import nodes as n
from syncverify.ir.execute_expr import fold, statements
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var, names
from syncverify.ir.footprints import locate
from syncverify.ir.layout import SWIZZLE_ALIGN, BufferLayout
from syncverify.ir.printer import print_expr
from syncverify.model.proxies import Access
from syncverify.stages.counters import Counters
from syncverify.stages.linear import Facts, Lin, OutsideError, comparison, linear, num, var
from syncverify.stages.program import (
    FIRST,
    Case,
    Op,
    Piece,
    Program,
    Ring,
    Touch,
    representatives,
    single,
    stage_parameters,
)

#: Most ways of electing lanes that are told apart.
MAX_ELECTIONS = 8
#: Loops with at most this many turns, by numbers, are unrolled.
MAX_UNROLL = 16
#: Statements that neither meet others nor touch shared memory.
_LOCAL = (n.Compute, n.LdGlobal, n.StGlobal, n.FragRead, n.FragWrite, n.WgmmaFence, n.SetMaxNReg,
          n.FenceMbarrierInit, n.BulkPrefetch, n.TmaPrefetch, n.Fence)  # fmt: skip
_MATRIX = ("mma", "mma_commit", "mma_drain")


def extract(kernel: n.Kernel, case: Case) -> Program:
    """The kernel's agents and rings in the launches of a case.

    OutsideError with the reason where the kernel is not of the class.
    """
    _plain(kernel)
    depths = _depths(kernel)
    facts = (*known(kernel), *case.sizes)
    fixed = stage_parameters(kernel)
    numbers = {id(s): i for i, s in enumerate(statements(kernel.body))}
    holds = Facts(facts)
    warps: list[_Warp] = []
    for number in range(kernel.launch.threads // 32):
        lane = case.elected[number] if case.elected else 0
        w = _Warp(kernel, number, numbers, depths, fixed, holds, lane)
        w.block(kernel.body, frozenset(range(32)), ())
        if case.sizes:
            w.prune()
        warps.append(w)
    _uniform_arrays(warps, depths)
    _meetings(warps)
    return Program(representatives([(w.warp, w.parts()) for w in warps]), depths, facts, fixed)


def elections(kernel: n.Kernel) -> list[tuple[int, ...]]:
    """One choice of elected lanes for each way in which guards can tell them apart."""
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
            w = _Warp(kernel, number, numbers, depths, stage_parameters(kernel), holds, lane)
            w.block(kernel.body, frozenset(range(32)), ())
            tried.add(lane)
            kinds = {x: kinds[x] + w.told[x] for x in range(32)}
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
class _Warp:
    """The walk of one warp. ``lanes``: for each operation, which lanes execute it."""

    kernel: n.Kernel
    warp: int
    numbers: Mapping[int, int]
    depths: Mapping[str, Lin]
    fixed: frozenset[str]
    facts: Facts
    chosen: int
    ops: list[Op] = field(default_factory=list)
    lanes: list[frozenset[int]] = field(default_factory=list)
    env: dict[str, Expr] = field(default_factory=dict)
    elected: set[str] = field(default_factory=set)
    declared: dict[str, tuple[frozenset[int], tuple[Lin, ...]]] = field(default_factory=dict)
    told: list[tuple[Expr, ...]] = field(default_factory=lambda: [()] * 32)
    segment: int = 0
    loop: str | None = None
    copy: tuple[int, ...] = ()
    domain: tuple[Lin, ...] = (var(FIRST), num(0) - var(FIRST))
    reads: dict[str, int] = field(default_factory=dict)
    threads: list[dict[str, Expr]] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        x, y, _ = self.kernel.launch.block
        self.env |= {"warp": Int(self.warp), "wg": Int(self.warp // 4), "rank": Int(0)}
        for lane in range(32):
            t = 32 * self.warp + lane
            place = {"tid": t, "tid.x": t % x, "tid.y": t // x % y, "tid.z": t // (x * y), "lane": lane}
            self.threads.append({k: Int(v) for k, v in place.items()})

    # ------------------------------------------------------------ values

    def opaque(self, e: Expr) -> bool:
        """A part that no counter and no lane decides may be any number."""
        return not names(e) & {FIRST, *self.threads[0], *self.elected}

    def value(self, e: Expr) -> Expr:
        return fold(e, self.env)

    def on(self, e: Expr, lane: int) -> Expr:
        """A value with the lane's own numbers."""
        own = self.threads[lane] | {p: Int(int(lane == self.chosen)) for p in self.elected}
        return fold(e, own)

    def shared_by(self, e: Expr, mask: frozenset[int]) -> Expr:
        """A value that must be the same in all lanes."""
        e = self.value(e)
        # any lane may be the elected one
        anyone = bool(self.elected) and not names(e).isdisjoint(self.threads[0])
        found = {self.on(e, lane) for lane in (self.any_of(mask) if anyone else mask)}
        if len(found) != 1:
            raise OutsideError(f"{print_expr(e)} differs between lanes")
        return found.pop()

    def any_of(self, mask: frozenset[int]) -> frozenset[int]:
        """The lanes that may be meant: the elected one stands for all that guards do not tell from it."""
        if not self.elected:
            return mask
        return mask | {x for x in range(32) if self.told[x] == self.told[self.chosen]}

    def number(self, e: Expr, mask: frozenset[int], what: str) -> int:
        e = self.shared_by(e, mask)
        if not isinstance(e, Int):
            raise OutsideError(f"{what} is no number: {print_expr(e)}")
        return e.value

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
            self.told = [(*old, test) for old, test in zip(self.told, tests, strict=True)]
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
        if self.loop is not None:
            raise OutsideError("a loop inside a loop")
        if step != Int(1):
            raise OutsideError("a loop with a step")
        bounds = [var(FIRST) - linear(x, self.opaque) for x in _parts("max", lo)]
        bounds += [linear(x, self.opaque) - var(FIRST) - 1 for x in _parts("min", hi)]
        outer, self.domain = self.domain, tuple(bounds)
        self.segment += 1
        self.loop = s.var
        self.env[s.var] = Var(FIRST)
        self.reads.clear()
        ahead = Binary("-", Var(FIRST), lo)
        hidden = self.counters.enter(s.body, self.env, ahead)
        self.block([x for x in s.body if id(x) not in hidden], mask, guards)
        self.env.pop(s.var, None)
        self.loop = None
        turns_made = Binary("-", hi, lo)
        if not self.facts.entails((), [(linear(turns_made, self.opaque),)] if _is_linear(turns_made) else []):
            turns_made = Binary("-", Call("max", (hi, lo)), lo)
        self.counters.leave(self.env, turns_made)
        self.reads.clear()
        self.domain = outer
        self.segment += 1

    # ------------------------------------------------------------ operations

    def operation(self, s: n.Stmt, mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        self.used(s, mask, guards)
        if isinstance(s, n.SetMaxNReg) and (self.segment or self.ops):
            if any(o.kind != "meet" and o.kind != "init" for o in self.ops):
                raise OutsideError("setmaxnreg after the start of a role")
        if isinstance(s, n.LdGlobal | n.StGlobal) and s.sem != "weak":
            raise OutsideError("synchronization through global memory")
        if isinstance(s, _LOCAL):
            self.matrix_guards(s, guards)
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
            self.reads[s.name] = len(self.ops) - 1

    def matrix_guards(self, s: n.Stmt, guards: tuple[Lin, ...]) -> None:
        """Fragments are judged at one number of stages: what becomes of them must not depend on it."""
        if isinstance(s, n.Wgmma | n.WgmmaFence | n.WgmmaCommit | n.WgmmaWait | n.FragRead | n.FragWrite):
            for c in (*self.domain, *guards):
                if any(self.fixed & set(re.findall(r"\w+", name)) for name in c.names()):
                    raise OutsideError("which wgmmas execute depends on the number of stages")

    def used(self, s: n.Stmt, mask: frozenset[int], guards: tuple[Lin, ...]) -> None:
        """Notes the first statement that needs the value of a read of this iteration."""
        value = getattr(s, "value", None)
        if not isinstance(value, Expr) or not self.reads:
            return
        for name in names(value) & set(self.reads):
            at = self.reads.pop(name)
            read = self.ops[at]
            moves = isinstance(s, n.Compute) and isinstance(value, Var)
            same = read.domain == (*self.domain, *guards) and self.lanes[at] == mask
            if same and not moves and not isinstance(s, n.Let | n.Assign):
                use = Op(
                    "use", (self.numbers[id(s)], *self.copy, at), self.segment, len(self.ops), read.domain
                )
                self.ops.append(replace(use, of=at, span=s.span))
                self.lanes.append(mask)

    def made(self, s: n.Stmt, mask: frozenset[int]) -> Op | None:
        """The operation of a statement, its place left open; None for what is not modelled."""
        blank = Op("", (), 0, 0, ())
        match s:
            case n.MbarrierInit(bar, arrivals):
                ring, index = self.barrier(bar, mask)
                count = self.number(arrivals, mask, "a count")
                return replace(blank, kind="init", ring=ring, index=index, count=count)
            case n.MbarrierArrive() if not (s.drop or s.no_complete or s.token) and s.sem == "release":
                ring, index = self.barrier(s.bar, mask)
                count = self.number(s.count, mask, "a count")
                size = 0 if s.expect is None else self.number(s.expect, mask, "a byte count")
                return replace(blank, kind="arrive", ring=ring, index=index, count=count, bytes=size)
            case n.MbarrierExpectTx(bar, size_):
                ring, index = self.barrier(bar, mask)
                size = self.number(size_, mask, "a byte count")
                return replace(blank, kind="expect", ring=ring, index=index, bytes=size)
            case n.MbarrierWait() if not s.token and s.sem == "acquire":
                ring, index = self.barrier(s.bar, mask)
                return self.wait(blank, s, ring, index, mask)
            case n.BulkLoad() if s.multicast is None:
                ring, index = self.barrier(s.bar, mask)
                touch = self.touch(Access.ASYNC_WRITE, s.dst, mask, 16)
                self.source(s.src, mask)
                return replace(
                    blank, kind="copy", ring=ring, index=index, bytes=_size(touch), touches=(touch,)
                )
            case n.TmaLoad() if s.multicast is None:
                ring, index = self.barrier(s.bar, mask)
                touch = self.touch(Access.ASYNC_WRITE, s.dst, mask, self.tma(s.map))
                return replace(
                    blank, kind="copy", ring=ring, index=index, bytes=_size(touch), touches=(touch,)
                )
            case n.BulkStore():
                self.source(s.dst, mask)
                return replace(blank, kind="store", touches=(self.touch(Access.ASYNC_READ, s.src, mask, 16),))
            case n.TmaStore():
                touch = self.touch(Access.ASYNC_READ, s.src, mask, self.tma(s.map))
                return replace(blank, kind="store", touches=(touch,))
            case n.BulkCommit():
                return replace(blank, kind="commit")
            case n.BulkWait(pending):
                return replace(blank, kind="drain", index=linear(self.shared_by(pending, mask), self.opaque))
            case n.Wgmma():
                regions = [r for r in (s.a, s.b) if isinstance(r, n.Region)]
                touches = tuple(self.touch(Access.MMA_READ, r, mask, 16) for r in regions)
                return replace(blank, kind="mma", touches=touches)
            case n.WgmmaCommit():
                return replace(blank, kind="mma_commit")
            case n.WgmmaWait(pending):
                return replace(
                    blank, kind="mma_drain", index=linear(self.shared_by(pending, mask), self.opaque)
                )
            case n.BarrierSync(id_, count_):
                number = self.number(id_, mask, "a barrier id")
                threads = self.kernel.launch.threads
                count = threads if count_ is None else self.number(count_, mask, "a count of threads")
                return replace(blank, kind="meet", lag=number, count=count)
            case n.WarpSync(None):
                return replace(blank, kind="warp_meet")
            case n.FenceProxyAsync(space, None) if space in ("all", "shared_cta"):
                return replace(blank, kind="fence")
            case n.LdShared(_, src) | n.LdMatrix(_, src):
                return replace(blank, kind="touch", touches=(self.touch(Access.GENERIC_READ, src, mask, 1),))
            case n.StShared(dst) | n.StMatrix(dst):
                return replace(blank, kind="touch", touches=(self.touch(Access.GENERIC_WRITE, dst, mask, 1),))
        return None

    def barrier(self, ref: n.BarrierRef, mask: frozenset[int]) -> tuple[Ring, Lin]:
        if ref.rank is not None:
            raise OutsideError("a barrier of another block")
        index = Int(0) if ref.index is None else self.shared_by(ref.index, mask)
        return (ref.name, None), self.slot(index, ref.name)

    def slot(self, e: Expr, array: str) -> Lin:
        """The ring index whose remainder by the array's depth is ``e``."""
        depth = self.depths[array]
        match e:
            case Binary("%", a, d) if linear(d, self.opaque) == depth:
                return linear(a, self.opaque)
        index = linear(e, self.opaque)
        if not self.facts.entails(self.domain, [(index, depth - index - 1)]):
            raise OutsideError(f"{print_expr(e)} may not lie in {array}")
        return index

    def wait(self, blank: Op, s: n.MbarrierWait, ring: Ring, index: Lin, mask: frozenset[int]) -> Op:
        """``lag``: the parity waited for, less that of the turn ``index div depth``, modulo 2."""
        depth = self.depths[ring[0]]
        base, per, odd = _parity(self.shared_by(s.phase, mask), self.opaque)
        if per == depth and base is not None:
            turns = _multiple(base - index, depth)
            if turns is not None:
                return replace(blank, kind="wait", ring=ring, index=index, lag=(odd + turns) % 2)
        if base is None and self.facts.entails(self.domain, [(index, depth - index - 1)]):
            return replace(blank, kind="wait", ring=ring, index=index, lag=odd % 2, of=-2)
        if per == num(1) and base is not None and not index.coefficient(FIRST):
            # one barrier, waited for once in every turn: the turn itself is its index
            return replace(blank, kind="wait", ring=(ring[0], index.const), index=base, lag=odd % 2, of=-3)
        raise OutsideError(f"the parity {print_expr(s.phase)} does not follow the slots of {ring[0]}")

    def tma(self, name: str) -> int:
        swizzle = next(m.swizzle for m in self.kernel.maps if m.name == name)
        return max(128, SWIZZLE_ALIGN[swizzle])

    def source(self, g: n.GlobalRegion, mask: frozenset[int]) -> None:
        """Alignment in global memory, where the number of stages decides the place."""
        start = self.shared_by(g.start, mask)
        if not names(start) & self.fixed:
            return
        element = n.DTYPE_BYTES[next(t.dtype for t in self.kernel.tensors if t.name == g.tensor)]
        at = linear(start, self.opaque)
        if any(k * element % 16 for _, k in at.terms) or at.const * element % 16:
            raise OutsideError("a copy's place in global memory may not be aligned")

    def touch(self, access: Access, r: n.Region, mask: frozenset[int], align: int) -> Touch:
        if r.rank is not None:
            raise OutsideError("shared memory of another block")
        s = next(b for b in self.kernel.shared if b.name == r.buffer)
        element = n.DTYPE_BYTES[s.dtype]
        if r.index:
            inner = tuple(d.value for d in s.shape[1:] if isinstance(d, Int))
            index = self.slot(self.shared_by(r.index[0], mask), s.name)
        else:
            if not all(isinstance(d, Int) for d in s.shape):
                raise OutsideError(f"all slots of {s.name} at once")
            inner, index = tuple(d.value for d in s.shape if isinstance(d, Int)), num(0)
            if inner[0] > 1 and self.depths[s.name] != num(1):
                self.whole(s)
        place = BufferLayout(s.name, 0, inner, element)
        slot = element * prod(inner)
        pieces: set[Piece] = set()
        bytes_: set[int] = set()
        for lane in sorted(self.any_of(mask)):
            found = self.located(place, r, lane)
            bytes_.add(found[1])
            for lo, hi in found[0]:
                if lo % align:
                    raise OutsideError(f"a place in {s.name} that is not aligned to {align} bytes")
                pieces.add((lo, hi, 32 * self.warp + lane))
        base = max(s.align, element, SWIZZLE_ALIGN[s.swizzle])
        if base % align or (slot % align and self.depths[s.name] != num(1)):
            raise OutsideError(
                f"slots of {s.name} are not aligned to {align} bytes for every number of stages"
            )
        if len(bytes_) != 1:
            raise OutsideError("lanes that touch different numbers of bytes")
        return Touch(access, s.name, index, tuple(sorted(pieces)))

    def whole(self, s: n.Shared) -> None:
        """A buffer touched as a whole must always be."""
        for x in statements(self.kernel.body):
            for name in ("dst", "src", "a", "b"):
                r = getattr(x, name, None)
                if isinstance(r, n.Region) and r.buffer == s.name and r.index:
                    raise OutsideError(f"{s.name} is touched by slots and as a whole")

    def located(self, b: BufferLayout, r: n.Region, lane: int) -> tuple[list[tuple[int, int]], int]:
        def get(e: Expr | None) -> int | None:
            if e is None:
                return None
            found = self.on(self.value(e), lane)
            if not isinstance(found, Int):
                raise OutsideError(f"a place inside a slot that changes: {print_expr(found)}")
            return found.value

        index = [get(e) or 0 for e in r.index[1:]]
        place = locate(b, index, get(r.start), get(r.count), get(r.rows), get(r.pitch))
        if place.problem:
            raise OutsideError(place.problem)
        return place.range.runs(), place.bytes

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


# ---------------------------------------------------------------- expressions


def simple(e: Expr) -> Expr:
    """A condition without parts that are decided."""
    match e:
        case Binary("and", a, b):
            x, y = simple(a), simple(b)
            if x == Int(0) or y == Int(0):
                return Int(0)
            return y if isinstance(x, Int) else x if isinstance(y, Int) else Binary("and", x, y)
        case Binary("or", a, b):
            x, y = simple(a), simple(b)
            for p, q in ((x, y), (y, x)):
                if isinstance(p, Int):
                    return Int(1) if p.value else q
            return Binary("or", x, y)
        case Unary("not", a):
            x = simple(a)
            return Int(int(not x.value)) if isinstance(x, Int) else Unary("not", x)
    return e


def _parts(call: str, e: Expr) -> list[Expr]:
    return [p for a in e.args for p in _parts(call, a)] if isinstance(e, Call) and e.name == call else [e]


def _is_linear(e: Expr) -> bool:
    try:
        linear(e)
    except OutsideError:
        return False
    return True


def _size(t: Touch) -> int:
    """The bytes of one thread's copy."""
    first = t.pieces[0][2]
    return sum(hi - lo for lo, hi, thread in t.pieces if thread == first)


def _multiple(d: Lin, depth: Lin) -> int | None:
    """How many times ``depth`` the form is."""
    if not d.terms and not d.const:
        return 0
    for t in (1, -1, 2, -2, 3, -3):
        if depth.scaled(t) == d:
            return t
    if not depth.terms and not d.terms and depth.const and d.const % depth.const == 0:
        return d.const // depth.const
    return None


def _parity(e: Expr, opaque: object) -> tuple[Lin | None, Lin, int]:
    """A parity as ``(base div per + odd) mod 2``; no base for a number."""
    may = opaque if callable(opaque) else None
    match e:
        case Int(v) if v in (0, 1):
            return None, num(1), v
        case Binary("^", a, Int(1)) | Binary("^", Int(1), a) | Binary("-", Int(1), a):
            base, per, odd = _parity(a, opaque)
            return base, per, odd + 1
        case Binary("%", a, Int(2)) | Binary("&", a, Int(1)):
            return _turn(a, may)
        case Binary("==", a, Int(0)) | Unary("not", a):
            base, per, odd = _parity(a, opaque)
            return base, per, odd + 1
    raise OutsideError(f"{print_expr(e)} is no parity of a turn")


def _turn(e: Expr, may: object) -> tuple[Lin | None, Lin, int]:
    """``base div per + odd``, where the number that is divided by 2 is one quotient plus a number."""
    opaque = may if callable(may) else None
    match e:
        case Binary("//", a, d):
            return linear(a, opaque), linear(d, opaque), 0
        case Binary("+", a, Int(v)) | Binary("+", Int(v), a):
            base, per, odd = _turn(a, may)
            return base, per, odd + v
        case Binary("-", a, Int(v)):
            base, per, odd = _turn(a, may)
            return base, per, odd - v
        case Binary("^", a, Int(1)):
            base, per, odd = _turn(a, may)
            return base, per, odd + 1
        case Binary("%", a, Int(2)) | Binary("&", a, Int(1)):
            return _turn(a, may)
    found = linear(e, opaque)
    if not found.terms:
        return None, num(1), found.const
    return found, num(1), 0


# ---------------------------------------------------------------- across warps


def _uniform_arrays(warps: list[_Warp], depths: Mapping[str, Lin]) -> None:
    """Arrays indexed by numbers alone are one ring of depth 1 for each element; others are one ring."""
    names_: dict[str, bool] = {}
    for w in warps:
        for op in w.ops:
            if op.ring is None:
                continue
            loose = op.ring[1] is not None or (not op.index.terms and not depths[op.ring[0]].terms)
            names_[op.ring[0]] = names_.get(op.ring[0], True) and loose
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


__all__ = ["extract", "known"]
