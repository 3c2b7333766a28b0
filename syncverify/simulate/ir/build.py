"""Sets up a launch: lane groups, their traces, and the cells of memory that their accesses share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from syncverify.ir import nodes as n
from syncverify.simulate.ir import trace_copies, trace_ops
from syncverify.simulate.ir.code import flatten, thread_env
from syncverify.simulate.ir.facts import followed, read_registers, statements
from syncverify.simulate.ir.launch import Launch, cluster_blocks
from syncverify.simulate.ir.layout import BARRIER_BYTES, layout
from syncverify.simulate.ir.program import LANES, VIRTUAL, Access, Group, Kind, Mbar, Op, Program
from syncverify.simulate.ir.tables import cells, collectives, tables
from syncverify.simulate.ir.trace import Context, Split, Tracer

REGISTER_FILE = 65536  # 32-bit registers of an SM, CUDA C++ Programming Guide: compute capabilities
MBARRIER_OPS = range(Op.INIT, Op.BAR_SYNC)


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
        kernel.launch.dependent or any(isinstance(s, n.GridDepWait) for s in statements(kernel.body)),
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
    tables(p)
    cells(p)
    collectives(p, code, tracers)
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


#: Importing these modules registers what the statements mean.
STATEMENTS = (trace_ops, trace_copies)
