"""Harm of kernels that data leaves undecided: the second reader executes them on inputs that are drawn.

A branch on what a kernel loads may part threads that must meet, or let one of them access what another one
writes. Where no proof is found, some input may show it: memory behind pointers of which nothing is said is an
input, and any input counts. Each draw fills each buffer with zeros, with one constant that the kernel
compares with, or with words of which some are such constants.

Harm is no counterexample where an input that nobody gives may be behind it: an address that was computed from
loaded data, an access outside its memory, a word that all threads of a block read (a mode, an entry of a
table: a launch file may give what it holds), two accesses of which data decides for each thread by itself
(they may exclude each other), a number of threads or bytes that was loaded. A change of one word by a load
and a store counts, wherever the word lies. A kernel that waits for others in global memory is not executed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from syncverify.base.deadline import OutOfBudgetError
from syncverify.base.diagnostics import (
    Diagnostic,
    KernelReport,
    Label,
    Policy,
    Replay,
    Replayed,
    Severity,
    Verdict,
)
from syncverify.base.reason import Cause, causes_of
from syncverify.base.source import Span
from syncverify.checker.prover.strategy import SEARCH, ReplayEffort
from syncverify.driver.drawn_launch import DRAWS, NoLaunchError, drawn_input
from syncverify.driver.ptx_task import CheckTask, compiled
from syncverify.frontends.ptx.analysis.uniformity import THREADS
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Module
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.simulate.ptx import Harm
from syncverify.simulate.ptx.confirm import Limits, confirm
from syncverify.simulate.ptx.harm import Kind

#: What decides where a search may help.
_BY_DATA = frozenset({Cause.DATA, Cause.GLOBAL_DATA, Cause.SHARED_CONTENTS})
#: Collectives of a warp: whatever value they exchange, who takes part is what counts.
_COLLECTIVE = frozenset({"shfl", "vote", "match", "redux", "activemask"})
#: Launches that are drawn: of a long kernel fewer, for each is loaded.
_DRAWS, _LONG = 24, 2000
_BARRIERS = frozenset({"bar", "barrier"})
#: Spaces that loads of the host's memory do not name.
_HOST = frozenset({"shared", "local", "param"})
_WRITES = frozenset({"st", "red", "atom", "stmatrix", "cp"})


def by_data(report: KernelReport) -> bool:
    """Whether data leaves a kernel undecided."""
    return bool(causes_of(report.reason) & _BY_DATA)


def sought(report: KernelReport, module: Module, effort: ReplayEffort = SEARCH) -> KernelReport:
    """An undecided report, refuted if an execution on a drawn input does harm that the input explains."""
    k = report.undecided
    if report.verdict is not Verdict.UNKNOWN or k is None or report.policy is Policy.STRICT:
        return report
    if not by_data(report) or k.facts.block is None:
        return report
    start = time.perf_counter()
    try:
        found = _executed(k, module, effort)
    except (OutOfBudgetError, MemoryError):
        raise
    except Exception:  # the report stays what it is, whatever its judge cannot do
        found = None
    seconds = report.seconds + time.perf_counter() - start
    if found is None:
        return replace(report, seconds=seconds)
    harm, how = found
    first = _finding(harm, module, k)
    return replace(
        report,
        verdict=Verdict.REFUTED,
        reason=None,
        seconds=seconds,
        diagnostics=(first, *(d for d in report.diagnostics if d.rule != "SV902")),
        replay=Replay(Replayed.REPRODUCED, f"{harm.kind.value}, under {how}, on an input that was drawn"),
    )


def _executed(k: CheckTask, module: Module, effort: ReplayEffort) -> tuple[Harm, str] | None:
    """Harm that counts, and the schedule under which it was seen."""
    launch, program = compiled(k)
    if program.handing is not None and (
        program.handing.spins or program.handing.polls or program.handing.locks
    ):
        return None  # it waits for others
    system = PtxSystem.fresh(program, launch, None, 0, k.hash)
    function = next(f for f in module.functions if f.name == k.function.name and f.entry)
    inputs = Inputs(program, launch.block)
    if inputs.of_the_host():
        return None
    limits = Limits(effort.steps, effort.each, effort.executions)
    try:
        found = confirm(
            module,
            function.name,
            (),
            "ub",
            lambda n: drawn_input(module, function, k.facts, system, n),
            _DRAWS if len(function.body) < _LONG else DRAWS,
            limits,
            counts=inputs.explain,
        )
    except NoLaunchError:
        return None
    return None if found.harm is None else (found.harm, found.how)


@dataclass
class Inputs:
    """Which harm some input explains."""

    program: Program
    block: tuple[int, int, int]

    def explain(self, harm: Harm) -> bool:
        """Whether harm of an execution is one that an input brings which the author has to expect."""
        here = self._at(harm.where.line)
        match harm.kind:
            case Kind.TRAP:
                return False
            case Kind.HANG:
                return True
            case Kind.UNDEFINED:
                return not harm.space and bool(here) and not any(map(self._operates_on_data, here))
        if harm.space not in ("shared", "shared::cta", "shared::cluster") or harm.other is None:
            return False
        there = self._at(harm.other.line)
        if self._modifies(here, there):
            return True
        both = [here, there]
        return all(both) and not all(any(self._by_data(k) for k in some) for some in both)

    def of_the_host(self) -> bool:
        """Whether a word that all threads of a block read steers: a mode, a number, an entry of a table. Of
        such a word an author may know more; that threads read different ones is for all to see."""
        body, u = self.program.body, self.program.uniformity(self.block)
        guards = {i.guard.name for i in body if i.guard is not None}
        return any(
            i.op in ("ld", "ldu")
            and _HOST.isdisjoint(m.split("::")[0] for m in i.mods)
            and not u.read_at(k, _addressing(i)) & THREADS
            and not guards.isdisjoint(_closed(set(results(i)), body))
            for k, i in enumerate(body)
        )

    def _modifies(self, here: Iterable[int], there: Iterable[int]) -> bool:
        """Whether a load and a store of one block are of one place: a change that others may make too."""
        p = self.program
        at = p.flow.block_of
        pairs = [(p.body[j], p.body[k]) for j in here for k in there if at[j] == at[k]]
        return any({i.op, o.op} == {"ld", "st"} and _at_of(i) == _at_of(o) for i, o in pairs)

    def _at(self, line: int) -> list[int]:
        return [k for k, i in enumerate(self.program.body) if i.line == line]

    def _by_data(self, k: int) -> bool:
        """Whether data says where an access goes, or decides for each thread by itself whether it is made."""
        return not self._loaded.isdisjoint(_addressing(self.program.body[k])) or self._decided(k)

    def _operates_on_data(self, k: int) -> bool:
        i = self.program.body[k]
        if i.op in _COLLECTIVE or (i.op in _BARRIERS and "red" in i.mods):
            return False
        named = {name for op in i.operands for name in registers(op)} - set(results(i))
        return not self._loaded.isdisjoint(named)

    @cached_property
    def _loaded(self) -> frozenset[str]:
        """Registers that may hold what was computed of loaded data."""
        body = self.program.body
        return _closed({name for i in body if _loads(i) for name in results(i)}, body)

    def _decided(self, k: int) -> bool:
        """Whether a branch on data that threads may answer differently decides about an instruction."""
        p = self.program
        guard = p.body[k].guard
        if guard is not None and self._differs(guard.name, k):
            return True
        work, seen = [p.flow.block_of[k]], set[int]()
        while work:
            for c in p.flow.controllers()[work.pop()]:
                last = p.flow.blocks[c].hi - 1
                guard = p.body[last].guard
                if guard is not None and self._differs(guard.name, last):
                    return True
                if c not in seen:
                    seen.add(c)
                    work.append(c)
        return False

    def _differs(self, name: str, k: int) -> bool:
        return name in self._apart

    @cached_property
    def _apart(self) -> frozenset[str]:
        """The same of data that threads of a block may have loaded from different places, and have not
        combined at a barrier."""
        body, u = self.program.body, self.program.uniformity(self.block)

        def differs(k: int, i: Instr) -> bool:
            return i.op == "atom" or bool(u.read_at(k, _addressing(i)) & THREADS)

        found = {name for k, i in enumerate(body) if _loads(i) and differs(k, i) for name in results(i)}
        return _closed(found, [i for i in body if i.op not in _BARRIERS])


def _closed(found: set[str], body: Iterable[Instr]) -> frozenset[str]:
    """Some registers, and all that are computed of them."""
    grows = True
    while grows:
        more = {n for i in body if found.intersection(sources(i)) for n in results(i)} - found
        found |= more
        grows = bool(more)
    return frozenset(found)


def _at_of(i: Instr) -> Mem | None:
    return next((op for op in i.operands if isinstance(op, Mem)), None)


def _loads(i: Instr) -> bool:
    """Whether an instruction brings data from memory."""
    return i.op in ("ld", "ldu", "atom", "ldmatrix", "tex") and "param" not in i.mods


def _addressing(i: Instr) -> Iterable[str]:
    """The registers that say where an instruction accesses memory."""
    return [name for op in i.operands if isinstance(op, Mem) for name in registers(op)]


def _finding(harm: Harm, module: Module, k: CheckTask) -> Diagnostic:
    """Harm as a finding."""
    where = _span(harm.where.line, module)
    related: tuple[Label, ...] = ()
    if harm.other is not None and harm.other.line:
        related = (Label(_span(harm.other.line, module), "the other access"),)
    text = f"some input brings a {harm.kind.value}: {harm.detail}"
    return Diagnostic(_rule(harm, k), Severity.ERROR, text, where, related=related)


def _rule(harm: Harm, k: CheckTask) -> str:
    ops = [
        {i.op for i in k.function.body if at is not None and i.line == at.line}
        for at in (harm.where, harm.other)
    ]
    here, there = ops
    match harm.kind:
        case Kind.STALE:
            return "SV101"
        case Kind.RACE:
            if here & _WRITES and there & _WRITES:
                return "SV112"
            return "SV111" if here & _WRITES else "SV110"
        case Kind.HANG:
            return "SV302" if here & _BARRIERS else "SV210"
    return "SV302" if here & _BARRIERS else "SV303" if here & _COLLECTIVE else "SV701"


def _span(line: int, module: Module) -> Span:
    found = (module.span(i) for f in module.functions for i in f.body if i.line == line)
    return next(found, Span(module.path, line))


__all__ = ["Inputs", "by_data", "sought"]
