"""Accesses to arrays outside of shared memory, where data places them or decides whether they are made.

An access to a variable in local, constant, parameter or global memory stays inside it. Each thread is judged
by itself: intervals of its registers (``address_ranges.py``) bound the place, the branches on the way to it
bound them further. An example, in a block of 64 threads, behind a branch on data:

    .local .align 4 .b8 a[128];
    mov.u64 %rd0, a;  mul.wide.u32 %rd1, %tid.x, 4;  add.u64 %rd2, %rd0, %rd1;  st.local.u32 [%rd2], 0;

Thread 32 may leave ``a``. What constants and numbers of threads alone decide is judged where it is executed
(``known_addresses.py``). An access that is in one of several arrays is shown to stay inside by
constants alone.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from syncverify.frontends.ptx.analysis.arrays.address_ranges import AddressRanges, Interval, warp_of
from syncverify.frontends.ptx.analysis.arrays.known_addresses import placed_inside, unpromised
from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.analysis.arrays.stored_words import LOADS
from syncverify.frontends.ptx.decode.memory import Access, decode_place
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.syntax.nodes import Module, Reg, Variable
from syncverify.frontends.ptx.syntax.operands import registers

OUTSIDE_SHARED = ("local", "const", "param", "global")
_NAMED = ("local", "const", "param")
#: The number from which a variable's place is counted: what lies before it is a number, too.
_PLACE = 1 << 20


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """Instruction ``k`` accesses the array ``name``. ``beyond``: how it may leave it; None: data says where
    the access is, and nothing in the kernel bounds that. ``bounded``: the kernel allows just so much."""

    k: int
    name: str
    beyond: str | None
    bounded: bool = False


def array_places(
    flow: Flow,
    module: Module,
    block: Sequence[int],
    judged: Container[int],
    spaces: Collection[str] = OUTSIDE_SHARED,
) -> Iterator[ArrayPlace]:
    """The accesses of a function that are not shown to stay inside the array that they name. ``judged``:
    those that are judged where they are executed. ``spaces``: of the arrays."""
    everything = (*flow.function.params, *flow.function.variables, *module.variables)
    variables = {v.name: v for v in everything if v.space in spaces and v.size}
    named = NamedArrays(flow, {n: v.size for n, v in variables.items()})
    threads = _Threads(flow, {n: _place(v) for n, v in variables.items()}, block)
    for k, i in enumerate(flow.body):
        access = decode_place(i) if flow.block_of[k] in flow.reached and k not in judged else None
        if (
            access is None
            or access.space not in {"generic", *spaces}
            or not isinstance(access.address.base, Reg)
        ):
            continue
        name = named.only(k) or named.behind(access.address.base, k)
        if name is None:
            some = [variables[n] for n in sorted(named.several(k)) if variables[n].space in _NAMED]
            if some and not placed_inside(flow, k, access, some):
                names = " and ".join(v.name for v in some)
                yield ArrayPlace(k, names, f"which of {names} it is in, and whether it stays inside, is open")
            continue
        found = threads.wrong(k, access, variables[name])
        if found is not None:
            yield replace(found, k=k)


class _Threads:
    """What the threads of a block access."""

    def __init__(self, flow: Flow, places: Mapping[str, int], block: Sequence[int]) -> None:
        self.flow, self.places, self.block = flow, places, block
        wide, high, deep = block
        self.count = wide * high * deep
        self.all = AddressRanges(flow, places, block)
        self.each: dict[int, AddressRanges] = {}
        self.warps: dict[int, AddressRanges] = {}

    def _of(self, t: int) -> AddressRanges:
        if t not in self.each:
            warp = t // 32
            if warp not in self.warps:
                self.warps[warp] = AddressRanges(
                    self.flow, self.places, self.block, warp_of(warp, self.block)
                )
            self.each[t] = self.warps[warp].of_thread(t)
        return self.each[t]

    def wrong(self, k: int, access: Access, v: Variable) -> ArrayPlace | None:
        """How an access may leave a variable; None: it stays inside."""
        found = self.all.places(k, access.address)
        if found is None and self.all.one_sided(k):
            return ArrayPlace(k, v.name, f"{v.name} is bounded on one side only")
        if found is not None and _beyond(found, access, v) is None:
            return None
        if found is None and not self._some_known(k, access):
            return self._unbounded(k, access, v)
        bounded = True
        for t in range(self.count):
            ranges = self._of(t)
            if ranges.excluded(k):
                continue
            found = ranges.places(k, access.address)
            text = None if found is None else _beyond(found, access, v)
            if text is not None and found is not None:
                text = f"thread {t}: {text}" if self.count > 1 else text
                return ArrayPlace(k, v.name, text, bounded=_leaves(found, access, v))
            bounded = bounded and found is not None
        return None if bounded else self._unbounded(k, access, v)

    def _unbounded(self, k: int, access: Access, v: Variable) -> ArrayPlace:
        """An access whose place is not known. In local memory only what was loaded makes it one of data."""
        of_data = v.space != "local" or _of_data(self.flow, k, registers(access.address))
        return ArrayPlace(k, v.name, None if of_data else f"nothing bounds where in {v.name} it is")

    def _some_known(self, k: int, access: Access) -> bool:
        """Whether the place of one thread is known, of three."""
        some = {0, 1 % self.count, self.count - 1}
        return any(self._of(t).places(k, access.address) is not None for t in some)


def _of_data(flow: Flow, k: int, names: Iterable[str]) -> bool:
    """Whether something that was loaded is in registers that an instruction reads."""
    made = behind(flow, [flow.versions.read(name, k) for name in names])
    return any(flow.body[at].op in LOADS for at in map(flow.versions.writer.__getitem__, made) if at >= 0)


def _leaves(at: Interval, access: Access, v: Variable) -> bool:
    """Whether some of the places that are known lie outside of a variable."""
    return at.low < _place(v) or at.high + access.bytes > _place(v) + v.size


def _place(v: Variable) -> int:
    """A number for a variable's place, which is no more aligned than the text says."""
    return _PLACE + v.align


def _beyond(at: Interval, access: Access, v: Variable) -> str | None:
    """How an access may leave a variable, or its alignment; None where it does not."""
    size = access.bytes
    low, high = at.low - _place(v), at.high - _place(v)
    if _leaves(at, access, v):
        return f"bytes {low} to {high + size - 1} may lie outside of {v.name}, which has {v.size}"
    if (text := unpromised(v, size)) is not None:
        return text
    if low % size or at.step % size:
        return f"bytes {low} to {high}, by {at.step}, of {v.name} need not be {size}-byte aligned"
    return None


__all__ = ["OUTSIDE_SHARED", "ArrayPlace", "array_places"]
