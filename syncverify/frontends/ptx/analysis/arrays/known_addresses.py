"""Accesses outside of shared memory whose address the text alone makes a number in each thread.

An address is judged where it is made of names of variables, constants and numbers of threads, and nothing but
these decides whether the access is made. An example, in a block of 64 threads:

    mov.u32 %r1, %tid.x;  mov.u64 %rd1, a;  mad.wide.u32 %rd2, %r1, 4, %rd1;  st.local.u32 [%rd2], 0;

Thread 32 leaves ``.local .b8 a[128]``, which is undefined. So is a choice between pointers of two spaces that
is used in the space of one of them. What data, sizes and blocks decide is not judged here. Nor is an access
that constants alone place inside its variable: it is right in each thread and whatever leads to it. An
address that is one of several variables by a choice is unknown, unless each of the choices is right so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncverify.frontends.ptx.decode.effects import Context, Opaque, Value
from syncverify.frontends.ptx.decode.memory import LOCAL_WINDOW, Access, decode_place, nowhere
from syncverify.frontends.ptx.decode.parts import fault, not_promised
from syncverify.frontends.ptx.flow.address_spaces import SHARED_WINDOW, What, kind_at
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import (
    Imm,
    Instr,
    Mem,
    Module,
    Operand,
    Reg,
    Special,
    Sym,
    Variable,
    Vector,
)
from syncverify.frontends.ptx.syntax.types import RANK, WINDOW, WINDOWS, kind, width
from syncverify.frontends.ptx.values.register_values import PerLane
from syncverify.model.events import Event

_NUMBERS = ("%tid", "%ntid", "%laneid")
#: Instructions that an address, and what decides about it, are followed through.
_PURE = frozenset(
    "add and bfe bfi cvt cvta isspacep lop3 mad max min mov mul neg not or popc prmt rem selp setp shf shl "
    "shr sub xor".split()
)
_BRANCHES = ("bra", "ret", "exit")
_INTEGERS = ("u", "s", "b", "pred")
_JUDGED = ("generic", "global", "local", "const", "param")
#: Spaces of which a variable is named by each address.
_NAMED = frozenset({"local", "const", "param"})
#: Types that an address in these spaces has as a whole.
_ADDRESSES = ("u32", "s32", "b32", "u64", "s64", "b64")
#: Instructions that one address is followed over.
_MOST = 256
_NAMES = {number: name.partition("::")[0] for name, number in WINDOWS.items()}


@dataclass(frozen=True, slots=True)
class KnownAddress(Access):
    """An access whose address is a number; ``variable``: the one that it is in, if there is only one;
    ``among``: those of which it is in one, if there are more and it does not show that it stays inside."""

    variable: Variable | None = field(default=None, kw_only=True)
    among: tuple[Variable, ...] = field(default=(), kw_only=True)

    def events(self, ctx: Context, site: int, address: Value, *_: Any, **__: Any) -> list[Event]:
        if self.among:
            names = " and ".join(v.name for v in self.among)
            raise Opaque(f"which of {names} an address leads to, and whether it stays inside, is not known")
        found = [address.lanes[i] for i in ctx.lanes] if isinstance(address, PerLane) else [address]
        wrong = (self._wrong(ctx, x) for x in dict.fromkeys(found) if x.__class__ is int)
        return next(([fault(site, *w)] for w in wrong if w is not None), [])

    def _wrong(self, ctx: Context, x: int) -> tuple[str, str] | None:
        """The rule that an address breaks, and how; None where it may be right."""
        v = self.variable
        inside = v is not None and self.space in (v.space, "generic")
        if v is not None and inside and (self.space != "generic" or x >> WINDOW == LOCAL_WINDOW):
            windowed = self.space in ("generic", "param")
            at = (x & (1 << WINDOW) - 1 if windowed else x) - ctx.variable(v.name)
            wrong = _misplaced(v, at, self.bytes)
            if wrong is None and (text := unpromised(v, self.bytes)) is not None:
                raise Opaque(text)
            return wrong
        if self.space == "generic":
            text = nowhere("generic", x, ctx.local_end)
            return None if text is None else ("SV114", text)
        if self.space != "global":
            return None
        if x >> WINDOW in _NAMES:
            return "SV114", f"a generic address of {_NAMES[x >> WINDOW]} memory is used in space global"
        return ("SV114", f"no global memory lies at {x:#x}") if x >> RANK == 0 else None


def _misplaced(v: Variable, at: int, size: int) -> tuple[str, str] | None:
    """The rule that an access at some byte of a variable breaks, and how."""
    if not 0 <= at <= v.size - size:
        return "SV114", f"bytes {at} to {at + size - 1} lie outside of {v.name}, which has {v.size}"
    if at % size and unpromised(v, size) is None:
        return "SV701", f"byte {at} of {v.name} is not {size}-byte aligned"
    return None


def unpromised(v: Variable, size: int) -> str | None:
    """Why nothing promises that accesses of so many bytes to a variable are aligned; None where its
    declaration does. That of a pointer's parameter says how what it points to is aligned."""
    align = v.size if v.ptr is not None else v.align
    return not_promised(f"an access of {size} bytes", size, v.name, align) if align % size else None


def known_addresses(flow: Flow, module: Module, branches: Collection[int]) -> Mapping[int, KnownAddress]:
    """The accesses, by index, that are judged so; ``branches``: those that are decided anyway."""
    everything = (*flow.function.params, *flow.function.variables, *module.variables)
    variables = {v.name: v for v in everything}
    found = {}
    for k, i in enumerate(flow.body):
        access = decode_place(i) if flow.block_of[k] in flow.reached else None
        if access is None or access.space not in _JUDGED:
            continue
        if access.space == "param" and not isinstance(access.address.base, Reg):
            continue
        made = _Made(flow)
        if not made.of_access(k, access.address, branches):
            continue
        named = [variables[n] for n in made.names if n in variables]
        spaces = {v.space for v in named}
        if len(named) < len(made.names) or "global" in spaces:
            continue
        if made.host and not (named or _chosen(flow, k, access.address)):
            continue
        if access.space in _NAMED and (made.host or not named or placed_inside(flow, k, access, named)):
            continue
        one = named[0] if len(named) == 1 and not made.host and spaces <= _NAMED else None
        several = len(named) > 1 and not made.host and spaces <= _NAMED
        several = several and not placed_inside(flow, k, access, named)
        among = tuple(sorted(named, key=lambda v: v.name)) if several else ()
        found[k] = KnownAddress(
            access.code, access.address, access.elements, access.size, access.space, variable=one, among=among
        )
    return found


def placed_inside(flow: Flow, k: int, access: Access, named: Sequence[Variable]) -> bool:
    """Whether constants alone place an access inside of a variable, and aligned as it has to be; if there is
    a choice between places, each of them."""
    places = _places(flow, access.address.base, k, generic=access.space == "generic")
    variables = {v.name: v for v in named if access.space in (v.space, "generic")}
    return places is not None and all(
        name in variables
        and unpromised(variables[name], access.bytes) is None
        and _misplaced(variables[name], at + access.address.offset, access.bytes) is None
        for name, at in places
    )


def _places(flow: Flow, x: Operand, k: int, *, generic: bool) -> Collection[tuple[str, int]] | None:
    """The places that an address may be, as variables and bytes from their beginnings, if each step to it
    adds a constant or chooses."""
    versions, found, seen = flow.versions, set[tuple[str, int]](), set[tuple[int, int]]()
    work = [(x, k, 0)]
    while work and len(seen) <= _MOST:
        x, k, more = work.pop()
        if isinstance(x, Sym):
            found.add((x.name, more + x.offset))
            continue
        if not isinstance(x, Reg):
            return None
        versions_of = [versions.read(x.name, k)]
        while versions_of:
            v = versions_of.pop()
            if (v, more) in seen:
                continue
            seen.add((v, more))
            writer = versions.writer[v]
            if versions.is_unset(v):
                return None
            if writer < 0:
                versions_of += [w for _, w in versions.merged(v)]
                continue
            steps = _steps(flow.body[writer], generic=generic)
            if steps is None:
                return None
            work += [(op, writer, more + added) for op, added in steps]
            if flow.body[writer].guard is not None:
                versions_of.append(versions.read(versions.name[v], writer))
    return None if work or not found else found


def _steps(i: Instr, *, generic: bool) -> list[tuple[Operand, int]] | None:
    """The operands one of which an instruction makes its result of, and what it adds to them."""
    converts = generic and i.op == "cvta" and "to" not in i.mods
    if not (converts or i.op in ("mov", "add", "sub", "selp")) or i.mods[-1] not in _ADDRESSES:
        return None
    if i.op == "selp":
        return [(op, 0) for op in i.operands[1:3]]
    x, added = (*i.operands[1:], Imm(0))[:2]
    if i.op == "add" and isinstance(x, Imm):
        x, added = added, x
    if not isinstance(added, Imm):
        return None
    return [(x, -added.value if i.op == "sub" else added.value)]


def _chosen(flow: Flow, k: int, at: Mem) -> bool:
    """Whether an address is a pointer of the host or something else."""
    return isinstance(at.base, Reg) and kind_at(flow, at.base.name, k, SHARED_WINDOW) is What.MIXED


class _Made:
    """What an address is made of: names of variables, and whether a pointer of the host goes into it."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.names: set[str] = set()
        self.host = False
        self.controllers = flow.controllers()
        self.seen: set[int] = set()

    def of_access(self, k: int, at: Mem, branches: Collection[int]) -> bool:
        """Whether the address of an access, and whether it is made, come from what is followed alone."""
        i = self.flow.body[k]
        deciders = [] if i.guard is None else [i.guard]
        guards = all(self._follow(x, k) for x in deciders) and self._decided(k, branches)
        if not guards or self.host or self.names:
            return False
        return self._operand(at.base, k)

    def _decided(self, k: int, branches: Collection[int] = ()) -> bool:
        """Whether all branches that decide about an instruction are followed, or decided anyway."""
        work, seen = [self.flow.block_of[k]], set[int]()
        while work:
            for c in self.controllers[work.pop()]:
                last = self.flow.blocks[c].hi - 1
                if c in seen:
                    continue
                seen.add(c)
                work.append(c)
                if last not in branches and not self._instruction(last):
                    return False
        return True

    def _follow(self, x: Reg, k: int) -> bool:
        """Whether what a register holds before an instruction is followed."""
        versions = self.flow.versions
        work, seen = [versions.read(x.name, k)], set[int]()
        while work:
            v = work.pop()
            if v in seen:
                continue
            seen.add(v)
            writer = versions.writer[v]
            if versions.is_unset(v):
                return False
            if writer < 0:
                work += [w for _, w in versions.merged(v)]
            elif not self._instruction(writer):
                return False
            elif self.flow.body[writer].guard is not None:
                work.append(versions.read(versions.name[v], writer))
        return True

    def _instruction(self, k: int) -> bool:
        """Whether all that an instruction reads is followed, and what decides whether it is executed."""
        if k in self.seen:
            return True
        self.seen.add(k)
        i = self.flow.body[k]
        if len(self.seen) > _MOST or not self._decided(k):
            return False
        if i.guard is not None and not self._follow(i.guard, k):
            return False
        if _loads_pointer(i, self.flow):
            self.host = True
            return True
        if i.op in _BRANCHES:
            return True
        typed = i.op == "isspacep" or (i.mods and kind(i.mods[-1]) in _INTEGERS)
        return bool(typed) and i.op in _PURE and all(self._operand(op, k) for op in _parts(i.operands[1:]))

    def _operand(self, op: Operand, k: int) -> bool:
        if isinstance(op, Reg):
            return self._follow(op, k)
        if isinstance(op, Sym):
            self.names.add(op.name)
            return True
        return isinstance(op, Imm) or (isinstance(op, Special) and op.name.startswith(_NUMBERS))


def _parts(ops: Sequence[Operand]) -> Iterator[Operand]:
    for op in ops:
        yield from op.items if isinstance(op, Vector) else (op,)


def _loads_pointer(i: Instr, flow: Flow) -> bool:
    """Whether an instruction loads a parameter of the kernel that may be a pointer."""
    m = i.operands[1] if i.op == "ld" and "param" in i.mods and width(i.mods[-1]) == 64 else None
    return flow.function.entry and isinstance(m, Mem) and isinstance(m.base, Sym)


__all__ = ["KnownAddress", "known_addresses", "placed_inside", "unpromised"]
