"""PTX whose values share registers: each is given one that holds nothing else while it is needed.

Compilers do that when they emit machine code, and whoever writes PTX by hand does it, too. Where a value is
read for the last time, what is made of it goes into the same register if that can be. Liveness is asked of
the text alone: nothing is shared with the front end.

Example: ``ld.shared.u32 %r1, [x]; and.b32 %r2, %r1, 2;`` becomes ``... and.b32 %r1, %r1, 2;``.
"""

from __future__ import annotations

import random
import re

from tests.system.equivalent_ptx import Statement, register_types, statement_of

_REGISTER = re.compile(r"%[A-Za-z_]\w*")
_LABEL = re.compile(r"([$\w]+):")
#: Instructions whose first operand is read.
_NO_RESULT = frozenset(
    "st red bar barrier fence membar cp bra ret exit trap setmaxnreg griddepcontrol prefetch nanosleep "
    "tensormap wgmma stmatrix multimem discard prefetchu applypriority".split()
)


class NotRewrittenError(Exception):
    """The text has what is not read here: calls, tables of branches, scopes, late declarations, several
    statements in a line."""


class _Text:
    """Statements of a kernel by the numbers of their lines: what each reads and writes, what follows it."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.types = register_types(text)
        begin = next((n for n, line in enumerate(self.lines) if line.strip() == "{"), None)
        if begin is None or ".func" in text or ".branchtargets" in text:
            raise NotRewrittenError
        self.statements: dict[int, Statement] = {}
        self.labels: dict[str, int] = {}
        for n in range(begin + 1, len(self.lines)):
            line = self.lines[n].split("//")[0].strip()
            label = _LABEL.fullmatch(line)
            statement = statement_of(line)
            if label is not None:
                self.labels[label[1]] = n
            elif statement is not None:
                self.statements[n] = statement
            elif line.startswith(".reg") and self.statements:
                raise NotRewrittenError
            elif line and not line.startswith(".") and line != "}":
                raise NotRewrittenError
        self.order = sorted(self.statements)

    def named(self, text: str) -> list[str]:
        return [name for name in _REGISTER.findall(text) if name in self.types]

    def results(self, n: int) -> set[str]:
        s = self.statements[n]
        base, *mods = s.opcode.split(".")
        if base == "mbarrier":
            polls = mods[0] in ("test_wait", "try_wait", "pending_count")
            writes = polls or mods[0] in ("arrive", "arrive_drop")
        else:
            writes = base not in _NO_RESULT or (base in ("bar", "barrier") and "red" in mods)
        first = s.operands[0] if s.operands else "["
        return set() if not writes or first.startswith("[") else set(self.named(first))

    def reads(self, n: int) -> set[str]:
        s = self.statements[n]
        operands = s.operands[1:] if self.results(n) else s.operands
        return {*self.named(" ".join(operands)), *([s.guard] if s.guard else [])}

    def asynchronous(self) -> set[str]:
        """The registers of operations that read and write them later."""
        found = [s for s in self.statements.values() if s.opcode.startswith("wgmma")]
        return {name for s in found for op in s.operands for name in self.named(op)}

    def following(self, n: int) -> list[int]:
        s = self.statements[n]
        base = s.opcode.split(".")[0]
        leaves = base in ("bra", "ret", "exit", "trap") and not s.guard
        after = [] if leaves else [next((k for k in self.order if k > n), -1)]
        if base == "bra":
            to = self.labels[s.operands[0]]
            after.append(next((k for k in self.order if k > to), -1))
        return [k for k in after if k >= 0]


def _live(t: _Text) -> tuple[dict[int, set[str]], set[str]]:
    """The registers that are needed after each statement, and at the begin."""
    after: dict[int, set[str]] = {n: set() for n in t.order}
    before: dict[int, set[str]] = {n: set() for n in t.order}
    following = {n: t.following(n) for n in t.order}
    changed = True
    while changed:
        changed = False
        for n in reversed(t.order):
            out = set().union(*(before[k] for k in following[n]))
            gone = set() if t.statements[n].guard else t.results(n)
            into = t.reads(n) | (out - gone)
            changed |= out != after[n] or into != before[n]
            after[n], before[n] = out, into
    return after, before[t.order[0]] if t.order else set()


def shared_registers(text: str, seed: int) -> str:
    """The text with as few registers as a random order of its values finds."""
    t = _Text(text)
    after, begin = _live(t)
    kept = t.asynchronous() | begin
    names = sorted({name for n in t.order for name in t.results(n) | t.reads(n)})
    apart: dict[str, set[str]] = {name: set() for name in names}
    made_of: dict[str, list[str]] = {name: [] for name in names}
    for n in t.order:
        for name in t.results(n):
            made_of[name] += sorted(t.reads(n))
            for other in (after[n] | t.results(n)) - {name}:
                apart[name].add(other)
                apart[other].add(name)
    chosen = {name: name for name in kept}
    rest = [name for name in names if name not in kept]
    random.Random(seed).shuffle(rest)
    for name in rest:
        taken = {chosen[x] for x in apart[name] if x in chosen} | kept
        near = [chosen[x] for x in made_of[name] if x in chosen]
        free = [x for x in (*near, *sorted(set(chosen.values())), *sorted(t.types)) if x not in taken]
        chosen[name] = next(x for x in free if t.types[x] == t.types[name])
    lines = list(t.lines)
    for n in t.order:
        lines[n] = _REGISTER.sub(lambda m: chosen.get(m[0], m[0]), lines[n])
    return "\n".join(lines)


__all__ = ["NotRewrittenError", "shared_registers"]
