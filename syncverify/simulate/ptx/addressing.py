"""From addresses to bytes of an arena: windows, ranges, alignment, live barriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.clocks import OF_ANY_SCOPE
from syncverify.simulate.ptx.harm import EXITED, NOT_BEGUN, OF_A_CLUSTER, HarmFound, Kind
from syncverify.simulate.ptx.memory import (
    CONST_WINDOW,
    GLOBAL_WINDOW,
    LOCAL_WINDOW,
    NOWHERE,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_START,
    SHARED_WINDOW,
    Arena,
)
from syncverify.simulate.ptx.syntax import Imm, Mem, Operand, Reg, Sym
from syncverify.simulate.ptx.types import LANES, Lanes, filled
from syncverify.simulate.ptx.variable_bounds import inside

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.program import Context
    from syncverify.simulate.ptx.state import Block, Fragment

SPACES = frozenset(
    {
        "global",
        "shared",
        "shared::cta",
        "shared::cluster",
        "local",
        "const",
        "param",
        "param::entry",
        "param::func",
    }
)
_SECTION = "state spaces; addresses as operands"


@dataclass(slots=True)
class Part:
    """Lanes of an access that go to one space; ``at``: their bytes in its arena."""

    space: str
    arena: Arena
    at: Lanes
    lanes: Lanes


def space_of(mods: tuple[str, ...]) -> str:
    """The state space among the modifiers; generic if there is none."""
    for m in mods:
        if m in SPACES:
            return {"shared": "shared::cta", "param::entry": "param", "param::func": "param"}.get(m, m)
    return "generic"


def address(c: Context, operand: Operand) -> Callable[[list[Lanes]], Lanes]:
    """The addresses of an operand ``[base + offset]`` as 64 bits."""
    if not isinstance(operand, Mem):
        raise c.fail("expected [address]")
    base, offset = operand.base, operand.offset
    if isinstance(base, Imm):
        constant = filled(base.value + offset, 64)
        return lambda R: constant
    if isinstance(base, Sym):
        slot = c.source(Sym(base.name, base.offset + offset), 64)
        return lambda R: R[slot]
    if not isinstance(base, Reg):
        raise c.fail("expected a register or a name as address")
    bits = c.bits_of(base)
    slot = c.slots[base.name]
    if bits == 64:
        by = np.uint64(offset & (2**64 - 1))
        return (lambda R: R[slot] + by) if offset else (lambda R: R[slot])
    if bits != 32:
        raise c.fail("an address of neither 32 nor 64 bits")
    by32 = np.uint32(offset & 0xFFFFFFFF)
    return lambda R: (R[slot] + by32).astype(np.uint64)


def _bad(
    m: Machine, f: Fragment, lanes: Lanes, which: Lanes, address_: Lanes, what: str, space: str
) -> HarmFound:
    at = int(np.flatnonzero(which)[0])
    return m.undefined(f, f"{what}: address {int(address_[at]):#x}", _SECTION, int(lanes[at]), space)


def parts(m: Machine, f: Fragment, space: str, a: Lanes, on: Lanes, size: int, align: int) -> list[Part]:
    """The bytes of an access by the lanes ``on``; undefined behaviour where there are none."""
    lanes = np.flatnonzero(on)
    a = a[lanes]
    wrong = a & np.uint64(align - 1)
    if np.count_nonzero(wrong):
        raise _bad(m, f, lanes, wrong != 0, a, f"an access of {align} bytes is not aligned", space)
    if space != "generic":
        if space == "global":
            foreign = np.isin(a >> np.uint64(40), _FOREIGN)
            if np.count_nonzero(foreign):
                raise _bad(
                    m, f, lanes, foreign, a, "a generic address of another space, used as global", space
                )
        return _parts(m, f, space, a, lanes, size)
    nowhere = (a >> np.uint64(32) == 0) | (a >> np.uint64(_ADDRESS_BITS) != 0)
    if np.count_nonzero(nowhere):
        raise _bad(m, f, lanes, nowhere, a, "a generic address that lies in no space", space)
    window = (a >> np.uint64(40)).astype(np.int64)
    out = []
    for number in np.unique(window):
        name, base = _BY_WINDOW.get(int(number), ("global", 0))
        which = window == number
        out += _parts(m, f, name, a[which] - np.uint64(base), lanes[which], size)
    return out


def _parts(m: Machine, f: Fragment, space: str, a: Lanes, lanes: Lanes, size: int) -> list[Part]:
    """The bytes in one space; in a launch without bounds some of them are nowhere."""
    if space == "global" and m.launch.dependent == "all":
        grid_before(m, f, a, lanes)
    if space != "global" or m.nowhere is None:
        return [_part(m, f, space, a, lanes, size)]
    lost = without_memory(m, a, size)
    out = []
    if not lost.all():
        out.append(_part(m, f, space, a[~lost], lanes[~lost], size))
    if lost.any():
        out.append(Part(space, m.nowhere, (a[lost] & np.uint64(NOWHERE - 1)).view(np.int64), lanes[lost]))
    return out


def grid_before(m: Machine, f: Fragment, a: Lanes, lanes: Lanes) -> None:
    """Harm if the grid before may still write what lies at global addresses."""
    at = np.clip((a - np.uint64(GLOBAL_WINDOW)).view(np.int64), 0, m.memory.size - 1)
    early = (m.clocks.know[0, f.warp.threads[lanes], m.before] < 1) & ~m.settled[at]
    if np.count_nonzero(early) and m.judges("global", m.line(f)):
        where = m.here(f, int(lanes[int(np.argmax(early))]))
        raise m.harm(
            Kind.RACE,
            where,
            "an access to global memory before griddepcontrol.wait, while the grid before may still write it",
            "griddepcontrol",
            space="global",
        )


def without_memory(m: Machine, a: Lanes, size: int) -> Lanes:
    """Which global addresses have no memory behind them."""
    at = (a - np.uint64(GLOBAL_WINDOW)).view(np.int64)
    assert m.memory.valid is not None
    bad = (at < 0) | (at > m.memory.size - size)
    inside = np.where(bad, 0, at)
    return bad | ~(m.memory.valid[inside] & m.memory.valid[inside + size - 1])


#: Bits of the largest address.
_ADDRESS_BITS = 57
_FOREIGN = np.array([w >> 40 for w in (SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW)], np.uint64)
_BY_WINDOW = {
    SHARED_WINDOW >> 40: ("shared::cluster", SHARED_WINDOW),
    LOCAL_WINDOW >> 40: ("local", LOCAL_WINDOW),
    PARAM_WINDOW >> 40: ("param", PARAM_WINDOW),
    CONST_WINDOW >> 40: ("const", CONST_WINDOW),
}


def _part(m: Machine, f: Fragment, space: str, a: Lanes, lanes: Lanes, size: int) -> Part:
    match space:
        case "global":
            at = (a - np.uint64(GLOBAL_WINDOW)).view(np.int64)
            bad = without_memory(m, a, size)
            if np.count_nonzero(bad):
                raise _bad(m, f, lanes, bad, a, "no memory lies there in the global space", space)
            return Part("global", m.memory, at, lanes)
        case "shared::cta" | "shared::cluster":
            return Part("shared", m.shared.arena, shared_bytes(m, f, space, a, lanes, size), lanes)
        case "local":
            at = a.view(np.int64)
            bad = (at < 0) | (at > m.loaded.local_size - size)
            if np.count_nonzero(bad):
                raise _bad(m, f, lanes, bad, a, "outside of the thread's local memory", space)
            inside(m, f, Part("local", m.local, at, lanes), size)
            return Part("local", m.local, at + f.warp.threads[lanes] * m.loaded.local_size, lanes)
        case "const" | "param":
            arena = m.constants if space == "const" else m.params
            at = a.view(np.int64)
            bad = (at < 0) | (at > arena.size - size)
            if np.count_nonzero(bad):
                raise _bad(m, f, lanes, bad, a, f"outside of the {space} space", space)
            inside(m, f, part := Part(space, arena, at, lanes), size)
            return part
    raise ValueError(space)


def shared_bytes(m: Machine, f: Fragment, space: str, a: Lanes, lanes: Lanes, size: int) -> Lanes:
    """Bytes in the arena of shared addresses; those of other blocks only in ``shared::cluster``."""
    block = f.warp.block
    far = a >> np.uint64(32) != 0
    if np.count_nonzero(far):
        raise _bad(m, f, lanes, far, a, "outside of the window of shared memory", "shared")
    at = a.astype(np.int64) - block.shared_base
    bad = (at < m.loaded.first_shared) | (at > block.shared_size - size)
    if not np.count_nonzero(bad):
        inside(m, f, Part("shared", m.shared.arena, at, lanes), size)
        return at + block.arena
    if space == "shared::cta" or len(block.cluster.blocks) == 1:
        raise _bad(m, f, lanes, bad, a, "outside of the block's shared memory", "shared")
    out = at + block.arena
    for i in np.flatnonzero(bad):
        out[i] = shared_byte(m, f, int(a[i]), size, int(lanes[i]))
    return out


def shared_byte(m: Machine, f: Fragment, address_: int, size: int, lane: int = -1) -> int:
    """The byte of one shared address of the cluster."""
    if address_ >> 32:
        raise m.undefined(f, f"outside of the window of shared memory: address {address_:#x}", _SECTION, lane)
    block = owner(m, f, address_, lane)
    at = (address_ & 0xFFFFFFFF) - block.shared_base
    if not m.loaded.first_shared <= at <= block.shared_size - size:
        raise m.undefined(f, f"outside of shared memory: address {address_:#x}", _SECTION, lane)
    if size:
        inside(m, f, Part("shared", m.shared.arena, np.array([at]), np.array([lane])), size)
    return at + block.arena


def owner(m: Machine, f: Fragment, address_: int, lane: int = -1) -> Block:
    """The block of the cluster that a shared address lies in."""
    rank = (address_ & 0xFFFFFFFF) >> RANK_SHIFT
    blocks = f.warp.block.cluster.blocks
    if rank >= len(blocks):
        raise m.undefined(
            f, f"address {address_:#x} lies in block {rank} of a cluster of {len(blocks)}", _SECTION, lane
        )
    block = blocks[rank]
    if block.gone:
        raise m.undefined(f, f"block {rank} of the cluster {EXITED}", OF_A_CLUSTER, lane)
    if block is not f.warp.block and not _runs(m, f, block, lane):
        raise m.undefined(f, f"block {rank} of the cluster {NOT_BEGUN}", OF_A_CLUSTER, lane)
    return block


def _runs(m: Machine, f: Fragment, block: Block, lane: int) -> bool:
    """Whether a thread knows that another block has begun: they have met, or something has come from it."""
    if f.warp.met_cluster:
        return True
    thread = int(f.warp.threads[max(lane, 0)])
    others = slice(block.first_thread, block.first_thread + block.threads)
    return bool(m.clocks.know[OF_ANY_SCOPE, thread, others].any())


def barrier_free(m: Machine, f: Fragment, part: Part, size: int) -> None:
    """Undefined if plain accesses touch a live mbarrier."""
    if part.space != "shared":
        return
    live = m.shared.barrier
    hit = live[part.at >> 3]
    for step in range(8, size, 8):
        hit = hit | live[(part.at + step) >> 3]
    hit = hit | live[(part.at + size - 1) >> 3]
    if np.count_nonzero(hit):
        lane = int(part.lanes[int(np.flatnonzero(hit)[0])])
        raise m.undefined(f, "an access to the bytes of a live mbarrier object", "mbarrier", lane)


def packed(m: Machine, threads: Lanes) -> Lanes:
    """Agents and epochs of threads, as the shadow keeps them."""
    return (threads << 32) | m.clocks.epoch[threads]


def granules(at: Lanes, size: int, granule: int) -> Lanes:
    """The granules of an access, one row for each lane."""
    first = at // granule
    count = max(size // granule, 1)
    if count == 1:
        return first[:, None]
    return first[:, None] + np.arange(count)


def _reserved(m: Machine, part: Part) -> bool:
    """Whether an access lies in the shared memory that the system reserves for libraries.

    Cooperative groups read there, behind a ``shfl``, what lane 0 of the warp has acquired. That orders
    nothing by the memory model, and no author can change it: plain accesses there are not judged.
    """
    if part.space != "shared" or m.loaded.first_shared >= 0:
        return False
    return bool((part.at % m.shared.stride < SHARED_START).all())


def note_read(m: Machine, f: Fragment, part: Part, size: int, strong: int = 0, word: int = 0) -> None:
    """A generic read: a race is harm. ``word``: bytes of each of several accesses that it is."""
    shadow = part.arena.shadow
    if shadow is None or (not strong and _reserved(m, part)):
        return
    threads = f.warp.threads[part.lanes]
    index = granules(part.at, size, shadow.granule)
    found = shadow.reads(
        index,
        packed(m, threads)[:, None],
        m.line(f),
        threads[:, None],
        strong=strong and strong | _log(word or size) << 4,
    )
    if found is not None and m.judges(part.space, m.line(f), found.line):
        raise m.conflict(f, found, "a read", part.space)


def written(part: Part, size: int) -> bool:
    """Whether the launch has written some of the bytes."""
    shadow = part.arena.shadow
    return shadow is not None and bool(shadow.wrote[granules(part.at, size, shadow.granule)].any())


def discarded(part: Part, size: int) -> bool:
    """Whether some of the bytes were destroyed, and not written since."""
    shadow = part.arena.shadow
    if shadow is None or shadow.discarded is None:
        return False
    return bool(shadow.discarded[granules(part.at, size, shadow.granule)].any())


def note_write(
    m: Machine,
    f: Fragment,
    part: Part,
    size: int,
    strong: int = 0,
    data: Callable[[], Lanes] | None = None,
    word: int = 0,
) -> None:
    """A generic write: a race is harm. ``data`` gives the bytes that are written, one row for each lane;
    ``word``: bytes of each of several accesses that it is."""
    shadow = part.arena.shadow
    if shadow is None or (not strong and _reserved(m, part)):
        return
    threads = f.warp.threads[part.lanes]
    index = granules(part.at, size, shadow.granule)
    unchanged = None
    if data is not None and not strong:
        unchanged = _unchanged(part, size, shadow.granule, data)
    found = shadow.writes(
        index,
        packed(m, threads)[:, None],
        m.line(f),
        threads[:, None],
        strong=strong and strong | _log(word or size) << 4,
        unchanged=unchanged,
    )
    if found is not None and m.judges(part.space, m.line(f), found.line):
        raise m.conflict(f, found, "a write", part.space)


def _unchanged(part: Part, size: int, granule: int, data: Callable[[], Lanes]) -> Callable[[], Lanes]:
    def compare() -> Lanes:
        now = part.arena.bytes[part.at[:, None] + np.arange(size)]
        return (now == data()).reshape(len(part.at), -1, granule).all(axis=2)

    return compare


def _log(size: int) -> int:
    return size.bit_length() - 1


def lanes_of(value: Lanes, lanes: Lanes) -> Lanes:
    """A result of some lanes, spread to 32."""
    out = np.zeros((LANES, *value.shape[1:]), value.dtype)
    out[lanes] = value
    return out


def differing(m: Machine, f: Fragment, part: Part, bits: int, value: Lanes) -> None:
    """Lanes of one store that write different values to one place: a race."""
    now = part.arena.load(part.at, bits)
    bad = now != value
    if np.count_nonzero(bad) and m.judges(part.space, m.line(f)):
        at = int(np.flatnonzero(bad.reshape(len(part.at), -1).any(axis=1))[0])
        raise m.harm(
            Kind.RACE,
            m.here(f, int(part.lanes[at])),
            f"lanes of one store write different values to one place in {part.space} memory",
            "memory consistency model: data races",
            space=part.space,
        )
