"""Tables of a program: cells of memory that accesses share, barriers with fixed participants, collectives."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.ir import nodes as n
from syncverify.simulate.ir.code import Do, Instr
from syncverify.simulate.ir.layout import BARRIER_BYTES
from syncverify.simulate.ir.program import GLOBAL, LANES, Access, Kind, Op, Program
from syncverify.simulate.ir.trace import Tracer


def tables(p: Program) -> None:
    for a in p.accesses:
        bit = 1 << a.bit
        p.memory_mask[a.memory] = p.memory_mask.get(a.memory, 0) | bit
        if a.kind in (Kind.GR, Kind.GW, Kind.AT, Kind.CW, Kind.SW):
            p.generic |= bit
        if a.kind in (Kind.GR, Kind.GW, Kind.AT, Kind.SW, Kind.MW) or (a.kind is Kind.CW and p.strict):
            p.bridged |= bit  # docs/model.md C: R2, R7 (K6), R9
        p.reads |= bit if not a.kind.writes else 0
        p.generic_sync |= bit if a.kind in (Kind.GR, Kind.GW, Kind.AT) else 0
    _friends(p)
    if p.strict:
        _away(p)


def _away(p: Program) -> None:
    """By CTA and memory: accesses that its async accesses must know through a fence of some CTA
    (docs/model.md K3, K16): its own, for what other CTAs did in global memory; a shared memory's owner."""
    for cta in range(p.ctas):
        for a in p.accesses:
            elsewhere = p.groups[a.group].cta != cta and a.memory == GLOBAL
            generic = bool(p.bridged >> a.bit & 1) and (elsewhere or a.remote)
            if generic or (elsewhere and a.kind in (Kind.AW, Kind.RD)):
                p.away[cta, a.memory] = p.away.get((cta, a.memory), 0) | 1 << a.bit


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


def cells(p: Program) -> None:
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


def collectives(p: Program, code: list[Instr], tracers: list[Tracer]) -> None:
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
    """Whose wgmma a wait covers: the warpgroup's, or in strict mode the warp's (docs/model.md K8)."""
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
