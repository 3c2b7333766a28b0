"""A function as resumable code: Python functions over a flat list of slots, compiled once.

An agent's state is the list ``r``: program counter, queued events, class, its context, memories, then what
the code reads: special registers, addresses of variables, parameters, registers. ``r[0]`` is a label: each
instruction has several: ``START`` (go on here), ``EVENT`` (its events), ``AFTER`` (with their answer) and
``DECIDE`` (its branch). A function takes ``(r, a)``, ``a`` being the answer to the last event, and returns
an event, or None where it only jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from posixpath import basename
from typing import Any

from syncverify.frontends.ptx.compile_expr import NAMES, Expressions, NotPlain, width
from syncverify.frontends.ptx.effect_fragments import fragment_events
from syncverify.frontends.ptx.effect_mbarrier import blocking
from syncverify.frontends.ptx.effect_table import decode
from syncverify.frontends.ptx.effect_uses import late_uses
from syncverify.frontends.ptx.effects import Context, Effect, Opaque, Unsupported
from syncverify.frontends.ptx.flow import Flow, live_before, registers, results, sources
from syncverify.frontends.ptx.global_access import GlobalAccess, poll_effect, spin_effect
from syncverify.frontends.ptx.global_detect import Origins, hand_over, released_unseen
from syncverify.frontends.ptx.lanes import crossing, elections
from syncverify.frontends.ptx.memory import Access, decode_access, written
from syncverify.frontends.ptx.nodes import (
    Function,
    Imm,
    Instr,
    Mem,
    Module,
    Operand,
    Pair,
    Reg,
    Sym,
    Vector,
)
from syncverify.frontends.ptx.printer import instruction_text
from syncverify.frontends.ptx.sized import Size, renewed
from syncverify.frontends.ptx.slice import Slice, slice_of
from syncverify.frontends.ptx.turns import KEPT, TURN, Renewal, outer_loops, renewals
from syncverify.frontends.ptx.untracked import untracked
from syncverify.frontends.ptx.values import INTS, Unknown, Vec, restrict
from syncverify.model.events import END, Ev, Event, Flag, Site

PC, QUEUE, CLASS, CONTEXT, LOCAL, SHARED, PARTED, MASK = range(8)
FIRST = 8
QUEUED, ENDED = 0, 1
#: Labels of instruction k are ``8 * k`` plus these.
START, EVENT, AFTER, DECIDE = range(8, 12)
_POLLS = (Ev.POLL, Ev.POLL_TOKEN)
#: What the agent is given that may be a size without a number.
SIZED = ("param ", "%ctaid", "%nctaid", "%clusterid", "%nclusterid")

Registers = list[Any]
Run = Callable[[Registers, Any], Event | None]
Decoded = Effect | Unsupported | Access


class Disagreement(Exception):  # noqa: N818 -- control flow: the class splits
    """Lanes of a class hold different values where they must agree; ``masks``: the parts."""

    def __init__(self, masks: tuple[int, ...]) -> None:
        super().__init__("lanes disagree")
        self.masks = masks


def agreed(r: Registers, value: Any, what: str) -> Any:
    """The value that all lanes of the class hold. Raises Disagreement, or Opaque where it is not known."""
    if value.__class__ is Vec:
        value = value.on(r[MASK])
        if value.__class__ is Vec:
            missing = value.unknown(r[MASK])
            if missing is not None:
                raise Opaque(f"{what} depends on {missing.why}")
            raise Disagreement(tuple(value.parts(r[MASK]).values()))
    if isinstance(value, Size):
        return value.number()
    if isinstance(value, Unknown):
        answer = r[CONTEXT].answer(value)
        if answer is None:
            raise Opaque(f"{what} depends on {value.why}")
        return answer
    return value


class Program:
    """A function of a module, compiled. ``sites`` grows as it is compiled, then stays.

    ``apart``: pointers of different parameters lead to different memory. ``numbers``: places of parameters,
    ``name+offset``, that hold no pointer. ``holds``: the launch file says what lies in some global memory.
    """

    def __init__(
        self,
        module: Module,
        function: Function,
        apart: bool = True,
        numbers: frozenset[str] = frozenset(),
        holds: bool = False,
    ) -> None:
        self.module = module
        self.function = function
        self.flow = Flow(function)
        self.body = function.body
        #: whether nothing but bulk copies writes global memory: what is read there is the same at any time
        writers = [{m.split("::")[0] for m in i.mods} for i in self.body if i.op in ("st", "red", "atom")]
        self.reads_only = all(_SPACES & mods - {"global"} for mods in writers)
        self.holds = holds
        self.numbers = numbers
        self.spins = self.flow.spins()
        self.decoded: dict[int, Decoded] = {}
        pointers = _shared_pointers(function)
        generic: dict[int, bool] = {}  # accesses without a space, and whether they may reach shared memory
        for k, i in enumerate(self.body):
            access = decode_access(i)
            if access is not None and access.space == "generic":
                generic[k] = bool(pointers.intersection(registers(access.address))) or _names_shared(
                    access.address, function, module
                )
                access = access if generic[k] else None
            found = access or decode(i, function)
            if found is None and i.op in ("trap", "call"):
                found = _stop(i)
            if found is not None:
                self.decoded[k] = found
        #: what the kernel's blocks hand over through global memory; None: its accesses have no events
        self.handing = hand_over(self.flow, generic, apart, numbers)
        #: a flag for other kernels: where it is released after bulk copies
        self.unseen = released_unseen(self.flow) if self.handing is None else None
        if self.handing is not None:
            self.decoded.update(self.handing.accesses)
            for k, spin in self.handing.spins.items():
                outside = "a loop waits for what nothing in this kernel writes"
                mine = k in self.handing.accesses
                self.decoded[k] = spin_effect(self.body[k], spin) if mine else Unsupported(outside)
            for k in self.handing.polls & self.handing.accesses.keys():
                self.decoded[k] = poll_effect(self.body[k])
            self.decoded = dict(sorted(self.decoded.items()))
        else:
            for k, e in self.decoded.items():
                if isinstance(e, Effect):
                    self.decoded[k] = untracked(self.body[k], e)
        for block in self.flow.endless():
            lines = range(self.flow.blocks[block].lo, self.flow.blocks[block].hi)
            if not self.decoded.keys() & set(lines):
                self.decoded[lines[0]] = Unsupported("a loop that no path leads out of")
        self.decoded = dict(sorted(self.decoded.items()))
        loads = [k for k, e in self.decoded.items() if _reads_shared(e, self.body[k])]
        self.uses = late_uses(self.flow, loads)
        wgmma = any(i.op == "wgmma" for i in self.body)
        fragments = fragment_events(function, self.flow) if wgmma else {}
        #: per instruction the events that its registers bring: (code, handle or name of a fragment)
        self.touches: dict[int, list[tuple[Ev, int | str]]] = {k: list(e) for k, e in fragments.items()}
        for k, handles in self.uses.at.items():
            self.touches.setdefault(k, []).extend((Ev.USE, h) for h in handles)
        effects = {k: _as_effect(e) for k, e in self.decoded.items()}
        self._write(slice_of(self.flow, effects, fragments, holds=holds))

    def _write(self, needed: Slice, sized: bool = False) -> None:
        """Compiles what is needed; ``sized``: for sizes without a number."""
        self.slice = needed
        self.sized = sized
        self.crossing: Slice = crossing(self.flow, self.slice)
        self.elections = elections(self.flow, self.slice, self.decoded)
        self.assumptions: list[str] = []
        self.sites: list[Site] = []
        self.slots: dict[str, int] = {}
        self.at = 0  # the instruction that is being compiled
        self.constants: dict[int, set[str]] = {}  # what of the launch's sizes instructions read
        self.symbols: dict[str, int] = {}  # special registers, addresses and parameters that the code reads
        self.size = FIRST
        self.steers = bool({"shared"} & self.slice.spaces)
        self.text = ""
        self.classes = 0  # numbered so far
        self.site_of: dict[int, int] = {}
        self.one_value: set[int] = set()  # sites of stores that are not known to store different values
        self.stored: dict[int, Any] = {}  # what they were seen to store
        self.equal_value: set[int] = set()  # sites of stores that were seen to store one known value
        self.alike: set[int] = set()  # sites whose lanes store to the same bytes, with values not all known
        code = _Writer(self)
        self.blocks: dict[int, Run] = code.compile()
        if sized:
            for x in self.renewals.values():
                for name in x.names:
                    self.slot(KEPT + name)
        self.entry = code.target(0) if self.body else ENDED

    @cached_property
    def origins(self) -> Origins:
        """Which parameters addresses in global memory come from."""
        return Origins(self.flow, True, self.numbers)

    @cached_property
    def for_sizes(self) -> Program:
        """The same for sizes without a number: without values that only say where in global memory something
        is read, for they ask much and tell nothing; with sizes that turns of loops read anew."""
        if self.slice.steering is None and not self.renewals:
            return self
        made = copy(self)
        for name in ("bits", "renewals", "stale", "_live", "_live_in_turns", "_kept", "_live_memo"):
            made.__dict__.pop(name, None)
        made._write(self.slice.steering or self.slice, sized=True)
        return made

    @cached_property
    def renewals(self) -> dict[int, Renewal]:
        """By header, the loops whose turns read sizes anew."""
        found = renewals(self.flow, self.slice, self.constants, frozenset(self.slots))
        return {x.header: x for x in found}

    def site(self, k: int) -> int:
        """The site of an instruction."""
        found = self.site_of.get(k)
        if found is None:
            i = self.body[k]
            found = self.site_of[k] = len(self.sites)
            self.sites.append(Site(self.module.span(i), instruction_text(i)))
        return found

    def slot(self, name: str) -> int:
        """The place of a register or of a constant of the agent."""
        found = self.slots.get(name)
        if found is None:
            found = self.slots[name] = self.size
            self.size += 1
        return found

    def constant_slot(self, name: str) -> int:
        """The place of something that the agent is given: ``%tid.x``, ``&variable``, ``param name+8:u32``."""
        found = self.slot(name)
        self.symbols[name] = found
        if name.startswith(SIZED):
            self.constants.setdefault(self.at, set()).add(name)
        return found

    @cached_property
    def bits(self) -> dict[int, int]:
        """The width of each slot that holds a register."""
        types = self.function.registers
        return {s: width(types[name]) for name, s in self.slots.items() if name in types}

    # ------------------------------------------------------------ liveness

    @cached_property
    def _live(self) -> list[frozenset[str]]:
        return live_before(self.flow, self._reads, self._writes, self._kept)

    @cached_property
    def _live_in_turns(self) -> list[frozenset[str]]:
        """The same inside loops whose turns read sizes anew."""
        entering = {h: x.names for h, x in self.renewals.items()}
        return live_before(self.flow, self._reads, self._writes, self._kept, entering)

    @cached_property
    def _kept(self) -> frozenset[str]:
        return self.slice.registers.union(*self.constants.values())

    def _reads(self, k: int) -> tuple[str, ...]:
        if k in self.slice.pure or k in self.decoded or k in self.slice.branches:
            return (*sources(self.body[k]), *self.constants.get(k, ()))
        return ()

    def _writes(self, k: int) -> tuple[str, ...]:
        return results(self.body[k]) if k in self.slice.pure or k in self.decoded else ()

    def live_at(self, label: int) -> tuple[int, ...]:
        """The slots that may be read from a label on before they are written."""
        found = self._live_memo.get(label)
        if found is None:
            found = self._live_memo[label] = tuple(sorted(self.slots[x] for x in self._live_names(label)
                                                          if x in self.slots))  # fmt: skip
        return found

    @cached_property
    def _live_memo(self) -> dict[int, tuple[int, ...]]:
        return {}

    def _live_names(self, label: int) -> set[str]:
        if label < START:
            return set()
        k, kind = divmod(label - START, 8)
        if k >= len(self.body):
            return set()
        n = self.flow.block_of[k]
        block = self.flow.blocks[n]
        live: set[str] = set()
        inside = self.sized and any(n in x.blocks for x in self.renewals.values())
        before = self._live_in_turns if inside else self._live
        for s in block.succ:
            if s < self.flow.end:
                live |= before[s]
        stop = k + 1 if kind == AFTER - START else k
        for j in range(block.hi - 1, stop - 1, -1):
            if self.body[j].guard is None:
                live -= set(self._writes(j))
            live |= set(self._reads(j)) & self._kept
        if kind == AFTER - START:
            live -= set(self._writes(k))
        for x in self.renewals.values() if self.sized else ():
            if n in x.before or n in x.blocks:
                live.add(TURN)
            if label == self._label(x.header):
                live |= set(x.names) & self._live[x.header]  # before the first turn
            if n in x.blocks or (n in x.after and label == self._label(n)):
                live.update(KEPT + name for name in x.names)
        return live

    def _label(self, block: int) -> int:
        return 8 * self.flow.blocks[block].lo + START

    def again(self, label: int) -> bool:
        """Whether control that is at a label may come to a loop whose turns read sizes anew."""
        if label < START or not self.sized or (label - START) // 8 >= len(self.body):
            return False
        n = self.flow.block_of[(label - START) // 8]
        return any(n in x.before or n in x.blocks for x in self.renewals.values())

    @cached_property
    def stale(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """At headers of such loops, by label: slots that a turn writes, with those that keep the first."""
        return {
            self._label(h): tuple((self.slots[n], self.slots[KEPT + n]) for n in x.names)
            for h, x in self.renewals.items()
        }


def _reads_shared(e: Decoded, i: Instr) -> bool:
    return i.op == "ldmatrix" or (isinstance(e, Access) and e.code == Ev.READ)


def _as_effect(e: Decoded) -> Effect | Unsupported:
    if isinstance(e, Access):
        stored = e.elements if isinstance(e, GlobalAccess) and e.signals else ()
        return Effect(lambda ctx, site, v: (), (e.address, *stored))
    return e


def _stop(i: Instr) -> Unsupported | None:
    if i.op == "trap":
        return Unsupported("the kernel traps")
    callee = i.operands[1] if len(i.operands) > 1 else None
    name = callee.name if isinstance(callee, Sym) else "a function pointer"
    if name in ("vprintf", "free", "malloc", "cudaGetParameterBufferV2"):
        return None
    if name == "__assertfail":
        return Unsupported("an assertion of the kernel fails")
    return Unsupported(f"a call of {name}")


def _shared_pointers(function: Function) -> frozenset[str]:
    """Registers that may hold a generic address of shared memory."""
    copies: dict[str, set[str]] = {}
    found: set[str] = set()
    kept: set[str] = set()  # what is stored where loads of pointers look
    loads: set[str] = set()
    for i in function.body:
        names = results(i)
        if i.op == "st" and "global" not in i.mods:
            kept.update(r for op in i.operands[1:] for r in registers(op))
        if i.op in ("cvta", "mapa") and any(m.startswith("shared") for m in i.mods) and "to" not in i.mods:
            found.update(names)
        elif i.op == "ld" and not any(m in ("global", "const") for m in i.mods) and "u64" not in i.mods[-1:]:
            if width(i.mods[-1]) == 64 and not _entry_parameter(i, function):
                found.update(names)
        elif i.op == "ld" and "u64" in i.mods and not _entry_parameter(i, function):
            loads.update(() if any(m in ("global", "const") for m in i.mods) else names)
        elif i.op in _CARRIES:
            for name in names:
                copies.setdefault(name, set()).update(sources(i))
    changed = True
    while changed:
        changed = False
        if loads and not kept.isdisjoint(found):
            changed = not loads <= found
            found |= loads
        for name, of in copies.items():
            if name not in found and of & found:
                found.add(name)
                changed = True
    return frozenset(found)


#: Instructions whose result may be a pointer if an operand is one.
_CARRIES = frozenset(
    "mov add sub and or xor selp mad shfl cvt shl shr mapa mul max min lop3 bfi prmt shf not neg addc subc "
    "atom slct".split()
)


def _parameter_pointers(function: Function) -> dict[str, Sym]:
    """Registers that hold nothing but the place of a kernel parameter."""
    names = {p.name for p in function.params} if function.entry else set()
    found: dict[str, Sym] = {}
    written: set[str] = set()
    for i in function.body:
        source = i.operands[1] if i.op in ("mov", "cvta", "add") and len(i.operands) > 1 else None
        if isinstance(source, Reg):
            source = found.get(source.name)
        for name in results(i):
            found.pop(name, None)
            if (
                name in written
                or i.guard is not None
                or not isinstance(source, Sym)
                or source.name not in names
            ):
                written.add(name)
                continue
            written.add(name)
            more = i.operands[2].value if i.op == "add" and isinstance(i.operands[2], Imm) else 0
            if i.op != "add" or isinstance(i.operands[2], Imm):
                found[name] = Sym(source.name, source.offset + more)
    return found


def _entry_parameter(i: Instr, function: Function) -> bool:
    """A load of a kernel parameter: no pointer to shared memory can come from the host."""
    m = i.operands[1]
    return "param" in i.mods and isinstance(m, Mem) and function.entry and (
        not isinstance(m.base, Sym) or any(p.name == m.base.name for p in function.params)
    )  # fmt: skip


def _names_shared(m: Mem, function: Function, module: Module) -> bool:
    if not isinstance(m.base, Sym):
        return False
    name = m.base.name
    return any(v.name == name and v.space == "shared" for v in (*function.variables, *module.variables))


# ---------------------------------------------------------------- code


class _Writer:
    """Writes the functions of a program."""

    def __init__(self, program: Program) -> None:
        self.p = program
        self.flow = program.flow
        self.body = program.body
        self.lines: list[str] = []
        self.space: dict[str, Any] = {**NAMES, "agreed": agreed, "D": self._decide}
        self.data: dict[int, str] = {}
        self.expr = Expressions(
            program.slot,
            lambda name: f"r[{program.constant_slot(name)}]",
            lambda name: f"r[{program.constant_slot('&' + name)}]",
            program.function.registers,
            lambda name: name in program.slice.registers,
        )
        self.wanted = program.slice.registers
        self._targets: dict[int, int] = {}
        self.parameters = _parameter_pointers(program.function)
        #: blocks that a loop which may read sizes anew begins with
        self.headers: set[int] = set()
        self.after: set[int] = set()  # and those that it is left to
        for header, loop, _ in outer_loops(self.flow) if program.sized else ():
            self.headers.add(header)
            self.after |= {s for b in loop for s in self.flow.blocks[b].succ if s not in loop}
        if program.sized:
            program.slot(TURN)
        self.parts: dict[int, tuple[int, tuple[int, ...]]] = {}  # branch -> its join, slots written between
        self.joins: dict[
            int, set[int]
        ] = {}  # blocks where lanes come together, and the branches they left at
        for k in program.crossing.branches:
            self.joins.setdefault(self.flow.join(self.flow.block_of[k]), set()).add(k)

    # ------------------------------------------------------------ helpers

    def _constant(self, value: object) -> str:
        name = f"c{len(self.space)}"
        self.space[name] = value
        return name

    def _open(self, label: int) -> None:
        self.lines.append(f"def b{label}(r, a):")
        self.opened.append(label)

    def _text(self, line: str) -> None:
        self.lines.append(" " + line)

    def _site(self, k: int) -> int:
        return self.p.site(k)

    def _unknown(self, k: int, text: str = "", source: str = "data") -> str:
        """The name of the value that instruction ``k`` brings and nobody knows."""
        found = self.data.get(k)
        if found is None:
            i = self.body[k]
            span = self.p.module.span(i)
            why = text or f"data ({i.name} at {basename(span.file)}:{span.line})" + self._wish(i)
            found = self.data[k] = self._constant(Unknown(why, source))
        return found

    def _wish(self, i: Instr) -> str:
        """What a launch file could say so that a load's value is known."""
        if i.op != "ld" or "global" not in i.mods:
            return ""
        places = self.p.origins.of(i.operands[1])
        names = [p.name for p in self.p.function.params]
        base, _, offset = next(iter(places), "").rpartition("+")
        if len(places) != 1 or base not in names:
            return ""
        where = f" at byte {offset}" if offset != "0" else ""
        return f": give what parameter {names.index(base)}{where} leads to, as holds of its ptr"

    def target(self, block: int) -> int:
        """The label at which control that comes to a block goes on: blocks without effect are passed over."""
        found = self._targets.get(block)
        if found is None:
            seen: set[int] = set()
            at = block
            while at < self.flow.end and at not in seen and self._idle(at):
                seen.add(at)
                b = self.flow.blocks[at]
                at = b.succ[0] if len(b.succ) == 1 else self.flow.join(at)
            found = ENDED if at >= self.flow.end or (at in seen) else self._label_of(at)
            self._targets[block] = found
        return found

    def _label_of(self, block: int) -> int:
        return 8 * self.flow.blocks[block].lo + START

    def _idle(self, block: int) -> bool:
        b = self.flow.blocks[block]
        p = self.p
        return (
            not any(
                k in p.decoded
                or k in p.touches
                or k in p.slice.pure
                or k in p.slice.branches
                or self.body[k].op == "exit"
                for k in range(b.lo, b.hi)
            )
            and block not in self.joins
            and block not in self.after
        )

    # ------------------------------------------------------------ functions

    def compile(self) -> dict[int, Run]:
        self.opened: list[int] = []
        p = self.p
        end = self.body[-1] if self.body else None
        span = p.module.span(end) if end is not None else p.module.span(Instr("ret", (), (), p.function.line))
        p.sites.append(Site(span, END))
        self._open(QUEUED)
        self._text("q = r[1]")
        self._text(f"if q[1][0] != {int(Ev.UNKNOWN)}:")
        self._text("    r[0], r[1] = (q[0], ()) if len(q) == 2 else (0, (q[0], *q[2:]))")
        self._text("return q[1]")
        self._open(ENDED)
        self._text("r[0] = 1")
        self._text(f"return {self._constant((Ev.EXIT, 0))}")
        for n in sorted(self.flow.reached):
            self._block(n)
        text = "\n".join(self.lines)
        exec(compile(text, f"<{p.function.name}>", "exec"), self.space)
        p.text = text
        return {label: self.space[f"b{label}"] for label in self.opened}

    def _block(self, n: int) -> None:
        b = self.flow.blocks[n]
        self._open(8 * b.lo + START)
        if n in self.joins:
            self.space["J"] = _rejoin
            self._text(f"if r[{PARTED}]: J(r, {n})")
        if n in self.after:
            self.space["O"] = self._restore
            self._text(f"O(r, {n})")
        if n in self.headers:
            self.space["N"] = self._renew
            self._text(f"N(r, {n})")
        for k in range(b.lo, b.hi):
            i = self.body[k]
            self.p.at = k
            if k == b.hi - 1 and i.op in ("bra", "brx", "ret", "exit"):
                break
            if k in self.p.decoded:
                self._effect(k)
                continue
            if k in self.p.touches:
                self._touch(k)
            if k in self.p.slice.pure:
                self._pure(k)
        self._leave(n)

    def _leave(self, n: int) -> None:
        b = self.flow.blocks[n]
        k = b.hi - 1
        i = self.body[k]
        if len(b.succ) == 1:
            if i.op == "exit" and i.guard is None:
                site = self._site(k)
                self._text("r[0] = 1")
                self._text(f"return {self._constant((Ev.EXIT, site))}")
                return
            self._goto(self.target(b.succ[0]))
            return
        if k not in self.p.slice.branches:
            self._goto(self.target(self.flow.join(n)))
            return
        decide = 8 * k + DECIDE
        for last in (False, True):
            if last:
                self._open(decide)
            if i.op == "brx":
                self._text(f"v = {self._index(i)}")
                self._text(f"if v.__class__ is not int: r[0] = {decide}; v = D(r, v, {k})")
                table = next(op.name for op in i.operands if isinstance(op, Sym))
                labels = [self.p.function.labels[x] for x in self.p.function.tables[table]]
                targets = [self.target(self._block_at(x)) for x in labels]
                c = self._constant(tuple(targets))
                self.space["B"] = _entry
                self._text(f"r[0] = B({c}, v)")
                continue
            assert i.guard is not None
            p = f"r[{self.p.slot(i.guard.name)}]"
            self._text(f"v = {p}")
            part = k in self.p.crossing.branches
            name = "P" if part else "D"
            self.space["P"] = self._part
            self._text(f"if v.__class__ not in I: r[0] = {decide}; v = {name}(r, v, {k})")
            taken, other = self._sides(n)
            if i.negated:
                taken, other = other, taken
            self._text(f"r[0] = {taken} if v else {other}")

    def _block_at(self, k: int) -> int:
        return self.flow.end if k >= len(self.body) else self.flow.block_of[k]

    def _sides(self, n: int) -> tuple[int, int]:
        """Labels for the branch taken, and not."""
        b = self.flow.blocks[n]
        i = self.body[b.hi - 1]
        after = self.target(self._block_at(b.hi))
        if i.op == "bra":
            return self.target(
                self._block_at(next(x.target for x in i.operands if hasattr(x, "target")))
            ), after
        if i.op == "exit":
            # an exit under a guard has a site of its own
            return self._exit(b.hi - 1), after
        return ENDED, after

    def _exit(self, k: int) -> int:
        label = 8 * k + EVENT
        if label not in self.opened:
            site = self._site(k)
            self.space[f"b{label}"] = _exiting((Ev.EXIT, site))
            self.opened.append(label)
        return label

    def _index(self, i: Instr) -> str:
        return self.expr.text(i.operands[0], 32)

    def _goto(self, label: int) -> None:
        self._text(f"r[0] = {label}")

    def _decide(self, r: Registers, v: Any, k: int) -> Any:
        """A branch on something that is no plain number."""
        return agreed(r, v, f"the branch at line {self.body[k].line}")

    def _part(self, r: Registers, v: Any, k: int) -> Any:
        """A branch at which lanes may part that take values from each other later."""
        found = self._decide(r, v, k)
        live = r[CONTEXT].warp_lanes
        if r[MASK] != live and v.__class__ is Vec and v.on(live) is v:
            block = self.flow.block_of[k]
            if k not in self.parts:
                names = {
                    name
                    for b in self.flow.between(block)
                    for j in range(self.flow.blocks[b].lo, self.flow.blocks[b].hi)
                    for name in results(self.body[j])
                }
                kept = names & self.p.crossing.registers
                self.parts[k] = (self.flow.join(block), tuple(sorted(self.p.slots[x] for x in kept)))
            if self.parts[k] not in r[PARTED]:
                r[PARTED] = (*r[PARTED], self.parts[k])
        return found

    def _restore(self, r: Registers, block: int) -> None:
        """A loop whose turns read sizes anew has been left: they are what they were."""
        slots = self.p.slots
        for x in self.p.renewals.values():
            for name in x.names if block in x.after else ():
                if r[slots[KEPT + name]].__class__ is not Unknown:
                    r[slots[name]] = r[slots[KEPT + name]]
                    r[slots[KEPT + name]] = _NONE

    def _renew(self, r: Registers, header: int) -> None:
        """A turn begins of a loop whose turns read sizes anew."""
        found = self.p.renewals.get(header)
        if found is None:
            return
        slots = self.p.slots
        turn = slots[TURN]
        for name in found.names:
            if r[slots[KEPT + name]].__class__ is Unknown:
                r[slots[KEPT + name]] = r[slots[name]]
        first = {name: r[slots[KEPT + name]] for name in found.names}
        trips = [first[name] for name in found.trips if name in first]
        kept = [r[slots[name]] for name in found.kept]
        for name, value in zip(found.names, renewed([*first.values()], trips, kept, r[turn]), strict=True):
            r[slots[name]] = value
        r[turn] = r[turn] + 1

    # ------------------------------------------------------------ pure instructions

    def _pure(self, k: int) -> None:
        i = self.body[k]
        if self.p.handing is not None and k in self.p.handing.settled:
            name, value = self.p.handing.settled[k]
            self._text(f"r[{self.p.slot(name)}] = {value}")
            return
        for name, text in self._assignments(k, i):
            slot = self.p.slot(name)
            if name.startswith("%") and name in ("%carry", "%total", "%test", "%shfl"):
                self._text(f"r[{slot}] = {text}")
            elif name not in self.wanted:
                continue
            elif i.guard is None:
                self._text(f"r[{slot}] = {text}")
            else:
                g = f"r[{self.p.slot(i.guard.name)}]"
                new, old = (f"r[{slot}]", text) if i.negated else (text, f"r[{slot}]")
                self._text(f"v = {g}")
                self._text(f"r[{slot}] = (({new}) if v else ({old})) if v.__class__ in I "
                           f"else select(v, {new}, {old})")  # fmt: skip

    def _assignments(self, k: int, i: Instr) -> Iterator[tuple[str, str]]:
        if i.op in ("ld", "ldu"):
            yield from self._load(k, i)
            return
        if i.op == "st":
            self._store(k, i)
            return
        if i.op == "call":
            for name in results(i):
                yield name, self._unknown(k)
            return
        try:
            yield from self.expr.lines(i)
        except NotPlain:
            for name in results(i):
                yield name, self._unknown(k)

    def _load(self, k: int, i: Instr) -> Iterator[tuple[str, str]]:
        m = i.operands[1]
        assert isinstance(m, Mem)
        space = next((x.split("::")[0] for x in i.mods if x.split("::")[0] in _SPACES), "generic")
        dest = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
        type_ = i.mods[-1]
        size = width(type_) // 8
        for n, d in enumerate(dest):
            if not isinstance(d, Reg):
                continue
            offset = m.offset + n * size
            base = self.parameters.get(m.base.name) if isinstance(m.base, Reg) else m.base
            if space == "param" and isinstance(base, Sym):
                offset += base.offset
                known = any(q.name == base.name for q in self.p.function.params) and self.p.function.entry
                name = f"param {base.name}+{offset}:{type_}"
                yield d.name, f"r[{self.p.constant_slot(name) if known else self.p.slot(name)}]"
            elif space == "global" and not isinstance(m.base, Sym):
                if all(r in self.wanted for r in registers(m)):
                    self.space["G"] = read_global if self.p.reads_only else read_held
                    address = f"{self.expr.text(m.base)}" + (f" + {offset}" if offset else "")
                    yield d.name, f"G(r, {address}, {size}, {self._unknown(k)})"
                else:
                    yield d.name, self._unknown(k)
            else:
                address = self.expr.text(m.base)
                yield d.name, f"L(r, {space!r}, {address} + {offset}, {size}, {self._unknown(k)})"
        self.space["L"] = load

    def _store(self, k: int, i: Instr) -> None:
        m = i.operands[0]
        assert isinstance(m, Mem)
        space = next((x.split("::")[0] for x in i.mods if x.split("::")[0] in _SPACES), "generic")
        values = i.operands[1].items if isinstance(i.operands[1], Vector) else (i.operands[1],)
        type_ = i.mods[-1]
        size = width(type_) // 8
        self.space["S"] = store
        guard = "1" if i.guard is None else f"r[{self.p.slot(i.guard.name)}]" + (" ^ 1" if i.negated else "")
        for n, v in enumerate(values):
            offset = m.offset + n * size
            text = self.expr.text(v, 8 * size)
            if space == "param" and isinstance(m.base, Sym):
                name = f"param {m.base.name}+{offset + m.base.offset}:{type_}"
                self._text(f"r[{self.p.slot(name)}] = {text}")
            else:
                address = self.expr.text(m.base)
                self._text(f"S(r, {space!r}, {address} + {offset}, {size}, {text}, {guard})")

    # ------------------------------------------------------------ effects

    def _operand(self, op: Operand) -> str:
        if isinstance(op, Mem):
            base = self.expr.text(op.base)
            return f"{base} + {op.offset}" if op.offset else base
        return self.expr.text(op)

    def _effect(self, k: int) -> None:
        i = self.body[k]
        found = self.p.decoded[k]
        label = 8 * k + EVENT
        after = 8 * k + AFTER
        self._goto(label)
        self._text("return None")
        self._open(label)
        site = self._site(k)
        keyed = ["r[2]"]
        if i.guard is not None:
            self._text(f"v = r[{self.p.slot(i.guard.name)}]")
            self._text("if v.__class__ in I:")
            self._text(f"    if {'' if i.negated else 'not '}v:")
            self._text(f"        r[0] = {after if not self._answered(found) else self._skip(k)}")
            self._text("        return None")
            if isinstance(found, Access):
                self._text("    v = 1")
                self._text("elif v.__class__ is not int: v = v" + (" ^ 1" if i.negated else ""))
            else:
                self._text("else:")
                self._text(f"    v = agreed(r, v, 'the guard at line {i.line}')")
                self._text(f"    if {'' if i.negated else 'not '}v:")
                self._text(f"        r[0] = {after if not self._answered(found) else self._skip(k)}")
                self._text("        return None")
        if isinstance(found, Unsupported):
            event = (Ev.UNKNOWN, site, f"{found.reason} (line {i.line})")
            self._text(f"return {self._constant(event)}")
        elif isinstance(found, Access):
            self._access(k, i, found, site, after)
        else:
            keyed += [self._operand(op) for op in found.operands]
            if self._is_block_poll(k):
                self._missed_turn(k, i)
            self._emit(k, found, site, keyed, after)
        self._open(after)
        self._answer(k, i, found)
        if self._skip_needed(k):
            skip = self._skip(k)
            self._goto(skip)
            self._text("return None")
            self._open(skip)

    def _before(self, k: int) -> Callable[[Context], list[Event]]:
        """The events that registers of instruction ``k`` bring before its own."""
        touches = self.p.touches.get(k)
        if touches is None:
            return lambda ctx: []
        site = self._site(k)
        return lambda ctx: [
            (code, site, ctx.fragment(what) if isinstance(what, str) else what) for code, what in touches
        ]

    def _touch(self, k: int) -> None:
        """An instruction that only touches registers."""
        label, after = 8 * k + EVENT, 8 * k + AFTER
        self._goto(label)
        self._text("return None")
        self._open(label)
        touch = self._constant(self._before(k))
        self.space["H"] = _hand
        self._text(f"return H(r, {touch}(r[{CONTEXT}]), {after})")
        self._open(after)

    def _answered(self, found: Decoded) -> bool:
        return isinstance(found, Effect)

    def _skip(self, k: int) -> int:
        return 8 * k + DECIDE

    def _skip_needed(self, k: int) -> bool:
        guarded = self.body[k].guard is not None and self._answered(self.p.decoded[k])
        return guarded or self._is_block_poll(k)

    def _is_block_poll(self, k: int) -> bool:
        return self.p.handing is not None and k in self.p.handing.polls and k in self.p.handing.accesses

    def _missed_turn(self, k: int, i: Instr) -> None:
        """A block's first poll finds another value: its loop is run twice, as its accesses may meet.

        Barriers of the whole block frame each turn, so that more turns, or one, order nothing else.
        """
        turn = self.p.slot(f"%turn{k}")
        self._text(f"if not r[{turn}]:")
        self._text(f"    r[{turn}] = 1")
        for name in results(i):
            self._text(f"    r[{self.p.slot(name)}] = {self._operand(i.operands[2])} ^ 1")
        self._text(f"    r[0] = {self._skip(k)}")
        self._text("    return None")
        self._text(f"r[{turn}] = 0")

    def _emit(self, k: int, e: Effect, site: int, keyed: list[str], after: int) -> None:
        memo: dict[Any, Any] = {}
        spin = k in self.p.spins
        late = k in self.p.uses.late
        unasked = not (isinstance(e.answer, Reg) and e.answer.name in self.wanted)
        before = self._before(k)

        def slow(r: Registers, key: tuple[Any, ...]) -> Event | None:
            events = [*before(r[CONTEXT]), *e.emit(r[CONTEXT], site, key[1:])]
            if late:
                events = [(*x[:3], k) if x[0] == Ev.READ else x for x in events]
            if spin and events and events[-1][0] in _POLLS:
                events[-1] = blocking(events[-1])
            if unasked:
                events = [_without_token(x) for x in events]
            found = events[0] if len(events) == 1 and events[0][0] > Ev.UNKNOWN else events
            if not any(isinstance(x, Size) for x in key):
                memo[key] = found  # what holds for a size may not hold elsewhere
            return _hand(r, found, after)

        m, f = self._constant(memo), self._constant(slow)
        self._text(f"k = ({', '.join(keyed)},)")
        self._text(f"e = {m}.get(k)")
        self._text(
            f"if e is None or e.__class__ is list: return {f}(r, k) if e is None else H(r, e, {after})"
        )
        self.space["H"] = _hand
        self._text(f"r[0] = {after}")
        if self.p.steers:
            self.space["W"] = _overwritten
            self._text("W(r, e)")
        self._text("return e")

    def _access(self, k: int, i: Instr, a: Access, site: int, after: int) -> None:
        memo: dict[Any, Any] = {}
        writes = a.code != Ev.READ
        values = [op for op in a.elements if writes and isinstance(op, Reg) and op.name in self.wanted]
        keyed = ["r[2]", self._operand(a.address)]
        keyed.append("v" if i.guard is not None else "1")
        keyed += [self.expr.text(op) for op in values]
        handle = k if k in self.p.uses.late else -1
        before = self._before(k)
        if a.code == Ev.WRITE:
            self.p.one_value.add(site)
            if all(isinstance(op, Imm) for op in a.elements):
                self.p.equal_value.add(site)

        def slow(r: Registers, key: tuple[Any, ...]) -> Event | None:
            _, address, active, *stored = key
            ctx = r[CONTEXT]
            part = ctx
            if active.__class__ not in INTS:
                part = ctx.part(active)
            events = before(ctx)
            if stored:
                self._stores(site, a, stored)
            if part is not None:
                events += a.events(part, site, address, stored, handle, part is not ctx)
            found = events[0] if len(events) == 1 and events[0][0] > Ev.UNKNOWN else events
            if not any(isinstance(x, Size) for x in key):
                memo[key] = found
            return _hand(r, found, after)

        m, f = self._constant(memo), self._constant(slow)
        self._text(f"k = ({', '.join(keyed)},)")
        self._text(f"e = {m}.get(k)")
        self._text(
            f"if e is None or e.__class__ is list: return {f}(r, k) if e is None else H(r, e, {after})"
        )
        self.space["H"] = _hand
        self._text(f"r[0] = {after}")
        if self.p.steers and writes:
            self.space["W"] = _overwritten
            self._text("W(r, e)")
        self._text("return e")

    def _stores(self, site: int, a: Access, stored: list[Any]) -> None:
        """Takes note of the values that a store was seen to store."""
        if self.p.stored.setdefault(site, stored) != stored:
            self.p.one_value.discard(site)
            self.p.equal_value.discard(site)
        elif (
            all(v.__class__ in INTS for v in stored)
            and site in self.p.one_value
            and len(stored) == len([op for op in a.elements if not isinstance(op, Imm)])
        ):
            self.p.equal_value.add(site)

    def _answer(self, k: int, i: Instr, found: Decoded) -> None:
        """What the destinations hold after the events."""
        if isinstance(found, Access):
            if k in self.p.slice.pure:
                if i.op in ("ld", "ldu", "st"):
                    self._pure(k)
                else:
                    for name in results(i):
                        if name in self.wanted:
                            self._text(f"r[{self.p.slot(name)}] = {self._unknown(k)}")
            return
        if not isinstance(found, Effect):
            return
        if i.op == "elect":
            into = i.operands[0]
            first, second = (into.first, into.second) if isinstance(into, Pair) else (None, into)
            self.space["ELECT"] = _elected
            mask = self._operand(i.operands[1])
            chosen = f"ELECT(r, {mask}, r[{self.p.constant_slot('%@elected')}])"
            for d, at in ((first, 0), (second, 1)):
                if isinstance(d, Reg) and d.name in self.wanted:
                    self._text(f"r[{self.p.slot(d.name)}] = {chosen}[{at}]")
        if isinstance(found.answer, Reg) and found.answer.name in self.wanted:
            value = "1" if k in self.p.spins else "a"
            self._text(f"r[{self.p.slot(found.answer.name)}] = {value}")
        if i.op == "st" and k in self.p.slice.pure:
            self._pure(k)  # the payload of an st.async
        for op in found.unknown:
            for name in registers(op):
                if name in self.wanted:
                    value = self._operand(i.operands[2]) if self._is_block_poll(k) else self._unknown(k)
                    self._text(f"r[{self.p.slot(name)}] = {value}")


_NONE = Unknown("a loop that was not entered")


def _entry(targets: tuple[int, ...], index: int) -> int:
    """Where ``brx.idx`` goes (PTX ISA: an index outside the table is undefined)."""
    if not 0 <= index < len(targets):
        raise Opaque(f"brx.idx takes entry {index} of a table of {len(targets)}")
    return targets[index]


_SPACES = frozenset({"param", "local", "global", "const", "shared"})


def _without_token(event: Event) -> Event:
    """An arrival whose phase nobody looks at."""
    if event[0] != Ev.ARRIVE:
        return event
    return (*event[:5], event[5] & ~Flag.TOKEN, *event[6:])


def _exiting(event: Event) -> Run:
    def run(r: Registers, a: Any) -> Event:
        r[PC] = ENDED
        return event

    return run


def _hand(r: Registers, found: Any, after: int) -> Event | None:
    """Hands an event out, or the first of several; none at all: goes on."""
    if found.__class__ is not list:
        r[PC] = after
        if r[SHARED] is not None:
            _overwritten(r, found)
        return found  # type: ignore[no-any-return]
    r[PC], r[QUEUE] = (QUEUED, (after, *found)) if found else (after, ())
    if r[SHARED] is not None:
        for event in found:
            _overwritten(r, event)
    return None


def _rejoin(r: Registers, block: int) -> None:
    """Lanes come together: of what was written since they parted, the other lanes' values are not known."""
    for join, slots in r[PARTED]:
        if join == block:
            for s in slots:
                r[s] = restrict(r[s], r[MASK])
    r[PARTED] = tuple(x for x in r[PARTED] if x[0] != block)


def _overwritten(r: Registers, event: Event) -> None:
    numbers = written(event)
    if numbers:
        ctx = r[CONTEXT]
        r[SHARED].overwritten(ctx.footprints, numbers)


def _elected(r: Registers, mask: Any, elected: int) -> tuple[int, Any]:
    ctx = r[CONTEXT]
    return ctx.elect(mask, elected)  # type: ignore[no-any-return]


def load(r: Registers, space: str, address: Any, size: int, missing: Unknown) -> Any:
    """The value of a load whose contents are kept."""
    return r[CONTEXT].load(r, space, address, size, missing)


def read_global(r: Registers, address: Any, size: int, missing: Unknown) -> Any:
    """The value of a load from global memory that the kernel does not write."""
    return r[CONTEXT].tables.behind(address, size, missing)


def read_held(r: Registers, address: Any, size: int, missing: Unknown) -> Any:
    """The same in a kernel that writes global memory: what the launch file says."""
    return r[CONTEXT].tables.held(address, size, missing)


def store(r: Registers, space: str, address: Any, size: int, value: Any, active: Any) -> None:
    """Keeps a stored value."""
    r[CONTEXT].store(r, space, address, size, value, active)


__all__ = ["Access", "Disagreement", "Program", "agreed"]
