"""Accesses and copies whose address belongs to another state space, as the text alone shows.

A generic address of shared memory is no address in its window, and none in global memory. An example:

    mov.u64 %rd1, tile;  ld.u32 %r1, [%rd1];

Without ``cvta.shared`` the load goes to what lies at that number among all addresses, which is undefined
(PTX ISA, generic addressing). Accesses whose address is followed are judged by its number instead
(``decode/memory.py``).

Accesses to a variable by its name lie inside of it, at a multiple of their size. Another example:

    .local .align 16 .b8 spill[64];  st.local.v4.u32 [spill+8], {...};
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from syncverify.frontends.ptx.analysis.arrays.known_addresses import unpromised
from syncverify.frontends.ptx.decode.effects import Context, Effect, Opaque, Value
from syncverify.frontends.ptx.decode.parts import fault
from syncverify.frontends.ptx.flow.address_spaces import What, Window, kind_at, register_kinds
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.addresses import GENERIC, addresses
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Module, Reg, Sym, Variable, Vector
from syncverify.frontends.ptx.syntax.types import width
from syncverify.model.events import Event

#: What takes an address in global memory, whether or not it says so.
_OF_GLOBAL = frozenset({"multimem", "discard", "applypriority", "createpolicy", "fence"})
#: Instructions that keep an address in its variable, and how many of them are followed.
_KEPT = ("mov", "cvta", "add")
_MOST_STEPS = 16


def foreign_addresses(flow: Flow, module: Module) -> Mapping[int, Effect]:
    """The accesses, by index, that leave every state space, or their variable, whenever they are executed."""
    function = flow.function
    everything = (*function.params, *function.variables, *module.variables)
    reached = [k for k in range(len(function.body)) if flow.block_of[k] in flow.reached]
    found = {k: e for k in reached if (e := _outside(flow, k, everything)) is not None}
    for space in ("shared", "local"):
        window = Window(space, frozenset(v.name for v in everything if v.space == space))
        if window.names or space == "shared":
            found |= {k: undefined(text) for k, text in _foreign(flow, window)}
    return found


def _foreign(flow: Flow, window: Window) -> Iterator[tuple[int, str]]:
    """The accesses by addresses of another kind, as far as they have to do with a window."""
    kinds = register_kinds(flow.function, window)

    def kind_of(name: str, k: int) -> What | None:
        kind = kinds.get(name)
        if flow.block_of[k] not in flow.reached:
            return kind
        if flow.versions.is_unset(flow.versions.read(name, k)):
            return What.UNSET
        return kind_at(flow, name, k, window) if kind in (None, What.MIXED) else kind

    for k, i in enumerate(flow.function.body):
        text = _wrong(i, k, kind_of, window.space)
        if text is not None:
            yield k, text


def _outside(flow: Flow, k: int, variables: Sequence[Variable]) -> Effect | None:
    """A fault, if a load or store of a variable not in shared memory leaves it, or is not aligned."""
    i = flow.body[k]
    if i.op not in ("ld", "st") or len(i.operands) != 2:
        return None
    at, value = i.operands if i.op == "st" else i.operands[::-1]
    name = _base(flow, k, at) if isinstance(at, Mem) else None
    v = next((v for v in variables if v.name == name), None)
    if v is None or not isinstance(at, Mem) or v.space == "shared" or not v.size:
        return None
    size = width(i.mods[-1]) // 8 * (len(value.items) if isinstance(value, Vector) else 1)
    whole = not size & (size - 1)
    named = _named(flow, k, at)
    if named is None:
        text = unpromised(v, size) if whole and v.space == "global" else None
        return None if text is None else undecided(text)
    first = named.offset
    if first < 0 or first + size > v.size:
        return undefined(f"bytes {first} to {first + size - 1} lie outside of {v.name}, which has {v.size}")
    text = unpromised(v, size) if whole else None
    if text is not None:
        return undecided(text)
    if whole and first % size:
        return undefined(f"byte {first} of {v.name} is not {size}-byte aligned", "SV701")
    return None


def _base(flow: Flow, k: int, at: Mem) -> str | None:
    """The only variable that an address is the place of, if copies and sums lead to one."""
    found, work = set[str](), [(at.base, k)]
    for _ in range(_MOST_STEPS):
        if not work:
            break
        x, k = work.pop()
        if isinstance(x, Sym):
            found.add(x.name)
        writer = flow.versions.writer[flow.versions.read(x.name, k)] if isinstance(x, Reg) else -1
        if writer >= 0 and flow.body[writer].op in _KEPT:
            work += [(op, writer) for op in flow.body[writer].operands[1:]]
    return found.pop() if len(found) == 1 and not work else None


def _named(flow: Flow, k: int, at: Mem) -> Sym | None:
    """The variable that an address is in, and where: by its name, copies of it and sums with numbers."""
    base, offset = at.base, at.offset
    for _ in range(_MOST_STEPS):
        if isinstance(base, Sym):
            return Sym(base.name, base.offset + offset)
        k = flow.versions.writer[flow.versions.read(base.name, k)] if isinstance(base, Reg) else -1
        i = flow.body[k] if k >= 0 else None
        if i is None or i.guard is not None or i.op not in _KEPT:
            return None
        base = i.operands[1]
        if i.op == "add":
            step = i.operands[2]
            if not isinstance(step, Imm):
                return None
            offset += step.value
    return None


def _wrong(i: Instr, k: int, kind_of: Callable[[str, int], What | None], of: str) -> str | None:
    """What is wrong about the address of an access; None where nothing is shown to be."""
    for at, space in addresses(i):
        kind = kind_of(at.base.name, k) if isinstance(at.base, Reg) else None
        alone = space == GENERIC and i.op in _OF_GLOBAL
        text = _of(kind, "global" if alone else space.partition("::")[0], of)
        if text is not None:
            return text
    return None


def _of(kind: What | None, space: str, of: str) -> str | None:
    """What is wrong about a kind of address in a state space; ``of``: the space that it has to do with."""
    if kind is What.UNSET and space != "shared":
        return "the address is computed from a register that nothing has written"
    if kind is What.LOST:
        return "cvta, cvt or mapa was given an address of another kind: the result lies in no state space"
    if kind is What.SHARED and space != "generic":
        return f"a generic address of {of} memory is used in space {space}: cvta.to.{of} is missing"
    if kind is What.OFFSET and space != of:
        return f"an address in the window of {of} memory is used as one in space {space}: " + (
            f"cvta.{of} is missing" if space == "generic" else "it lies elsewhere"
        )
    return None


def undecided(why: str) -> Effect:
    """Nothing is known of what follows the instruction."""

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        raise Opaque(why)

    return Effect(emit)


def undefined(text: str, rule: str = "SV114") -> Effect:
    """A fault wherever the instruction is executed."""

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        return [fault(site, rule, text)]

    return Effect(emit)


__all__ = ["foreign_addresses", "undefined"]
