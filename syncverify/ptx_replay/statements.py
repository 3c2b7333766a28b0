"""Events of one class of lanes as statements of the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from syncverify.base.source import Span
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Expr, Int, Var
from syncverify.model.events import (
    END,
    NO_ARRIVAL_NEEDED,
    Ev,
    Event,
    Flag,
    Footprint,
    SystemInfo,
    ThreadClass,
)
from syncverify.model.proxies import Scope, Space
from syncverify.ptx_replay.places import Places, Unfit
from syncverify.ptx_replay.regions import regions

#: Global memory by who touches it: data that nobody follows is an array of its own for each.
TENSORS = ("read", "written", "updated", "copied_in", "fetched", "copied_out", "memory")
_FOLLOWED = TENSORS[-1]  # by address

_MEMORY = {Scope.CTA: "cta", Scope.CLUSTER: "cluster", Scope.GPU: "gpu", Scope.SYS: "sys"}
_MAPS = "a tensor map is edited"
_NO_STATEMENT = {
    Ev.MAP_REPLACE: _MAPS, Ev.MAP_RELEASE: _MAPS, Ev.MAP_ACQUIRE: _MAPS, Ev.MAP_CP_FENCE: _MAPS,
    Ev.SPIN: "a block waits for a word in global memory",
}  # fmt: skip


@dataclass(slots=True)
class Translator:
    """One class: its events in order, and what their statements are called."""

    info: SystemInfo
    places: Places
    me: ThreadClass
    barriers: Mapping[int, str]  # names by byte offset
    tokens: int = 0
    numbers: list[int] = field(default_factory=list)  # of asynchronous operations, as the simulator counts
    issued: int = 0
    registers: dict[int, list[str]] = field(default_factory=dict)  # what was last read into each
    reads: int = 0
    left_out: str = ""  # what the statements do not say, if the claim may depend on it

    def statements(self, event: Event) -> list[n.Stmt]:
        """The statements of an event; the last one is at its place, those before it at none."""
        code, site = event[0], event[1]
        if code == Ev.FAULT:
            raise Unfit(self.where(site, f"{event[2]} is known before the simulator's turn: {event[3]}"))
        if code == Ev.UNKNOWN:
            raise Unfit(self.where(site, event[2]))
        if code in _NO_STATEMENT or code not in _MAKERS:
            raise Unfit(self.where(site, _NO_STATEMENT.get(code, f"no statement of the IR says {code.name}")))
        try:
            found = list(_MAKERS[code](self, event))
        except Unfit as e:
            raise Unfit(self.where(site, str(e))) from None
        span = Span(self.info.file, self.places.number(site))
        nowhere = Span(self.info.file, 0)
        shown = code is not Ev.ELECT or self.info.sites[site].text.startswith("elect")
        last = span if shown and code is not Ev.USE else nowhere
        return [_at(s, last if i == len(found) - 1 else nowhere) for i, s in enumerate(found)]

    def where(self, site: int, text: str) -> str:
        return f"{self.info.sites[site].span}: {text}" if site >= 0 else text

    # -- operands

    def fp(self, index: int) -> Footprint:
        return self.info.footprints[index]

    def regions(self, index: int) -> list[n.Region]:
        return regions(self.fp(index), self.me.lanes, self.me.cta)

    def region(self, index: int) -> n.Region:
        found = self.regions(index)
        if len(found) > 1:
            raise Unfit("it copies several ranges of bytes as one")
        return found[0]

    def each(self, index: int) -> int:
        """The bytes that one lane touches."""
        fp = self.fp(index)
        return sum(hi - lo for lo, hi, _ in fp.lanes) // self.me.count if fp.lanes else fp.bytes

    def bar(self, index: int) -> n.BarrierRef:
        b = self.info.barriers[index]
        name = self.barriers[b.offset]
        return n.BarrierRef(name, None, None if b.cta == self.me.cta else Int(b.cta))

    def globals(self, index: int, tensor: str, count: int = 1) -> n.GlobalRegion:
        """Bytes of global memory: by address if they are followed, else of an array that nobody else uses."""
        if index < 0:
            return n.GlobalRegion(tensor, Int(0), Int(count))
        try:
            found = regions(self.fp(index), self.me.lanes, self.fp(index).memory)
        except Unfit:
            found = []
        size = self.each(index)
        if len(found) != 1 or found[0].rows != Int(1) or (count > 1 and size != count):
            self.left_out = "some ranges of global memory are not followed"
            return n.GlobalRegion(tensor, Int(0), Int(count))
        start = found[0].start or Int(0)
        return n.GlobalRegion(_FOLLOWED, start, Int(size))

    def issue(self) -> None:
        self.numbers.append(self.issued)
        self.issued += 1


def barrier_names(info: SystemInfo) -> dict[int, str]:
    """What the mbarrier at each byte offset is called: as in reports, if that is one name."""
    out: dict[int, str] = {}
    for b in info.barriers:
        if b.offset not in out:
            out[b.offset] = f"at{b.offset}" if b.name in out.values() else b.name
    return out


def _at(s: n.Stmt, span: Span) -> n.Stmt:
    return replace(s, span=span)


Maker = Callable[[Translator, Any], Iterator[n.Stmt]]
_MAKERS: dict[Ev, Maker] = {}


def _makes(*codes: Ev) -> Callable[[Maker], Maker]:
    def add(m: Maker) -> Maker:
        for c in codes:
            _MAKERS[c] = m
        return m

    return add


def _sem(flags: int) -> Literal["acq_rel", "sc", "acquire", "release"]:
    if flags & Flag.SC:
        return "sc"
    if flags & Flag.ACQUIRE and flags & Flag.RELEASE:
        return "acq_rel"
    if not flags & (Flag.ACQUIRE | Flag.RELEASE):
        raise Unfit("a fence that neither acquires nor releases")
    return "acquire" if flags & Flag.ACQUIRE else "release"


def _scope(scope: int) -> n.MemScope:
    return cast(n.MemScope, _MEMORY[Scope(scope)])


# ---------------------------------------------------------------- memory


@_makes(Ev.EXIT)
def _exit(t: Translator, e: Event) -> Iterator[n.Stmt]:
    if e[1] >= 0 and t.info.sites[e[1]].text != END:
        yield n.Exit()


@_makes(Ev.READ)
def _read(t: Translator, e: Event) -> Iterator[n.Stmt]:
    names = []
    for r in t.regions(e[2]):
        t.reads += 1
        names.append(f"r_{t.reads}" if e[3] != NO_ARRIVAL_NEEDED else "unused")
        if e[3] != NO_ARRIVAL_NEEDED:  # it matters, even if nothing on this path needs it
            yield n.If(Int(0), (_needs(names[-1:]),), ())
        yield n.LdShared(names[-1], r)
    if e[3] >= 0:
        t.registers[e[3]] = names


@_makes(Ev.USE)
def _use(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield _needs(t.registers.pop(e[2], []))


def _needs(names: list[str]) -> n.Stmt:
    """A store of what was computed from the values."""
    value: Expr = Int(0)
    for name in names:
        value = Binary("+", value, Var(name))
    return n.StGlobal(n.GlobalRegion("written", Int(0), Int(1)), value)


@_makes(Ev.WRITE)
def _write(t: Translator, e: Event) -> Iterator[n.Stmt]:
    value: Expr = Var("lane") if t.fp(e[2]).overlap else Int(0)
    for r in t.regions(e[2]):
        yield n.StShared(r, value)


@_makes(Ev.ATOMIC)
def _atomic(t: Translator, e: Event) -> Iterator[n.Stmt]:
    for r in t.regions(e[2]):
        yield n.AtomShared("add", r, Int(0), scope=_scope(e[3]))


@_makes(Ev.GLOBAL_READ)
def _global_read(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.LdGlobal("unused", t.globals(e[2], "read"))


@_makes(Ev.GLOBAL_WRITE)
def _global_write(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.StGlobal(t.globals(e[2], "written"), Int(0))


@_makes(Ev.GLOBAL_ATOMIC)
def _global_atomic(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.AtomGlobal("add", t.globals(e[2], "updated"), Int(0))


# ---------------------------------------------------------------- barriers


@_makes(Ev.INIT)
def _init(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.MbarrierInit(t.bar(e[2]), Int(e[3]))


@_makes(Ev.INVAL)
def _inval(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.MbarrierInval(t.bar(e[2]))


@_makes(Ev.ARRIVE)
def _arrive(t: Translator, e: Event) -> Iterator[n.Stmt]:
    _, _, bar, count, expect, flags = e
    token = None
    if flags & Flag.TOKEN:
        token = f"token{t.tokens}"
        t.tokens += 1
    yield n.MbarrierArrive(
        t.bar(bar),
        None if expect < 0 else Int(expect),
        Int(count),
        "relaxed" if flags & Flag.RELAXED else "release",
        "cluster" if flags & Flag.CLUSTER else "cta",
        bool(flags & Flag.DROP),
        bool(flags & Flag.NO_COMPLETE),
        token,
    )


@_makes(Ev.EXPECT_TX)
def _expect(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.MbarrierExpectTx(t.bar(e[2]), Int(e[3]))


@_makes(Ev.COMPLETE_TX)
def _complete(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.MbarrierCompleteTx(t.bar(e[2]), Int(e[3]))


@_makes(Ev.WAIT, Ev.WAIT_TOKEN)
def _wait(t: Translator, e: Event) -> Iterator[n.Stmt]:
    code, _, bar, phase, flags = e
    token = code == Ev.WAIT_TOKEN
    yield n.MbarrierWait(
        t.bar(bar),
        Var(f"token{phase}") if token else Int(phase),
        token,
        "relaxed" if flags & Flag.RELAXED else "acquire",
        "cluster" if flags & Flag.CLUSTER else "cta",
    )


@_makes(Ev.POLL, Ev.POLL_TOKEN)
def _poll(t: Translator, e: Event) -> Iterator[n.Stmt]:
    code, _, bar, phase, flags = e
    token = code == Ev.POLL_TOKEN
    yield n.MbarrierTest(
        "polled",
        t.bar(bar),
        Var(f"token{phase}") if token else Int(phase),
        token,
        bool(flags & Flag.MAY_SUSPEND),
        "relaxed" if flags & Flag.RELAXED else "acquire",
        "cluster" if flags & Flag.CLUSTER else "cta",
    )


@_makes(Ev.INIT_FENCE)
def _init_fence(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.FenceMbarrierInit()


@_makes(Ev.BARRIER_SYNC)
def _sync(t: Translator, e: Event) -> Iterator[n.Stmt]:
    count = Int(e[3]) if e[3] else None
    yield n.BarrierSync(Int(e[2]), count, bool(e[4] & Flag.ALIGNED), bool(e[4] & Flag.RED))


@_makes(Ev.BARRIER_ARRIVE)
def _barrier_arrive(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.BarrierArrive(Int(e[2]), Int(e[3] or -(-t.info.threads // 32) * 32), bool(e[4] & Flag.ALIGNED))


@_makes(Ev.WARP_SYNC)
def _warp_sync(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.WarpSync(Int(e[2]))


@_makes(Ev.CLUSTER_ARRIVE)
def _cluster_arrive(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.ClusterArrive("relaxed" if e[2] & Flag.RELAXED else "release", bool(e[2] & Flag.ALIGNED))


@_makes(Ev.CLUSTER_WAIT)
def _cluster_wait(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.ClusterWait(bool(e[2] & Flag.ALIGNED))


@_makes(Ev.ELECT)
def _elect(t: Translator, e: Event) -> Iterator[n.Stmt]:
    whole = (1 << min(32, t.info.threads - 32 * t.me.warp)) - 1
    yield n.Elect("elected") if e[2] & whole == whole else n.WarpSync(Int(e[2]))


@_makes(Ev.COLLECTIVE)
def _collective(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield from _elect(t, e)


@_makes(Ev.SETMAXNREG)
def _setmaxnreg(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.SetMaxNReg("inc" if e[2] else "dec", Int(e[3]))


@_makes(Ev.GRID_WAIT, Ev.GRID_LAUNCH)
def _grid(t: Translator, e: Event) -> Iterator[n.Stmt]:
    # What was read before the wait is taken for no output of the grid before, where no launch fact says more:
    # there the wait orders nothing.
    waits = e[0] is Ev.GRID_WAIT and t.info.has_to_wait
    yield n.GridDepWait() if waits else n.GridDepLaunch()


# ---------------------------------------------------------------- fences


@_makes(Ev.FENCE)
def _fence(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.Fence(_sem(e[2]), _scope(e[3]), bool(e[2] & Flag.SYNC_RESTRICT))


@_makes(Ev.PROXY_FENCE)
def _proxy_fence(t: Translator, e: Event) -> Iterator[n.Stmt]:
    spaces: dict[int, Any] = {
        Space.SHARED_CTA: "shared_cta",
        Space.SHARED_CLUSTER: "shared_cluster",
        Space.SHARED_CTA | Space.SHARED_CLUSTER: "shared_cluster",
        Space.GLOBAL: "global",
        Space.ALL: "all",
    }
    if e[2] not in spaces:
        raise Unfit("a proxy fence for an unusual set of state spaces")
    half: Any = {Flag.RELEASE: "release", Flag.ACQUIRE: "acquire"}.get(Flag(e[3]))
    yield n.FenceProxyAsync(spaces[e[2]], half)


# ---------------------------------------------------------------- copies


@_makes(Ev.CP_ASYNC)
def _cp_async(t: Translator, e: Event) -> Iterator[n.Stmt]:
    t.issue()
    yield n.CpAsync(t.region(e[2]), t.globals(e[3], "fetched", t.each(e[2])))


@_makes(Ev.CP_COMMIT)
def _cp_commit(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.CpAsyncCommit()


@_makes(Ev.CP_WAIT)
def _cp_wait(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.CpAsyncWait(None if e[2] < 0 else Int(e[2]))


@_makes(Ev.CP_ARRIVE)
def _cp_arrive(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.CpAsyncMbarrierArrive(t.bar(e[2]), bool(e[3]))


@_makes(Ev.BULK_LOAD)
def _bulk_load(t: Translator, e: Event) -> Iterator[n.Stmt]:
    targets = e[2]
    fp, bar, size = targets[0]
    dst, ref = t.region(fp), t.bar(bar)
    mask = None
    if len(targets) > 1:
        bars, fps = [t.info.barriers[b] for _, b, _ in targets], [t.fp(f) for f, _, _ in targets]
        alike = {(b.offset, f.intervals, f.lanes) for b, f in zip(bars, fps, strict=True)}
        if len(alike) > 1 or [b.cta for b in bars] != [f.memory for f in fps]:
            raise Unfit("a copy to several CTAs that differs between them")
        mask = Int(sum(1 << f.memory for f in fps))
        dst, ref = replace(dst, rank=None), replace(ref, rank=None)
    t.issue()
    yield n.BulkLoad(dst, t.globals(e[3], "copied_in", size), ref, mask)


@_makes(Ev.BULK_STORE)
def _bulk_store(t: Translator, e: Event) -> Iterator[n.Stmt]:
    t.issue()
    yield n.BulkStore(t.globals(e[3], "copied_out", t.each(e[2])), t.region(e[2]), "add" if e[5] else None)


@_makes(Ev.BULK_COPY)
def _bulk_copy(t: Translator, e: Event) -> Iterator[n.Stmt]:
    if len(e) > 6:
        raise Unfit("a bulk reduction into another CTA's shared memory")
    t.issue()
    yield n.BulkCopy(t.region(e[3]), t.region(e[2]), t.bar(e[4]))


@_makes(Ev.BULK_COMMIT)
def _bulk_commit(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.BulkCommit()


@_makes(Ev.BULK_WAIT)
def _bulk_wait(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.BulkWait(Int(e[2]), bool(e[3]))


@_makes(Ev.ST_ASYNC)
def _st_async(t: Translator, e: Event) -> Iterator[n.Stmt]:
    t.issue()
    yield n.StAsync(t.region(e[2]), Int(0), t.bar(e[3]), "add" if e[5] else None)


# ---------------------------------------------------------------- tensor core


@_makes(Ev.WGMMA_FENCE)
def _wgmma_fence(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.WgmmaFence()


@_makes(Ev.WGMMA)
def _wgmma(t: Translator, e: Event) -> Iterator[n.Stmt]:
    acc, a_fp, a_frag, b_fp, accumulates = e[2:7]
    b = t.regions(b_fp)
    a: list[n.Region | str]
    a = [fragment_name(a_frag)] if a_fp < 0 else list(t.regions(a_fp))
    t.numbers.append(t.issued)
    for i in range(max(len(a), len(b))):
        t.issued += 1
        yield n.Wgmma(fragment_name(acc), a[min(i, len(a) - 1)], b[min(i, len(b) - 1)], Int(accumulates))


def fragment_name(index: int) -> str:
    return f"fragment{index}"


@_makes(Ev.WGMMA_COMMIT)
def _wgmma_commit(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.WgmmaCommit()


@_makes(Ev.WGMMA_WAIT)
def _wgmma_wait(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.WgmmaWait(Int(e[2]))


@_makes(Ev.FRAG_READ)
def _frag_read(t: Translator, e: Event) -> Iterator[n.Stmt]:
    yield n.FragRead("unused", fragment_name(e[2]))


@_makes(Ev.FRAG_WRITE)
def _frag_write(t: Translator, e: Event) -> Iterator[n.Stmt]:
    if len(e) > 3:  # a copy, which practical mode accepts, or what only asks for a fence: no statement
        return
    yield n.FragWrite(fragment_name(e[2]), Int(0))
