"""Sets up a launch: lane groups, their traces, and the cells of memory that their accesses share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from syncverify.ir import nodes as n
from syncverify.ir.expr import LANE_BUILTINS, Expr, Var, names
from syncverify.simulate import trace_copies, trace_ops
from syncverify.simulate.code import UNIT, Do, Instr, flatten, thread_env
from syncverify.simulate.layout import BARRIER_BYTES, layout, number
from syncverify.simulate.program import LANES, VIRTUAL, Access, Group, Kind, Mbar, Op, Program
from syncverify.simulate.trace import Context, Split, Tracer
from syncverify.source import InputError

REGISTER_FILE = 65536  # 32-bit registers of an SM, CUDA C++ Programming Guide: compute capabilities
MBARRIER_OPS = range(Op.INIT, Op.BAR_SYNC)
OTHER_LANE = 13  # an elected lane that no usual guard names


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with numbers for everything: what one simulation is about."""

    kernel: n.Kernel
    values: Mapping[str, int]
    grid: tuple[int, int, int]
    clusters: tuple[int, ...]
    elected: int
    strict: bool


def launch_values(kernel: n.Kernel, values: Mapping[str, int]) -> dict[str, int]:
    """A number for every parameter: the caller's, else its default."""
    known = {p.name for p in kernel.params}
    for name in values:
        if name not in known:
            raise InputError(f"{kernel.name} has no parameter {name!r}", kernel.span)
    out: dict[str, int] = {}
    for p in kernel.params:
        v = values.get(p.name, p.default)
        if v is None:
            raise InputError(f"the parameter {p.name!r} of {kernel.name} needs a value", p.span)
        out[p.name] = int(v)
    for a in kernel.assumes:
        if not number(a, out, kernel.span, "an assumption"):
            raise InputError(f"the values {out} break an assumption of {kernel.name}", kernel.span)
    return out


def grid_of(kernel: n.Kernel, values: Mapping[str, int]) -> tuple[int, int, int]:
    x, y, z = (number(e, values, kernel.launch.span, "the grid") for e in kernel.launch.grid)
    if min(x, y, z) < 1:
        raise InputError(f"the grid {x}x{y}x{z} is empty", kernel.launch.span)
    return x, y, z


def cluster_blocks(kernel: n.Kernel, grid: tuple[int, int, int], cluster: int) -> list[int]:
    """Linear block numbers of a cluster's CTAs, by rank."""
    cx, cy, cz = kernel.launch.cluster
    per_x, per_y = max(1, grid[0] // cx), max(1, grid[1] // cy)
    ox, oy, oz = cluster % per_x * cx, cluster // per_x % per_y * cy, cluster // (per_x * per_y) * cz
    return [
        (ox + r % cx) + (oy + r // cx % cy) * grid[0] + (oz + r // (cx * cy)) * grid[0] * grid[1]
        for r in range(cx * cy * cz)
    ]


# ---------------------------------------------------------------- facts about the text


def statements(body: Sequence[n.Stmt]) -> Iterator[n.Stmt]:
    for s in body:
        yield s
        if isinstance(s, n.For | n.Role):
            yield from statements(s.body)
        elif isinstance(s, n.If):
            yield from statements(s.then)
            yield from statements(s.orelse)


def expressions(s: n.Stmt) -> Iterator[Expr]:
    """Every expression written in a statement itself, its regions included."""
    if isinstance(s, n.Role) and s.unit == "threads":
        yield Var(UNIT[s.unit])
    for f in type(s).__dataclass_fields__:
        yield from _inner(getattr(s, f)) if f not in ("body", "then", "orelse", "span") else ()


def _inner(v: object) -> Iterator[Expr]:
    if isinstance(v, Expr):
        yield v
    elif isinstance(v, n.Region | n.GlobalRegion | n.BarrierRef):
        for f in type(v).__dataclass_fields__:
            yield from _inner(getattr(v, f))
    elif isinstance(v, tuple):
        for x in v:
            yield from _inner(x)


def control(s: n.Stmt) -> Iterator[Expr]:
    """The expressions of a statement that can change what it does in shared memory or to barriers."""
    for f in type(s).__dataclass_fields__:
        v = getattr(s, f)
        if f not in ("body", "then", "orelse", "span", "coords") and not isinstance(v, n.GlobalRegion):
            yield from _inner(v)


def mentions_block(kernel: n.Kernel) -> bool:
    """Whether blocks may behave differently, apart from where in global memory they work."""
    wanted = {"block", "block.x", "block.y", "block.z"}
    return any(names(e) & wanted for s in statements(kernel.body) for e in control(s))


def mentions(kernel: n.Kernel, wanted: Iterable[str]) -> bool:
    names_wanted = set(wanted)
    return any(names(e) & names_wanted for s in statements(kernel.body) for e in expressions(s))


def elected_lanes(kernel: n.Kernel) -> tuple[int, ...]:
    """Lanes that elect.sync may pick, as far as the kernel can tell them apart."""
    if not any(isinstance(s, n.Elect) for s in statements(kernel.body)):
        return (0,)
    return (0, OTHER_LANE) if mentions(kernel, LANE_BUILTINS) else (0,)


def together(kernel: n.Kernel) -> bool:
    """Whether blocks must be simulated beside one another: they spin on, or reduce into, common memory."""
    return bool(_spun(kernel) or _mixed_atomics(kernel))


def _spun(kernel: n.Kernel) -> frozenset[str]:
    return frozenset(s.src.tensor for s in statements(kernel.body) if isinstance(s, n.SpinGlobal))


def _mixed_atomics(kernel: n.Kernel) -> frozenset[str]:
    """Tensors with both atomics by threads and reductions by TMA (rulebook E46)."""
    by_map = {m.name: m.tensor for m in kernel.maps}
    body = list(statements(kernel.body))
    reduced = {s.dst.tensor for s in body if isinstance(s, n.BulkStore) and s.reduce}
    reduced |= {by_map[s.map] for s in body if isinstance(s, n.TmaStore) and s.reduce}
    return frozenset(reduced & {s.dst.tensor for s in body if isinstance(s, n.AtomGlobal)})


def _two_proxies(kernel: n.Kernel) -> frozenset[str]:
    """Tensors that copies write and somebody else reads or writes, or that threads write and copies read."""
    by_map = {m.name: m.tensor for m in kernel.maps}
    copied_in: set[str] = set()
    copied_out: set[str] = set()
    read: set[str] = set()
    written: set[str] = set()
    for s in statements(kernel.body):
        match s:
            case n.BulkLoad():
                copied_in.add(s.src.tensor)
            case n.TmaLoad():
                copied_in.add(by_map[s.map])
            case n.BulkStore():
                copied_out.add(s.dst.tensor)
            case n.TmaStore():
                copied_out.add(by_map[s.map])
            case n.LdGlobal() | n.CpAsync():
                read.add(s.src.tensor)
            case n.StGlobal():
                written.add(s.dst.tensor)
    return frozenset(copied_out & (copied_in | read | written) | written & copied_in)


def followed(kernel: n.Kernel) -> tuple[frozenset[str], frozenset[str]]:
    """Tensors whose accesses are followed, and those that hold words somebody spins on."""
    flags = _spun(kernel)
    if flags:
        return frozenset(t.name for t in kernel.tensors) - flags, flags
    return _mixed_atomics(kernel) | _two_proxies(kernel), frozenset()


def read_registers(kernel: n.Kernel) -> frozenset[str]:
    """Names that some value expression reads."""
    used: set[str] = set()
    for s in statements(kernel.body):
        v = getattr(s, "value", None)
        if isinstance(v, Expr):
            used |= names(v)
        if isinstance(s, n.Wgmma) and isinstance(s.a, str):
            used.add(s.a)
        if isinstance(s, n.FragRead):
            used.add(s.frag)
    return frozenset(used)


# ---------------------------------------------------------------- groups and traces


def build(
    launch: Launch, cuts: Mapping[tuple[int, int], Sequence[int]] | None = None, *, skew: bool = True
) -> Program:
    """The program of a launch.

    ``cuts``: lane masks that must be unions of groups, by (CTA, warp). ``skew``: let one lane of each
    kind of class run ahead of, or behind, the others.
    """
    kernel, values = launch.kernel, launch.values
    lay = layout(kernel, values)
    code = flatten(kernel.body)
    size = kernel.launch.ctas
    flags = followed(kernel)
    p = Program(
        ctas=size * len(launch.clusters),
        cluster_size=size,
        threads=kernel.launch.threads,
        warps=-(-kernel.launch.threads // LANES),
        strict=launch.strict,
    )
    limit = min(256, REGISTER_FILE // max(1, kernel.launch.threads) // 8 * 8)
    p.registers = kernel.launch.registers or limit
    p.edited_maps = frozenset(s.map for s in statements(kernel.body) if isinstance(s, n.TensormapReplace))
    blocks = [b for c in launch.clusters for b in cluster_blocks(kernel, launch.grid, c)]
    bar_index: dict[tuple[int, str, int], int] = {}
    for cta in range(p.ctas):
        for slots in lay.barriers.values():
            for i in range(slots.count):
                bar_index[cta, slots.name, i] = len(p.bars)
                where = f"{slots.name}[{i}]" if slots.count > 1 else slots.name
                p.bars.append(
                    Mbar(cta, slots.offset + i * BARRIER_BYTES, where + (f"@{cta}" if p.ctas > 1 else ""))
                )
    ctx = Context(
        kernel,
        values,
        lay,
        code,
        launch.grid,
        p,
        bar_index,
        not launch.strict,
        *flags,
        read_registers(kernel),
        any(isinstance(s, n.GridDepWait) for s in statements(kernel.body)),
    )
    classes = [
        c
        for cta in range(p.ctas)
        for w in range(p.warps)
        for c in _classes(ctx, launch, cta, w, blocks[cta], (cuts or {}).get((cta, w), ()))
    ]
    tracers: list[Tracer] = []
    families: dict[object, list[int]] = {}
    for group, shape, shared in classes:
        split = skew and group.count > 1 and shared and shape not in families
        first = group.lanes & -group.lanes
        for mask in (first, group.lanes & ~first) if split else (group.lanes,):
            families.setdefault(shape, []).append(len(p.groups))
            part = Group(group.cta, group.warp, mask)
            tracer = Tracer(ctx, part, len(p.groups), blocks[part.cta], _elected(p, launch, part.warp))
            p.groups.append(part)
            p.start.append(_trace(tracer, ctx, blocks[part.cta]))
            tracers.append(tracer)
    if size > 1:
        _starts(p)
    p.entities = _entities(families, len(p.groups)) if skew else [(g,) for g in range(len(p.groups))]
    _tables(p)
    _cells(p)
    _collectives(p, code, tracers)
    return p


def _starts(p: Program) -> None:
    """A mark per group: who knows one of a CTA's knows that the CTA runs (PTX ISA, Cluster of CTAs)."""
    for g, group in enumerate(p.groups):
        bit = len(p.accesses)
        p.accesses.append(Access(bit, g, Kind.GW, VIRTUAL, (), None, p.events[p.start[g]].span, "start"))
        p.pinned |= 1 << bit
        p.marks[g] = 1 << bit
        p.started[group.cta] = p.started.get(group.cta, 0) | 1 << bit


def _entities(families: Mapping[object, list[int]], count: int) -> list[tuple[int, ...]]:
    """Groups that move together: of a family, all but one lane, its warp's others and one more warp.

    What goes wrong between two lanes that behave alike goes wrong for any two of them.
    """
    gangs = [tuple(f[3:]) for f in families.values() if len(f) > 4]
    inside = {g for gang in gangs for g in gang}
    return [(g,) for g in range(count) if g not in inside] + gangs


def _trace(tracer: Tracer, ctx: Context, block: int) -> int:
    g = tracer.group
    tids = tuple(g.warp * LANES + lane for lane in tracer.lanes)
    size = ctx.program.cluster_size
    return tracer.run(thread_env(ctx.kernel, ctx.values, tids, g.cta % size, block, ctx.grid))


def _elected(p: Program, launch: Launch, warp: int) -> int:
    return launch.elected if launch.elected < p.threads - warp * LANES else 0


def _classes(
    ctx: Context, launch: Launch, cta: int, warp: int, block: int, cuts: Sequence[int]
) -> list[tuple[Group, object, bool]]:
    """Lanes of a warp by what they do; with their shape and whether others can see the order of it."""
    p = ctx.program
    live = (1 << min(LANES, p.threads - warp * LANES)) - 1
    elected = _elected(p, launch, warp)
    work = [live]
    for cut in cuts:
        work = [m for w in work for m in (w & cut, w & ~cut) if m]
    done: list[tuple[Group, object, bool]] = []
    while work:
        mask = work.pop()
        group = Group(cta, warp, mask)
        tracer = Tracer(ctx, group, -1, block, elected)
        halves = len(p.halves)
        mark = (
            len(p.events),
            len(p.accesses),
            len(p.asyncs),
            p.pinned,
            p.sources,
            p.grid_marks,
            {k: list(v) for k, v in p.map_pairs.items()},
        )
        try:
            _trace(tracer, ctx, block)
        except Split as split:
            work.extend(split.parts)
        else:
            shape = (cta, tuple((e.op, e.line, e.bar, e.key, e.count) for e in p.events[mark[0] :]))
            shared = any(e.op in MBARRIER_OPS for e in p.events[mark[0] :])
            done.append((group, shape, shared))
        finally:
            del p.halves[halves:]
            del p.events[mark[0] :], p.after[mark[0] :], p.accesses[mark[1] :], p.asyncs[mark[2] :]
            p.pinned, p.sources, p.grid_marks, p.map_pairs = mark[3], mark[4], mark[5], mark[6]
    return sorted(done, key=lambda x: x[0].lanes & -x[0].lanes)


# ---------------------------------------------------------------- tables


def _tables(p: Program) -> None:
    for a in p.accesses:
        bit = 1 << a.bit
        p.memory_mask[a.memory] = p.memory_mask.get(a.memory, 0) | bit
        if a.kind in (Kind.GR, Kind.GW, Kind.AT, Kind.CW, Kind.SW):
            p.generic |= bit
        if a.kind in (Kind.GR, Kind.GW, Kind.AT, Kind.SW, Kind.MW) or (a.kind is Kind.CW and p.strict):
            p.bridged |= bit  # rulebook C: R2, R7 (K6), R9
        p.reads |= bit if not a.kind.writes else 0
        p.generic_sync |= bit if a.kind in (Kind.GR, Kind.GW, Kind.AT) else 0
    _friends(p)


def _friends(p: Program) -> None:
    """Accesses that do not conflict: equal writes of one instruction, atomics within each other's scope."""
    equal: dict[tuple[int, ...], int] = {}
    atomics: dict[tuple[Kind, int, int], int] = {}
    for a in p.accesses:
        if a.friend:
            equal[a.friend] = equal.get(a.friend, 0) | 1 << a.bit
        elif a.atomic >= 0 or a.kind is Kind.RD:
            key = (a.kind, p.groups[a.group].cta, a.atomic if a.kind is not Kind.RD else 2)
            atomics[key] = atomics.get(key, 0) | 1 << a.bit
    together: dict[tuple[Kind, int, int], int] = {}
    for kind, cta, level in atomics:
        mask = 0
        for (k, c, other), bits in atomics.items():
            if k is kind and min(level, other) >= p.distance(cta, c):
                mask |= bits
        together[kind, cta, level] = mask
    for a in p.accesses:
        if a.friend:
            p.friends[a.bit] = equal[a.friend]
        elif a.atomic >= 0 or a.kind is Kind.RD:
            p.friends[a.bit] = together[
                a.kind, p.groups[a.group].cta, a.atomic if a.kind is not Kind.RD else 2
            ]


def _pieces(p: Program) -> Iterator[int]:
    """The set of accesses of every elementary interval of every memory."""
    steps: dict[tuple[int, int], int] = {}
    for a in p.accesses:
        for lo, hi in a.intervals:
            steps[a.memory, lo] = steps.get((a.memory, lo), 0) ^ 1 << a.bit
            steps[a.memory, hi] = steps.get((a.memory, hi), 0) ^ 1 << a.bit
    mask = 0
    for key in sorted(steps):
        mask ^= steps[key]
        if mask:
            yield mask


def bits_of(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _cells(p: Program) -> None:
    """Bytes with the same accesses behave the same: one cell for all of them."""
    of: list[list[int]] = [[] for _ in p.accesses]
    number_of: dict[int, int] = {}
    for mask in _pieces(p):
        if mask in number_of or not mask & ~p.reads:
            continue
        number_of[mask] = p.cells
        for b in bits_of(mask):
            of[b].append(p.cells)
        p.cells += 1
    ranges = [(b.cta, b.offset, b.offset + BARRIER_BYTES) for b in p.bars]
    for e in p.events:
        e.cells = tuple((b, 1 << b, p.accesses[b].kind, tuple(of[b])) for b in e.bits)
        if e.op in (Op.ACCESS, Op.ISSUE) and ranges:
            e.touches = tuple(
                i for i, r in enumerate(ranges) if any(_meets(p.accesses[b], r) for b in e.bits)
            )


def _meets(a: Access, r: tuple[int, int, int]) -> bool:
    return a.memory == r[0] and any(lo < r[2] and r[1] < hi for lo, hi in a.intervals)


def _collectives(p: Program, code: list[Instr], tracers: list[Tracer]) -> None:
    """Barriers with fixed participants, and instructions that whole warps or warpgroups must share."""
    for g, group in enumerate(p.groups):
        w, wg = (group.cta, group.warp), (group.cta, group.warp // 4)
        p.warp_groups[w] = (*p.warp_groups.get(w, ()), g)
        p.warpgroup_groups[wg] = (*p.warpgroup_groups.get(wg, ()), g)
    users: dict[tuple[int, int], set[tuple[object, ...]]] = {}
    warps: dict[tuple[int, int], set[int]] = {}
    owner = _owners(p)
    for node, e in enumerate(p.events):
        if e.op in (Op.BAR_SYNC, Op.BAR_ARRIVE):
            group = p.groups[owner[node]]
            users.setdefault((group.cta, e.key), set()).add((e.op, e.n, e.flags))
            warps.setdefault((group.cta, e.key), set()).add(group.warp)
            if owner[node] not in p.bar_users.setdefault((group.cta, e.key), []):
                p.bar_users[group.cta, e.key].append(owner[node])
    p.eager_bars = frozenset(
        k
        for k, u in users.items()
        if len(u) == 1
        and all(x[0] is Op.BAR_SYNC for x in u)
        and next(iter(u))[1] in (0, len(warps[k]) * LANES)
    )
    for groups in p.warp_groups.values():
        _same(p, code, [tracers[g] for g in groups], "aligned")
    for (_, quad), groups in p.warpgroup_groups.items():
        ts = [tracers[g] for g in groups]
        whole = p.threads - quad * 128 >= 128
        for attr in ("wgmma_ops", "register_ops"):
            _same(p, code, ts, attr)
            if not whole and any(getattr(t, attr) for t in ts):
                at = _stmt(code, next(getattr(t, attr)[0] for t in ts if getattr(t, attr)))
                p.static_harms.append(("ub", RULE[attr], "the warpgroup has fewer than four warps", at.span))
    p.pool_is_void = any(rule == "SV304" for _, rule, _, _ in p.static_harms)
    _requests(p, owner)
    _completions(p, owner)


def _requests(p: Program, owner: list[int]) -> None:
    """For each setmaxnreg, the ones before it of the warpgroup's other warps, which must be over.

    In practical mode one that asks for the same number again changes nothing.
    """
    requests = [(p.groups[owner[i]], e) for i, e in enumerate(p.events) if e.op is Op.REGISTERS]
    for mine, e in requests:
        wg = (mine.cta, mine.warp // 4)
        for other, before in requests:
            same = (other.cta, other.warp // 4) == wg and other.warp != mine.warp
            if same and before.count == e.count - 1 and (p.strict or before.n != e.n):
                e.own |= before.mask
        p.demand[wg] = max(p.demand.get(wg, 0), e.n if e.key else 0)


def _completions(p: Program, owner: list[int]) -> None:
    """Whose wgmma a wait covers: the warpgroup's, or in strict mode the warp's (rulebook K8)."""
    commits = [(owner[i], e) for i, e in enumerate(p.events) if e.op is Op.WGMMA_COMMIT]
    for node, e in enumerate(p.events):
        if e.op is Op.WGMMA_WAIT:
            group = p.groups[owner[node]]
            warpgroup = p.warpgroup_groups[group.cta, group.warp // 4]
            e.bits = p.warp_groups[group.cta, group.warp] if p.strict else warpgroup
            for who, c in commits:
                if who in e.bits and c.count <= e.count:
                    e.mask |= c.mask


RULE = {"aligned": "SV303", "wgmma_ops": "SV303", "register_ops": "SV304"}


def _stmt(code: list[Instr], pc: int) -> n.Stmt:
    ins = code[pc]
    if not isinstance(ins, Do):
        raise AssertionError("not an operation")
    return ins.stmt


def _same(p: Program, code: list[Instr], ts: list[Tracer], attr: str) -> None:
    """All of ``ts`` must execute the same sequence; polls may make the sequences incomparable.

    In practical mode the warps may ask for the same registers at different instructions.
    """
    if any(t.polled for t in ts) or not ts:
        return
    model = max(ts, key=lambda t: len(getattr(t, attr)))
    longest = getattr(model, attr)
    compared = "registers_asked" if attr == "register_ops" and not p.strict else attr
    for t in ts:
        mine, theirs = getattr(t, compared), getattr(model, compared)
        if mine == theirs:
            continue
        at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), len(mine))
        stmt = _stmt(code, longest[at])
        barriers = n.BarrierSync | n.BarrierArrive | n.ClusterArrive | n.ClusterWait
        if (
            t.left_early
            and at == len(mine)
            and all(isinstance(_stmt(code, pc), barriers) for pc in longest[at:])
        ):
            continue  # a warp waits for its live lanes only (PTX ISA, bar)
        rule = "SV302" if isinstance(stmt, barriers) else RULE[attr]
        what = "warpgroup" if attr != "aligned" else "warp"
        p.static_harms.append(("ub", rule, f"only part of the {what} executes this instruction", stmt.span))
        return


def _owners(p: Program) -> list[int]:
    """Which group each event belongs to."""
    owner = [-1] * len(p.events)
    starts = sorted((s, g) for g, s in enumerate(p.start))
    for (s, g), (e, _) in zip(starts, [*starts[1:], (len(p.events), -1)], strict=True):
        for i in range(s, e):
            owner[i] = g
    return owner


#: Importing these modules registers what the statements mean.
STATEMENTS = (trace_ops, trace_copies)
