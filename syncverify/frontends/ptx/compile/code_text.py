"""Python text of a program, and what all its parts need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from posixpath import basename
from typing import Any

from syncverify.base.kernel_names import base_name
from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.analysis.arrays.shared_pointers import parameter_pointers
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.slicing.conditional_lengths import added_comparisons
from syncverify.frontends.ptx.compile.expressions import NAMES, Expressions
from syncverify.frontends.ptx.compile.lockstep_memo import Blocks
from syncverify.frontends.ptx.compile.plan import Plan
from syncverify.frontends.ptx.compile.runtime import among
from syncverify.frontends.ptx.compile.state import PC, QUEUE, Registers, agreed
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.parameter_names import parameter_key
from syncverify.frontends.ptx.values.register_values import Unknown, choice


def _loaded(i: Instr) -> Cause:
    """What the value of an instruction is, as a cause."""
    space = i.mods[0].split("::")[0] if i.op == "ld" and i.mods else ""
    if space == "shared":
        return Cause.SHARED_CONTENTS
    return Cause.GLOBAL_DATA if space in ("global", "const") else Cause.DATA


_ASSIGNED = re.compile(r"\br\[(\d+)\](?:, r\[(\d+)\])? = ")
#: Helpers that write no slots but those that the text assigns to what they return, or put them back.
_WRITE_NO_MORE = frozenset("A AMONG B D ELECT G H L P Q R V W X".split())
_HELPER = re.compile(r"\b([A-Z]+)\(r\b")
#: Slots, and what takes their values from the list of all.
Saved = tuple[tuple[int, ...], Callable[[Registers], tuple[Any, ...]]]


class Text:
    """The text written so far, and the names that it uses."""

    def __init__(self, program: Plan) -> None:
        self.p = program
        self.flow = program.flow
        self.body = program.body
        self.lines: list[str] = []
        self.space: dict[str, Any] = {**NAMES, "agreed": agreed, "AMONG": among}
        self.opened: list[int] = []
        self.data: dict[int, str] = {}
        self.expr = Expressions(
            program.slot,
            lambda name: f"r[{program.constant_slot(name)}]",
            lambda name: f"r[{program.constant_slot('&' + name)}]",
            program.function.registers,
            lambda name: name in program.slice.registers,
            added_comparisons(program.body),
            program.lengths.predicates if program.sized else frozenset(),
        )
        self.wanted = program.slice.registers
        self.parameters = parameter_pointers(program.function)

    def _constant(self, value: object) -> str:
        name = f"c{len(self.space)}"
        self.space[name] = value
        return name

    def _open(self, label: int) -> None:
        self.lines.append(f"def b{label}(r, a):")
        self.opened.append(label)

    def _text(self, line: str) -> None:
        self.lines.append(" " + line)

    def saved(self) -> dict[int, Saved]:
        """By label the slots that its function writes, where it writes no others."""
        return saved_slots(self.lines)

    def lockstep(self, saved: dict[int, Saved]) -> Blocks:
        """What agents at several places of a ring may do once."""
        slots = {label: some[0] for label, some in saved.items()}
        return Blocks(dict(functions(self.lines)), slots, self.space)

    def _site(self, k: int) -> int:
        return self.p.site(k)

    def _unknown(self, k: int, text: str = "", source: str = "data") -> str:
        """The name of the value that instruction ``k`` brings and nobody knows."""
        found = self.data.get(k)
        if found is None:
            found = self.data[k] = self._constant(Unknown(text or self._why(k), source))
        return found

    def _why(self, k: int) -> str:
        i = self.body[k]
        span = self.p.module.span(i)
        text = f"data ({i.name} at {basename(span.file)}:{span.line})"
        return Reason(text + self._wish(k, i), _loaded(i), bare=text)

    def _common(self, k: int, name: str) -> str | None:
        """The name of a value that all threads compute alike."""
        x = self.p.common.get((k, name))
        if x is None:
            return None
        why = self._why(x.load)
        key = ("common", x.key, why)  # expressions of other kernels may look alike
        if x.predicate:
            return self._constant(choice(why, "data", (key, "holds", x.negated)))
        return self._constant(Unknown(why, "data", key))

    def _wish(self, k: int, i: Instr) -> str:
        """What a launch file could say so that a load's value is known."""
        if k in self.p.variables:
            named = sorted(base_name(x) for x in self.p.origins.of(i.operands[1]) if x != ANYWHERE)
            return f": write {named[0]} = N under variables in a launch file" if len(named) == 1 else ""
        if i.op not in ("ld", "atom") or "global" not in i.mods:
            return ""
        places = self.p.origins.of(i.operands[1])
        names = [p.name for p in self.p.function.params]
        base, _, offset = next(iter(places), "").rpartition("+")
        if len(places) != 1 or base not in names:
            return ""
        where = f" at byte {offset}" if offset != "0" else ""
        key = parameter_key(self.p.function.params, names.index(base))
        return f": give what parameter {key}{where} leads to, as holds of its ptr"

    def _goto(self, label: int) -> None:
        self._text(f"r[0] = {label}")


def functions(text: list[str]) -> Iterator[tuple[int, list[str]]]:
    """The label of each function of a text, and its lines."""
    label = 0
    for of_head, some in groupby(text, key=lambda line: line.startswith("def ")):
        lines = list(some)
        if of_head:
            label = int(lines[-1][5 : lines[-1].index("(")])
        else:
            yield label, lines


def saved_slots(text: list[str]) -> dict[int, Saved]:
    """By label the slots that each function of a text writes, where it writes no others."""
    found: dict[int, Saved] = {}
    for label, lines in functions(text):
        if _WRITE_NO_MORE.issuperset(name for line in lines for name in _HELPER.findall(line)):
            slots = {int(s) for line in lines for m in _ASSIGNED.findall(line) for s in m if s}
            every = tuple(sorted(slots | {PC, QUEUE}))
            found[label] = every, itemgetter(*every)
    return found
