"""Kernels whose arrays are parts of one dynamic shared memory, with a variable for each array.

Example: ``float* row = smem; float* sums = smem + n;``. Where ``n`` has no number, no two addresses in
``smem`` can be compared. With ``sums`` as a variable of its own, what each thread reaches of either is known.
That accesses stay inside their arrays is an assumption. It is seen at numbers first: there each access is
held against the ends of its array, and any that leaves it keeps the kernel undecided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import prod

from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.base.source import InputError
from syncverify.driver.ptx.abstractions import steers, with_contents_as_data
from syncverify.driver.ptx.every_size import proved_inside_arrays
from syncverify.driver.ptx.launch_report import bound, check_launch
from syncverify.driver.ptx.task import CheckTask
from syncverify.frontends.ptx.analysis.arrays.carved_arrays import CarvedArrays, carved_arrays
from syncverify.frontends.ptx.analysis.arrays.carved_sums import (
    MOST_STEP,
    Extent,
    Made,
    Parameter,
    Sum,
    number_of,
)
from syncverify.frontends.ptx.launch.concretize import launch_from
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.small_sizes import sizes_around
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.ir.expr import Expr, names

#: Numbers at which a kernel without a proof is tried.
FEW = 3


class _OpenError(Exception):
    """A size has no number."""


@dataclass(frozen=True, slots=True)
class _Carved:
    """A kernel and the arrays in its dynamic shared memory."""

    task: CheckTask
    arrays: CarvedArrays

    def apart(self) -> CheckTask:
        """The kernel with arrays that are as large as can be."""
        facts = replace(self.task.facts, dynamic_smem=None, _cache={})
        return self._with(facts, self.arrays.apart(self.task.module))

    def within(self, facts: PtxFacts) -> CheckTask | None:
        """The kernel with arrays where they lie at numbers; None where one is empty, or has no number."""
        dynamic = facts.dynamic_smem
        try:
            function = self.arrays.within(
                self.task.module,
                dynamic if isinstance(dynamic, int) else None,
                lambda x: self._number(facts, x),
            )
        except _OpenError:
            return None
        return (
            None if function is None else self._with(replace(facts, dynamic_smem=None, _cache={}), function)
        )

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether arrays of these sizes leave half of the memory to the last one."""
        try:
            facts = bound(self.task, sizes)
            return self.arrays.fits(self.task.module, lambda x: self._number(facts, x))
        except (InputError, _OpenError):
            return False

    def numbers(self) -> Iterator[tuple[Mapping[str, int], PtxFacts]]:
        """Numbers for the sizes, and the facts with them."""
        k = self.task
        assert k.facts.block is not None
        for sizes in sizes_around(k.facts, self.sizes(), prod(k.facts.block), self.fits, self._tight):
            try:
                yield sizes, bound(k, sizes)
            except InputError:
                continue

    def _tight(self, name: str, others: int) -> frozenset[int]:
        """Numbers of a size at which arrays have the fewest words for it, where that is not steady.

        Example: ``(n + 254) & ~255`` holds ``n`` words but where ``n`` is 257, or 256 more than that.
        """
        if not any(isinstance(atom, Made) for b in self.arrays.begins for atom, _ in b.parts):
            return frozenset()
        period = 2 * MOST_STEP
        rows = [
            self._begins({**dict.fromkeys(self.sizes(), others), name: n}) for n in range(2, 2 * period + 2)
        ]
        if not all(rows):
            return frozenset()
        found = set[int]()
        for one, two in combinations(range(len(self.arrays.begins)), 2):
            gaps = [row[two] - row[one] for row in rows]
            gaps = gaps if gaps[-1] >= 0 else [-gap for gap in gaps]
            growth = gaps[period] - gaps[0]
            spare = [period * gap - growth * n for n, gap in enumerate(gaps[:period], 2)]
            if min(spare) < max(spare):
                found.add(2 + spare.index(min(spare)))
        return frozenset(found)

    def _begins(self, sizes: Mapping[str, int]) -> list[int]:
        """Where arrays begin at some sizes; none where that is not known."""
        try:
            facts = bound(self.task, sizes)
            return [number_of(b, lambda x: self._number(facts, x)) for b in self.arrays.begins]
        except (InputError, _OpenError):
            return []

    def _with(self, facts: PtxFacts, function: Function) -> CheckTask:
        k = self.task
        chosen = replace(k.abstraction, inside_arrays=True, kept_inside=True)
        code = replace(k.code, function=function, facts=facts, abstraction=chosen)
        return replace(k, facts=facts, code=code)

    def _number(self, facts: PtxFacts, x: Parameter | Extent) -> int:
        assert facts.block is not None
        if isinstance(x, Extent):
            return facts.block["xyz".index(x.axis)]
        launch = launch_from(facts, facts.block, facts.cluster or (1, 1, 1), self.task.function)
        found = launch.parameter(x.name, x.offset, x.type)
        if not isinstance(found, int):
            raise _OpenError
        return found

    def sizes(self) -> frozenset[str]:
        """The open sizes that say where arrays begin."""
        f = self.task.function
        index = {p.name: n for n, p in enumerate(f.params)}
        leaves = (
            self.task.facts.leaf(index[p.name], p.offset, 4)
            for b in self.arrays.begins
            for p in _parameters(b)
            if p.name in index
        )
        return frozenset(n for leaf in leaves if isinstance(leaf.value, Expr) for n in names(leaf.value))


def _parameters(x: Sum) -> Iterator[Parameter]:
    for atom, _ in x.parts:
        if isinstance(atom, Parameter):
            yield atom
        elif isinstance(atom, Made):
            for part in atom.of:
                yield from _parameters(part)


def with_carved_arrays(k: CheckTask, report: KernelReport) -> KernelReport:
    """The report; or a proof that takes accesses to stay inside the parts of dynamic shared memory that they
    name; or a refutation at the sizes where they do not. No certificate is made of such a proof."""
    if report.verdict is not Verdict.UNKNOWN or k.facts.block is None or not k.checker.again:
        return report
    last = None
    for arrays in carved_arrays(k.module, k.function):
        last = _Carved(k, arrays)
        found = _with(last, report)
        if found.verdict is not Verdict.UNKNOWN:
            return found
    return report if last is None or not last.sizes() else _refuted(last) or report


def _with(carved: _Carved, report: KernelReport) -> KernelReport:
    """The same for one reading of the places of arrays."""
    at_numbers = carved.within(carved.task.facts)
    if at_numbers is not None:
        found = _proof(at_numbers)
        return report if found is None else _stated(carved, found, ())
    first = next((task for _, facts in carved.numbers() if (task := carved.within(facts)) is not None), None)
    if not carved.sizes() or first is None or _proof(first) is None:
        return report
    found = _proof(carved.apart())
    return report if found is None else _held(carved, report, found)


def _proof(task: CheckTask) -> KernelReport | None:
    """A proof, if need be with what lies in shared memory as data, and with sizes as data. Launches come
    first: that of all contents as data takes a moment where exploring words follows each turn."""
    launched: list[tuple[CheckTask, KernelReport]] = []
    for narrower in (lambda k: k, with_contents_as_data):
        if launched and not steers(task):
            break
        k = narrower(task)
        found = check_launch(k)
        if found.verdict is Verdict.PROVED:
            return found
        launched.append((k, found))
    for k, found in launched:
        wider = proved_inside_arrays(k, found, lambda _: None)
        if wider.verdict is Verdict.PROVED:
            return wider
    return None


def _refuted(carved: _Carved) -> KernelReport | None:
    """A refutation at a few numbers: no search over sizes compares addresses that are made of them."""
    found = (check_launch(carved.task.at(facts)) for _, facts in islice(carved.numbers(), FEW))
    return next((report for report in found if report.verdict is Verdict.REFUTED), None)


def _held(carved: _Carved, report: KernelReport, found: KernelReport) -> KernelReport:
    """A proof, where accesses stay inside their arrays at numbers; else the report, or a refutation there."""
    k, seen = carved.task, list[Mapping[str, int]]()
    for sizes, facts in carved.numbers():
        task = carved.within(facts)
        if task is not None and _proof(task) is not None:
            seen.append(sizes)
            continue
        plain = check_launch(k.at(facts))
        if plain.verdict is Verdict.REFUTED:
            return plain
        if task is not None:
            return report
    return _stated(carved, found, seen) if seen else report


def _stated(carved: _Carved, found: KernelReport, seen: list[Mapping[str, int]] | tuple[()]) -> KernelReport:
    """The proof, with what it takes for granted."""
    at = ", ".join(f"`{name}`" for name in carved.arrays.names)
    numbers = sorted({tuple(sorted((n, v) for n, v in s.items() if n in carved.sizes())) for s in seen})
    texts = "; ".join(", ".join(f"{n} = {v}" for n, v in s) for s in numbers)
    how = f": seen for {texts}" if texts else ""
    stays = f"accesses stay inside the arrays that begin at {at}{how}"
    return replace(found, assumptions=(stays, *found.assumptions))


__all__ = ["with_carved_arrays"]
