"""Findings of PTX and CUDA with the lines that their numbers come from.

The line of a finding is that of the instruction which does harm, and what its author has to change is often
the line that computes its address, its predicate, its count or its bytes
(``analysis.registers.operand_origins``). So the first error names the nearest of these, of its own line and
of the other places that it shows. They are notes: formats that show an edit of the text leave them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from syncverify.base.diagnostics import Diagnostic, KernelReport, Label, Severity, Verdict
from syncverify.base.source import Span
from syncverify.frontends.ptx.analysis.registers.operand_origins import OperandOrigins, Role
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.isa.accesses import computes
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Module
from syncverify.frontends.ptx.syntax.printer import instruction_text

#: Lines that are shown: of the finding's own line by role, of another place, and in all.
_OWN = {Role.ADDRESS: 3, Role.OPERAND: 2, Role.GUARD: 2, Role.PATH: 2}
_OTHER = {Role.ADDRESS: 1, Role.OPERAND: 1, Role.GUARD: 1, Role.PATH: 2}
_MOST = 8
#: Rules of which the address matters first; of others it matters who comes, and with which numbers.
_OF_PLACES = frozenset({"SV110", "SV111", "SV112", "SV114", "SV701"})
_BY_PLACE = (Role.ADDRESS, Role.GUARD, Role.PATH, Role.OPERAND)
_BY_NUMBER = (Role.OPERAND, Role.GUARD, Role.PATH, Role.ADDRESS)
#: What only says where control goes.
_BRANCHES = frozenset({"bra", "brx"})
_SAID = {
    Role.ADDRESS: "the address of {which} comes from here",
    Role.GUARD: "the predicate of {which} comes from here",
    Role.PATH: "whether threads come to {which} is decided here",
}
#: What the number of an instruction is, by how its name begins.
_NUMBERS = {
    "mbarrier.init": "count",
    "mbarrier.arrive.expect_tx": "number of bytes",
    "mbarrier.expect_tx": "number of bytes",
    "mbarrier.try_wait.parity": "parity",
    "mbarrier.test_wait.parity": "parity",
    "mbarrier.try_wait": "token",
    "mbarrier.test_wait": "token",
    "cp.async.bulk": "number of bytes",
    "bar": "number",
    "shfl": "mask",
    "wgmma": "descriptor",
}


@dataclass(frozen=True, slots=True)
class Origins:
    """The lines behind the findings of a module's kernels."""

    module: Module
    _known: dict[str, OperandOrigins] = field(default_factory=dict)

    def located(self, report: KernelReport) -> KernelReport:
        """A refutation, its first error with lines that its numbers come from."""
        at = next((i for i, d in enumerate(report.diagnostics) if d.severity is Severity.ERROR), None)
        if report.verdict is not Verdict.REFUTED or at is None:
            return report
        found = list(report.diagnostics)
        first = found[at]
        shown = {first.span, *(x.span for x in first.related)}
        labels: dict[Span, Label] = {}
        for label in self._labels(first, report.name):
            if label.span not in shown:
                labels.setdefault(label.span, label)
        found[at] = replace(first, related=(*first.related, *islice(labels.values(), _MOST)))
        return replace(report, diagnostics=tuple(found))

    def _labels(self, first: Diagnostic, entry: str) -> Iterator[Label]:
        """Lines behind the finding's own line, and then behind the other places that it shows."""
        roles = _BY_PLACE if first.rule in _OF_PLACES else _BY_NUMBER
        others = dict.fromkeys(x.span for x in first.related if not x.around and x.span != first.span)
        for span in (first.span, *others):
            most = _OWN if span == first.span else _OTHER
            for f, places in islice(self._instructions(span, entry), 1):
                yield from (x for role in roles for x in self._behind(f, places, role, most[role]))

    def _instructions(self, span: Span, entry: str) -> Iterator[tuple[Function, Sequence[int]]]:
        """By function, the entry first: the instructions of a line that do more than compute."""
        functions = (f for f in self.module.functions if f.body)
        for f in sorted(functions, key=lambda f: f.name != entry):
            doing = (k for k, i in enumerate(f.body) if i.op not in _BRANCHES and not computes(i))
            places = [k for k in doing if self.module.span(f.body[k]) == span]
            if places:
                yield f, places

    def _behind(self, f: Function, places: Sequence[int], role: Role, most: int) -> Iterator[Label]:
        """Lines that the numbers of one role come from, of the instructions of one line."""
        if f.name not in self._known:
            self._known[f.name] = OperandOrigins(Flow(f))
        lines: dict[Span, Label] = {}
        for k in places:
            for at in islice(self._known[f.name].of(k, role), 2 * most):
                label = _label(self.module, f.body[k], f.body[at], role)
                lines.setdefault(label.span, label)
        yield from islice(lines.values(), most)


def _label(module: Module, i: Instr, source: Instr, role: Role) -> Label:
    span = module.span(source)
    at = module.span(i)
    which = f"line {at.line}" if at.file == span.file else str(at)
    if role is Role.OPERAND:
        name = next((said for begin, said in _NUMBERS.items() if i.name.startswith(begin)), "number")
        text = f"the {name} of {which} comes from here"
    else:
        text = _SAID[role].format(which=which)
    shown = f": {instruction_text(source)}" if span.file == module.path and not source.loc[1] else ""
    return Label(span, text + shown, detail=True, around=True)


__all__ = ["Origins"]
