"""cp.async, bulk copies and st.async as events (PTX ISA, asynchronous copy)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from syncverify.frontends.ptx.decode.effects import Context, Opaque, Unsupported, Value
from syncverify.frontends.ptx.decode.parts import (
    OWN,
    SCOPES,
    Decoded,
    Region,
    barrier_at,
    constant,
    effect,
    fault,
    immediate,
    malformed,
    multicasts,
    region,
    registers,
    scope_of,
    spaces,
    window,
)
from syncverify.frontends.ptx.flow.control_flow import Flow, live_before
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Operand, Reg
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.frontends.ptx.syntax.types import WINDOW, width
from syncverify.frontends.ptx.values.register_values import UNWRITTEN, PerLane, Unknown
from syncverify.model.events import Ev, Event, Flag

_SHARED = ("shared::cta", "shared::cluster")
_TYPE = re.compile(r"(?:e4m3|e5m2|[a-z]+(\d+))(?:x(\d))?")


def decode_cp(instr: Instr, function: Function) -> Decoded:
    """``cp.async.*`` and ``cp.reduce.async.bulk.*`` without tensor maps."""
    mods = instr.mods
    if mods[:2] == ("async", "mbarrier"):
        return _cp_arrive(instr)
    if mods[:2] == ("async", "commit_group"):
        return constant(Ev.CP_COMMIT)
    if mods[:2] == ("async", "wait_all"):
        return constant(Ev.CP_WAIT, -1)
    if mods[:2] == ("async", "wait_group"):
        return _wait(instr, Ev.CP_WAIT)
    if mods[:2] in (("async", "ca"), ("async", "cg")):
        return _cp_async(instr, function)
    if mods[:3] == ("async", "bulk", "commit_group"):
        return constant(Ev.BULK_COMMIT)
    if mods[:3] == ("async", "bulk", "wait_group"):
        return _wait(instr, Ev.BULK_WAIT, int("read" in mods))
    if mods[:3] == ("async", "bulk", "prefetch"):
        return None
    if mods[:2] == ("async", "bulk") or mods[:3] == ("reduce", "async", "bulk"):
        return _bulk(instr)
    return Unsupported(f"{instr.name} is not known")


def aligned_global(ctx: Context, site: int, faults: list[Event], value: Value, unit: int, what: str) -> None:
    """Adds a fault where some lane's address in global memory is a number that is not aligned.

    Pointers are as aligned as the launch file or the text says, 16 bytes if nothing does, and no more.
    """
    lanes = [value.lanes[i] for i in ctx.lanes] if isinstance(value, PerLane) else [value]
    if any(isinstance(a, Unknown) and a.source == UNWRITTEN for a in lanes):
        raise Opaque(f"{what} in global memory depends on a register that was never written", True)
    off = next((a for a in lanes if isinstance(a, int) and not a >> WINDOW and a % unit), None)
    if off is not None:
        text = f"{what} in global memory is {off % unit} bytes past a multiple of {unit}"
        faults.append(fault(site, "SV701", text))


def _wait(instr: Instr, code: Ev, *rest: int) -> Decoded:
    pending = immediate(instr.operands[0]) if len(instr.operands) == 1 else None
    if pending is None or pending < 0:
        return malformed(instr)
    return constant(code, pending, *rest)


# ------------------------------------------------------------------ cp.async


def _cp_arrive(instr: Instr) -> Decoded:
    if len(instr.operands) != 1 or instr.mods[2:3] != ("arrive",):
        return malformed(instr)
    space, noinc = window(instr.mods), int("noinc" in instr.mods)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        b, _, _ = barrier_at(ctx, site, faults, v[0], space, "cp.async.mbarrier.arrive")
        return faults if b < 0 else [*faults, (Ev.CP_ARRIVE, site, b, noinc)]

    return effect(emit, instr.operands)


def _cp_async(instr: Instr, function: Function) -> Decoded:
    ops = instr.operands
    size = immediate(ops[2]) if len(ops) >= 3 else None
    if size is None or not isinstance(ops[0], Mem) or not isinstance(ops[1], Mem):
        return malformed(instr)
    space = window(instr.mods)
    # the fourth operand: bytes to copy, a predicate that ignores the source, or a cache policy
    hinted = any(m.endswith("cache_hint") for m in instr.mods)
    extra = ops[3] if len(ops) == 5 or (len(ops) == 4 and not hinted) else None
    asked = (extra,) if extra is not None and not _at_most(extra, size, function) else ()

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        to = region(ctx, site, faults, v[0], space, size, size, "the destination")
        if asked:
            copied = max(ctx.each(v[2], "the number of source bytes"))
            if copied > size:
                # PTX ISA, cp.async: src-size greater than cp-size is undefined.
                text = f"{copied} source bytes are more than the {size} that are copied"
                faults.append(fault(site, "SV701", text))
        aligned_global(ctx, site, faults, v[1], size, "the source")
        return [*faults, (Ev.CP_ASYNC, site, to.footprint(ctx), ctx.global_bytes(v[1], size))]

    return effect(emit, (*ops[:2], *asked))


def _at_most(extra: Operand, size: int, function: Function) -> bool:
    """Whether the optional operand is a predicate, or a size of at most ``size`` wherever it is set, which it
    is on every path."""
    if isinstance(extra, Reg) and function.registers.get(extra.name) == "pred":
        return True
    seen: set[tuple[str, int]] = set()
    unwritten = _perhaps_unwritten(function)
    work = [(extra, size)]
    while work:
        o, most = work.pop()
        if isinstance(o, Imm) and 0 <= o.value <= most:
            continue
        if not isinstance(o, Reg) or o.name in unwritten:
            return False
        if (o.name, most) in seen:
            continue
        seen.add((o.name, most))
        for i in _setters(function).get(o.name, [None]):
            behind = None if i is None else _behind(i, most)
            if behind is None:
                return False
            work += behind
    return True


def _behind(i: Instr, most: int) -> list[tuple[Operand, int]] | None:
    """What must be at most how much, so that what an instruction sets is at most ``most``; None: unknown."""
    ops = i.operands
    match i.op:
        case "mov":
            return [(ops[1], most)]
        case "selp":
            return [(ops[1], most), (ops[2], most)]
        case "and" if any(isinstance(o, Imm) and 0 <= o.value <= most for o in ops[1:]):
            return []
        case "shl" if isinstance(ops[2], Imm) and 0 <= ops[2].value < 32:
            return [(ops[1], most >> ops[2].value)]
    return None


_LAST: list[tuple[Function, dict[str, list[Instr]], frozenset[str]]] = []  # of the function asked about last


def _setters(function: Function) -> dict[str, list[Instr]]:
    """The instructions that write each register."""
    return _asked(function)[1]


def _perhaps_unwritten(function: Function) -> frozenset[str]:
    """Registers that some path reads before it writes them.

    Writes under a predicate and under its opposite in one block count as a write.
    """
    return _asked(function)[2]


def _asked(function: Function) -> tuple[Function, dict[str, list[Instr]], frozenset[str]]:
    if not _LAST or _LAST[0][0] is not function:
        setters: dict[str, list[Instr]] = {}
        for i in function.body:
            for name in results(i):
                setters.setdefault(name, []).append(i)
        flow = Flow(function)
        live = live_before(
            flow,
            lambda k: sources(flow.body[k]),
            lambda k: results(flow.body[k]),
            frozenset(setters),
            {b: _either_way(flow.body[block.lo : block.hi]) for b, block in enumerate(flow.blocks)},
        )
        _LAST[:] = [(function, setters, live[0] if live else frozenset())]
    return _LAST[0]


def _either_way(block: Sequence[Instr]) -> set[str]:
    """Registers that a block writes under a predicate and under its opposite."""
    ways = {(name, i.guard, i.negated) for i in block if i.guard is not None for name in results(i)}
    return {name for name, predicate, negated in ways if (name, predicate, not negated) in ways}


# ------------------------------------------------------------------ bulk copies


def _bulk(instr: Instr) -> Decoded:
    ops, ways = instr.operands, spaces(instr.mods)
    element = _element(instr.mods)
    if len(ways) != 2 or len(ops) < 3 or not isinstance(ops[0], Mem) or not isinstance(ops[1], Mem):
        return malformed(instr)
    to, source = ways
    if to == "global" and source == "shared::cta":
        return _bulk_store(ops, element)
    if len(ops) < 4 or not isinstance(ops[3], Mem):
        return malformed(instr)
    if to in _SHARED and source == "global" and not element:
        multicast = multicasts(instr.mods)
        if multicast and len(ops) < 5:
            return malformed(instr)
        return _bulk_load((*ops[:4], *ops[4 : 5 if multicast else 4]), destination(to))
    if to == "shared::cluster" and source == "shared::cta":
        return _bulk_copy(ops[:4], element)
    return malformed(instr)


def size_of(ctx: Context, site: int, faults: list[Event], value: Value) -> int:
    """Bytes of a bulk copy (PTX ISA, cp.async.bulk: a multiple of 16). None are a copy without effects."""
    size = ctx.number(value, "the size of a bulk copy")
    if size % 16:
        faults.append(fault(site, "SV701", f"{size} bytes are no multiple of 16"))
    return size


def targets(ctx: Context, site: int, faults: list[Event], to: Region, bar: Value, mask: Value | None,
            size: int, space: str) -> tuple[Event, ...]:  # fmt: skip
    """Where a load lands: (footprint, barrier, bytes) for its CTA, or for each CTA of the mask."""
    b, cta, offset = barrier_at(ctx, site, faults, bar, space, which=2)
    if b < 0:
        return ()
    if mask is None:
        if cta != to.cta:
            faults.append(fault(site, "SV208", "the barrier lies in another CTA than the destination"))
            return ()
        return ((to.footprint(ctx), b, size),)
    chosen = ctx.number(mask, "a multicast mask") & 0xFFFF
    if chosen == 0 or chosen >> ctx.ctas:
        text = f"multicast mask {chosen:#x} names CTAs that the cluster of {ctx.ctas} does not have"
        faults.append(fault(site, "SV208", text))
    # PTX ISA, cp.async.bulk: data and signal go to the same CTA-relative offsets.
    return tuple(
        [(to.footprint(ctx, r), ctx.barrier(r, offset), size) for r in range(ctx.ctas) if chosen >> r & 1]
    )


def destination(to: str) -> str:
    """How the destination of a load, and its barrier, are written."""
    return OWN if to == OWN else "shared"


def _bulk_load(operands: Sequence[Operand], space: str) -> Decoded:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = size_of(ctx, site, faults, v[2])
        to = region(ctx, site, faults, v[0], space, size, 16, "the destination")
        aligned_global(ctx, site, faults, v[1], 16, "the source")
        found = targets(ctx, site, faults, to, v[3], v[4] if len(v) > 4 else None, size, space)
        if not found or not size:
            return faults
        return [*faults, (Ev.BULK_LOAD, site, found, ctx.global_bytes(v[1], size), -1)]

    return effect(emit, operands)


def own_source(ctx: Context, site: int, faults: list[Event], source: Region) -> None:
    """PTX ISA, cp.async.bulk and cp.reduce.async.bulk: the source is the executing CTA's."""
    if source.cta != ctx.cta:
        faults.append(fault(site, "SV701", "the source of a bulk store lies in another CTA"))


def _element(mods: Sequence[str]) -> int:
    """Bytes of what a bulk reduction changes at once (PTX ISA, cp.reduce.async.bulk: each element by itself);
    0 for a copy."""
    return width(mods[-1]) // 8 if "reduce" in mods else 0


def _bulk_store(ops: Sequence[Operand], element: int) -> Decoded:
    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = size_of(ctx, site, faults, v[2])
        source = region(ctx, site, faults, v[1], "shared", size, 16, "the source", 1)
        own_source(ctx, site, faults, source)
        if not size:
            return faults
        aligned_global(ctx, site, faults, v[0], 16, "the destination")
        to = ctx.global_bytes(v[0], size, element=element)
        return [*faults, (Ev.BULK_STORE, site, source.footprint(ctx), to, -1, int(element > 0))]

    return effect(emit, ops[:3])


def _bulk_copy(operands: Sequence[Operand], element: int) -> Decoded:
    flag, what = ((1,), "cp.reduce.async.bulk") if element else ((), "cp.async.bulk")

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = size_of(ctx, site, faults, v[2])
        source = region(ctx, site, faults, v[1], "shared", size, 16, "the source", 1)
        to = region(ctx, site, faults, v[0], "shared", size, 16, "the destination")
        own_source(ctx, site, faults, source)
        b, cta, _ = barrier_at(ctx, site, faults, v[3], "shared", which=2)
        if not _remote(ctx, site, faults, to.cta, b, cta, what) or not size:
            return faults
        return [
            *faults,
            (Ev.BULK_COPY, site, source.footprint(ctx), to.footprint(ctx, element=element), b, size, *flag),
        ]

    return effect(emit, operands)


def _remote(ctx: Context, site: int, faults: list[Event], to: int, bar: int, bar_cta: int, what: str) -> bool:
    """A push needs its barrier beside the data, and another CTA: st.async is content with a cluster of
    several (PTX ISA, st.async, red.async, cp.async.bulk). False: there is no such operation to model."""
    if ctx.ctas == 1 or (to == ctx.cta and what != "st.async"):
        faults.append(fault(site, "SV208", f"{what} into the executing CTA's own shared memory"))
    elif bar >= 0 and bar_cta != to:
        faults.append(fault(site, "SV208", f"{what}: data and barrier lie in different CTAs"))
    return bar >= 0 and bar_cta == to


def _access_bytes(mods: Sequence[str]) -> int | None:
    """Bytes that the type and vector modifiers represent."""
    found = _TYPE.fullmatch(mods[-1])
    if found is None:
        return None
    bits, packed = int(found[1] or 8), int(found[2] or 1)
    vector = next((int(m[1:]) for m in mods if m in ("v2", "v4", "v8")), 1)
    return bits // 8 * packed * vector


def decode_multimem(instr: Instr) -> Decoded:
    """``multimem.*``: accesses to global memory (PTX ISA, multimem: weak by default, ``red`` relaxed.sys)."""
    mods, ops = instr.mods, instr.operands
    kind = mods[0] if mods else ""
    if kind == "cp" and "bulk" in mods and len(ops) == 3 and isinstance(ops[1], Mem):
        return _bulk_store(ops, _element(mods))
    at = next((o for o in ops if isinstance(o, Mem)), None)
    if at is None or kind not in ("ld_reduce", "st", "red"):
        return Unsupported(f"{instr.name} is not known")
    strong = kind == "red" or any(m in SCOPES for m in mods)
    flags = int(Flag.STRONG) if strong else 0
    flags |= int(Flag.ACQUIRE if "acquire" in mods else Flag.RELEASE if "release" in mods else 0)
    scope = int(scope_of(mods, "sys"))
    size = _access_bytes(mods)
    if size is None:
        return malformed(instr)
    op = next((m for m in mods if m in ("min", "max", "add", "and", "or", "xor")), "add")
    code, rest = {
        "ld_reduce": (Ev.GLOBAL_READ, ()),
        "st": (Ev.GLOBAL_WRITE, (None,)),
        "red": (Ev.GLOBAL_ATOMIC, (op, None)),
    }[kind]

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        return ((code, site, ctx.global_bytes(v[0], size), flags, scope, *rest),)

    return effect(emit, (at,), unknown=registers(ops[0]) if kind == "ld_reduce" else ())


# ------------------------------------------------------------------ st.async, red.async


def decode_async_store(instr: Instr) -> Decoded:
    """``st.async`` and ``red.async``; None for an ordinary ``st`` or ``red``."""
    if instr.mods[:1] != ("async",):
        return _bulk_zero(instr) if instr.mods[:1] == ("bulk",) else None
    ops, mods = instr.operands, instr.mods
    if "mbarrier::complete_tx::bytes" not in mods:
        return Unsupported(f"{instr.name} without an mbarrier is not modelled")
    if len(ops) != 3 or not isinstance(ops[0], Mem) or not isinstance(ops[2], Mem):
        return malformed(instr)
    size = _access_bytes(mods)
    space, what, reduces = window(mods), f"{instr.op}.async", int(instr.op == "red")
    if size not in (4, 8, 16):
        return malformed(instr)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        to = region(ctx, site, faults, v[0], space, size, size, "the destination")
        b, cta, _ = barrier_at(ctx, site, faults, v[1], space, which=1)
        if not _remote(ctx, site, faults, to.cta, b, cta, what):
            return faults
        return [*faults, (Ev.ST_ASYNC, site, to.footprint(ctx), b, size, reduces)]

    return effect(emit, (ops[0], ops[2]))


# ------------------------------------------------------------------ st.bulk

_MOST_ZEROS = 1 << 24


def _bulk_zero(instr: Instr) -> Decoded:
    """``st.bulk``: each lane sets bytes of its block's shared memory to zero, by a weak write of its own
    (PTX ISA, st.bulk: no asynchronous operation)."""
    ops = instr.operands
    if len(ops) != 3 or not isinstance(ops[0], Mem) or immediate(ops[2]) != 0:
        return malformed(instr)
    space = window(instr.mods)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        faults: list[Event] = []
        size = ctx.number(v[1], "the size of st.bulk")
        if size % 8 or size > _MOST_ZEROS:
            # PTX ISA, st.bulk: the size is a multiple of 8, at most 16777216.
            text = f"{size} bytes are no multiple of 8 up to {_MOST_ZEROS}"
            return [fault(site, "SV701", text)]
        to = region(ctx, site, faults, v[0], space, size, 1, "the destination")
        if to.cta != ctx.cta:
            faults.append(fault(site, "SV114", "st.bulk into another CTA's shared memory"))
        return [*faults, (Ev.WRITE, site, to.footprint(ctx))] if size else faults

    return effect(emit, ops[:2])
