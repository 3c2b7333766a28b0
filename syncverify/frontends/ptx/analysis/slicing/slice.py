"""Which instructions matter: a backward slice from events and from the control that they depend on.

What is left out is never executed. A branch that no event depends on is not taken at all: control goes on
where its sides meet again, loops without events are taken to end. Of a register that is written in several
places only those values are computed that come to something executed which reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.analysis.warps.collectives import is_collective
from syncverify.frontends.ptx.decode.effects import Effect, Unsupported
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.warp_counts import counts_down
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Sym, Vector
from syncverify.frontends.ptx.syntax.operands import (
    CARRIED,
    CARRY,
    float_conversion,
    float_product,
    registers,
    results,
    sources,
)
from syncverify.frontends.ptx.syntax.types import width

Decoded = Mapping[int, Effect | Unsupported]
#: An instruction, and a register whose value before it matters.
Use = tuple[int, str]
#: All bytes of 16.
_ALL = (1 << 16) - 1
#: Spaces whose contents the agents keep.
_KEPT_SPACES = ("local", "param", "shared")


@dataclass(frozen=True, slots=True)
class Slice:
    """``pure``: instructions executed for their results; ``branches``: those that are decided; ``registers``:
    those that hold a value; ``spaces``: memory whose contents steer; ``aside``: stores to shared arrays from
    which nothing is loaded that steers.

    ``steering``: what is left without values that only say where in global memory something is read, if there
    are such.
    """

    pure: frozenset[int]
    branches: frozenset[int]
    registers: frozenset[str]
    spaces: frozenset[str]
    aside: frozenset[int] = frozenset()
    steering: Slice | None = None


def slice_of(
    flow: Flow,
    effects: Decoded,
    also: Iterable[int] = (),
    control: bool = True,
    holds: bool = False,
    takes: frozenset[int] = frozenset(),
    contents: bool = True,
    unasked: frozenset[int] = frozenset(),
    *,
    stored: bool = True,
    arrays: NamedArrays | None = None,
) -> Slice:
    """The slice of a function whose instructions have the given effects; ``also``: others whose control
    matters. Without ``control``: of what the effects operate on alone, however they are come to. ``holds``:
    something is known of what lies in global memory, wherever it is read. ``takes``: atomics that count
    there. ``contents``: what lies in shared memory may steer; else what is loaded from there is data.
    ``unasked``: branches of which it does not matter how they are decided. ``stored``: what a store writes is
    compared among lanes; else it matters only where it is loaded again and steers. ``arrays``: of shared
    memory, that accesses name: what is stored in one matters if what steers is loaded from it."""
    slicer = _Slicer(flow, effects, control, holds, takes, contents)
    slicer.unasked = unasked
    slicer.stored = stored
    slicer.arrays = arrays
    for k in also:
        if flow.block_of[k] in flow.reached:
            slicer.control(k)
    return slicer.run()


#: Instructions of which the values of stores may be computed for their own sake, and how many registers.
_PLAIN = frozenset("mov add sub mul mad shl shr and or xor not selp setp min max neg bfe lop3".split())
_MOST_COMPUTED = 16


class _Slicer:
    def __init__(
        self,
        flow: Flow,
        effects: Decoded,
        control: bool,
        holds: bool,
        takes: frozenset[int],
        contents: bool,
    ) -> None:
        self.contents = contents
        self.unasked: frozenset[int] = frozenset()
        self.stored = True
        self.arrays: NamedArrays | None = None
        self.loaded: dict[str, set[str | None]] = {}  # by space the arrays that are read; None: any
        self.roots = control
        self.takes = takes
        self.holds = holds
        self.flow = flow
        self.body = flow.body
        self.effects = effects
        self.definitions: dict[str, list[int]] = {}
        self.stores: dict[str, list[int]] = {}
        self.matrices: list[int] = []  # stores of matrices
        for k, i in enumerate(self.body):
            if flow.block_of[k] not in flow.reached:
                continue
            for name in results(i):
                self.definitions.setdefault(name, []).append(k)
            if i.op in ("st", "atom", "red"):
                for space in _spaces(i):
                    self.stores.setdefault(space, []).append(k)
            if i.op == "stmatrix":
                self.matrices.append(k)
        self.controllers = flow.controllers()
        self.pure: set[int] = set()
        self.branches: set[int] = set()
        self.names: set[str] = set()
        self.spaces: dict[str, int] = {}  # and which bytes of 16 are read there, as a mask
        self.controlled: set[int] = set()
        self.work: list[Use] = []
        self.asked: set[Use] = set()
        self.late: list[Use] = []  # registers of addresses in global memory

    def run(self) -> Slice:
        for k, effect in self.effects.items():
            if self.flow.block_of[k] not in self.flow.reached:
                continue
            if self.roots:
                self.control(k)
                self._need_guard(k)
            if isinstance(effect, Effect):
                for op in effect.operands:
                    self._need(k, registers(op))
        if self.roots:
            for k, i in enumerate(self.body):
                if i.op == "brx" and self.flow.block_of[k] in self.flow.reached and self._known_index(i):
                    self._decide(k)
                    self.control(k)
        shared = self.stores.get("shared", ())
        if self.contents and any(counts_down(self.body[k]) for k in shared):
            self._keep("shared", _ALL)  # whether enough is left is asked
        self._close()
        if self.roots and self.stored:
            for k in (*shared, *self.matrices):
                if k in self.effects:
                    self._need(k, self._computed(self.body[k]))
            self._close()
        steering = self._found()
        while self.late:
            late, self.late = self.late, []
            for k, name in late:
                self._need(k, (name,))
            self._close()
        whole = self._found()
        return whole if whole == steering else replace(whole, steering=steering)

    def _found(self) -> Slice:
        pure, branches = frozenset(self.pure), frozenset(self.branches)
        aside = frozenset(k for k in pure if self._is_aside(k))
        return Slice(pure, branches, frozenset(self.names), frozenset(self.spaces), aside)

    def _close(self) -> None:
        """Everything executed computes with right values: also what reads a register by the way, which holds
        some value for the sake of others."""
        while self.work:
            while self.work:
                k, name = self.work.pop()
                for d in self._reaching(k, name):
                    self._define(d)
                    self._load(d, name)
            for k in self.effects.keys() | self.pure:
                if self.flow.block_of[k] in self.flow.reached:
                    self._need(k, self.names.intersection(self._read(k)))

    def _read(self, k: int) -> Iterable[str]:
        """The registers that an instruction reads when it is executed."""
        i = self.body[k]
        kept = k in self.pure and not self._is_aside(k)
        if self.stored or kept or i.op not in ("st", "stmatrix"):
            return sources(i)
        guard = () if i.guard is None else (i.guard.name,)
        return (*guard, *registers(i.operands[0]))

    def _reaching(self, k: int, name: str) -> Iterable[int]:
        """The definitions of a register that its value before an instruction may come from."""
        found = self.definitions.get(name, ())
        if len(found) < 2 or name not in sources(self.body[k]):
            return found
        out: list[int] = []
        work, seen = [(self.flow.block_of[k], k)], set[int]()
        while work:
            n, stop = work.pop()
            block = self.flow.blocks[n]
            for d in (d for d in reversed(found) if block.lo <= d < stop):
                out.append(d)
                if self.body[d].guard is None:
                    break
            else:
                more = [p for p in block.pred if p not in seen and p in self.flow.reached]
                seen.update(more)
                work += [(p, self.flow.blocks[p].hi) for p in more]
        return out

    def _computed(self, store: Instr) -> set[str]:
        """The registers of what a store writes, if a few plain instructions that are executed anyway give it:
        lanes that store to the same bytes can then be compared."""
        found = {name for op in store.operands[1:] for name in registers(op)}
        work = list(found)
        while work:
            for k in self.definitions.get(name := work.pop(), ()):
                i = self.body[k]
                if k in self.effects or i.op not in _PLAIN or _is_data(i) or i.guard is not None:
                    return set()
                if self.flow.block_of[k] not in self.controlled:
                    return set()
                more = {n for op in i.operands[1:] for n in registers(op)} - found
                found |= more
                work += more
            if len(found) > _MOST_COMPUTED or name not in self.definitions:
                return set()
        return found

    def _need(self, k: int, names: Iterable[str]) -> None:
        """The values that registers hold before an instruction matter."""
        for name in names:
            once = len(self.definitions.get(name, ())) < 2
            if (name not in self.names) if once else ((k, name) not in self.asked):
                self.names.add(name)
                self.asked.add((k, name))
                self.work.append((k, name))

    def _need_guard(self, k: int) -> None:
        guard = self.body[k].guard
        if guard is not None:
            self._need(k, (guard.name,))

    def control(self, k: int) -> None:
        """The branches that decide whether instruction ``k`` is executed matter."""
        work = [self.flow.block_of[k]]
        while work:
            block = work.pop()
            if block in self.controlled:
                continue
            self.controlled.add(block)
            for c in self.controllers[block]:
                self._decide(self.flow.blocks[c].hi - 1)
                work.append(c)

    def _decide(self, k: int) -> None:
        """Where a branch goes matters."""
        if k not in self.branches:
            self.branches.add(k)
            if k not in self.unasked:
                self._need_guard(k)
            if self.body[k].op == "brx":
                for op in self.body[k].operands:
                    self._need(k, registers(op))

    def _known_index(self, branch: Instr) -> bool:
        """Whether the index of ``brx.idx`` comes from parameters and special registers by plain instructions.

        It has to lie in the table even where no event depends on where it leads: outside is undefined.
        """
        work = [name for op in branch.operands for name in registers(op)]
        seen = set(work)
        while work:
            for k in self.definitions.get(work.pop(), ()):
                i = self.body[k]
                if i.op == "ld" and "param" in i.mods:
                    continue
                if i.op not in _PLAIN or k in self.effects or _is_data(i):
                    return False
                more = {n for op in i.operands[1:] for n in registers(op)} - seen
                if i.guard is not None:
                    more |= {i.guard.name} - seen
                seen |= more
                work += more
        return True

    def _define(self, k: int) -> None:
        if k in self.pure:
            return
        self.pure.add(k)
        self.control(k)
        i = self.body[k]
        self._need_guard(k)
        effect = self.effects.get(k)
        if isinstance(effect, Effect) and not is_collective(i):
            for op in effect.operands:
                self._need(k, registers(op))
        elif i.op == "ld" and "global" in i.mods:
            names = list(registers(i.operands[1]))
            if self.holds or all(map(self._parameter, names)):
                self._need(k, names)  # what a parameter points to is the same for all
            else:
                self.late += [(k, name) for name in names]
        elif k in self.takes or not _is_data(i):
            for n, op in enumerate(i.operands):
                if n or not results(i) or isinstance(op, Mem):
                    self._need(k, registers(op))
            if i.op in CARRIED:
                self._need(k, (CARRY,))

    def _load(self, k: int, name: str) -> None:
        """What is stored where a register is loaded from matters."""
        i = self.body[k]
        if i.op in ("ld", "ldu", "atom"):
            for space in _spaces(i):
                if space == "shared" and not self.contents:
                    continue
                whole = i.op == "atom" or space.startswith("param")
                some = _ALL if whole else _bytes(i, i.operands[0], name)
                self._keep(space, some, self._array(k) if space == "shared" else None)

    def _parameter(self, name: str) -> bool:
        """Whether a register holds a parameter, or a place at a fixed distance from where one points to."""
        found = self.definitions.get(name, ())
        if len(found) != 1 or self.body[found[0]].guard is not None:
            return False
        i = self.body[found[0]]
        if i.op == "ld":
            return "param" in i.mods
        if i.op not in ("mov", "cvta") and (i.op != "add" or not isinstance(i.operands[2], Imm)):
            return False
        return all(map(self._parameter, registers(i.operands[1])))

    def _array(self, k: int) -> str | None:
        """The shared array that an access names; None where it may be any."""
        return None if self.arrays is None else self.arrays.of(k)

    def _is_aside(self, k: int) -> bool:
        """Whether a store is to a shared array from which nothing is loaded that steers."""
        if k not in self.effects or self.body[k].op != "st" or _spaces(self.body[k]) != ("shared",):
            return False
        read, array = self.loaded.get("shared", set()), self._array(k)
        return array is not None and None not in read and array not in read

    def _keep(self, space: str, some: int, array: str | None = None) -> None:
        """A value that steers is loaded from a space, or from an array there: what is stored there matters,
        ``some`` of 16 bytes."""
        before, read = self.spaces.get(space, 0), self.loaded.setdefault(space, set())
        found = self.spaces[space] = before | some
        if found == before and array in read:
            return
        read.add(array)
        for k in self.stores.get(space, ()):
            i = self.body[k]
            self.control(k)
            self._need_guard(k)
            self.pure.add(k)
            for op in i.operands:
                for name in registers(op):
                    read_there = _bytes(i, i.operands[1], name) & found and not self._is_aside(k)
                    if i.op != "st" or op is i.operands[0] or read_there:
                        self._need(k, (name,))
                    else:
                        self.late.append((k, name))


def _spaces(i: Instr) -> tuple[str, ...]:
    """The spaces, of those kept, that a load or store may go to."""
    for m in i.mods:
        if m in ("global", "const"):
            return ()
        if m.startswith(_KEPT_SPACES):
            base = m.split("::")[0]
            if base == "param" and i.op == "ld" and isinstance(i.operands[1], Mem):
                return (_parameter(i.operands[1]),)
            if base == "param" and i.op == "st" and isinstance(i.operands[0], Mem):
                return (_parameter(i.operands[0]),)
            return (base,)
    return ("local", "shared")


def _bytes(i: Instr, op: Operand, name: str) -> int:
    """Where of 16 bytes the places of a register in a vector lie, as a mask: vectors are aligned."""
    items = op.items if isinstance(op, Vector) else (op,)
    size = width(i.mods[-1]) // 8
    whole = size * len(items)
    if whole > 16 or not whole or 16 % whole or not any(name in registers(x) for x in items):
        return _ALL
    one = sum((1 << size) - 1 << size * n for n, x in enumerate(items) if name in registers(x))
    return sum(one << at for at in range(0, 16, whole))


def _parameter(m: Mem) -> str:
    return f"param {m.base.name}" if isinstance(m.base, Sym) else "param"


def _is_data(i: Instr) -> bool:
    """Whether the result is data whatever the operands are: floating-point arithmetic and the like."""
    if i.op in ("ld", "ldu", "mov", "selp", "and", "or", "xor", "not", "shl", "shr", "st", "setp", "set"):
        return False
    if float_product(i) or float_conversion(i) or i.op == "testp":
        return False
    if i.op in ("mma", "wmma", "wgmma", "ldmatrix", "tex", "suld", "tcgen05"):
        return True
    if i.op in ("atom", "multimem") and "global" in i.mods:
        return True
    types = [m for m in i.mods if m.startswith(("f16", "f32", "f64", "bf16", "tf32", "e4m3", "e5m2", "e2m"))]
    return bool(types) and i.op != "shfl"
