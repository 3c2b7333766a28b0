"""A module against the table: what its instructions are, and what is wrong with them.

ptxas refuses a file with one wrong instruction. Here it costs the kernels that may come to it, directly or by
calls; functions that no kernel calls cost the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from syncverify.base.source import InputError, Span
from syncverify.frontends.ptx.isa.addresses import GENERIC, addresses
from syncverify.frontends.ptx.isa.constants import out_of_range
from syncverify.frontends.ptx.isa.match import Problem, match
from syncverify.frontends.ptx.isa.targets import Target, target
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Mem, Module, Operand, Pair, Sym, Vector
from syncverify.frontends.ptx.syntax.types import width

#: The newest version whose instructions the table has.
NEWEST = (9, 5)
#: Bytes of shared memory of fixed size that a kernel can have, on any architecture (ptxas).
MOST_STATIC_SHARED = 48 * 1024


@dataclass(frozen=True)
class Checked:
    """A module whose modifiers are in the order of the table. ``wrong``: by function, what is wrong first;
    ``calls``: the functions that each one names."""

    module: Module
    wrong: Mapping[str, InputError]
    calls: Mapping[str, frozenset[str]]

    def fault(self, name: str) -> InputError | None:
        """What is wrong first in a function or in those that it calls; None if nothing is."""
        return next((self.wrong[f] for f in self._reached((name,)) if f in self.wrong), None)

    def uncalled(self) -> InputError | None:
        """What is wrong first in functions that no kernel comes to."""
        reached = self._reached(f.name for f in self.module.entries)
        return next((e for name, e in self.wrong.items() if name not in reached), None)

    def _reached(self, names: Iterable[str]) -> dict[str, None]:
        """Functions and those that they call, in the order in which they are come to."""
        found = dict.fromkeys(names)
        work = list(found)
        while work:
            for name in self.calls.get(work.pop(0), ()):
                if name not in found:
                    found[name] = None
                    work.append(name)
        return found


_LAST: list[tuple[Module, Checked]] = []  # of the module asked about last


def checked(module: Module) -> Checked:
    """The module against the table. Raises InputError where its version and architecture do not fit."""
    if not _LAST or (_LAST[0][0] is not module and _LAST[0][1].module is not module):
        _LAST[:] = [(module, _checked(module))]
    return _LAST[0][1]


def without_rules(module: Module) -> str | None:
    """Why no rules are known for a module, if none are. Raises InputError where its version and architecture
    do not fit."""
    here = target(module.target)
    why = f"no rules are known for the architecture {module.target}" if here is None else here.without_rules
    if module.version > NEWEST:
        why = f"PTX {module.version[0]}.{module.version[1]} is newer than the instructions known here"
    if here is not None and here.known and module.version < here.since:
        raise InputError(
            f".target {here} needs .version {here.since[0]}.{here.since[1]} or later,"
            f" the file has {module.version[0]}.{module.version[1]}",
            Span(module.path),
        )
    return why


def _checked(module: Module) -> Checked:
    without_rules(module)  # raises where they do not fit
    here = target(module.target)
    names = {f.name for f in module.functions} | module.aliases.keys()
    wrong: dict[str, InputError] = {}
    calls: dict[str, frozenset[str]] = {}
    functions = []
    for f in module.functions:
        body, error = _function(module, f, here or Target(0))
        if error is not None:
            wrong[f.name] = error
        functions.append(f if body is None else replace(f, body=body))
        named = {name for i in f.body for op in i.operands for name in _symbols(op)}
        named |= {name for table in f.tables.values() for name in table}
        calls[f.name] = frozenset(module.aliases.get(name, name) for name in named & names)
    return Checked(replace(module, functions=tuple(functions)), wrong, calls)


def _function(
    module: Module, f: Function, here: Target
) -> tuple[tuple[Instr, ...] | None, InputError | None]:
    """The instructions in the order of the table, None if they are as they stand; and what is wrong first."""
    body: list[Instr] | None = None
    spaces = {v.name: v.space for v in (*module.variables, *f.variables, *f.params, *f.results)}
    for k, i in enumerate(f.body):
        form = match(i, f.registers)
        text = form.text if isinstance(form, Problem) else form.lacking(module.version, here)
        text = (
            text or _elsewhere(i, spaces) or _no_parameter(i, f) or _past_parameter(i, f) or out_of_range(i)
        )
        if text is not None:
            return None, InputError(text, Span(module.path, i.line))
        assert not isinstance(form, Problem)
        if form.mods != i.mods:
            body = list(f.body) if body is None else body
            body[k] = replace(i, mods=form.mods)
    return None if body is None else tuple(body), _memory(module, f)


def _elsewhere(i: Instr, spaces: Mapping[str, str]) -> str | None:
    """What is wrong with a variable as an address: it lies in another state space than the instruction's."""
    if i.op == "prefetchu":
        var = next((o.base.name for o in i.operands if isinstance(o, Mem) and isinstance(o.base, Sym)), None)
        return f"{i.name}: {var} has a state space, the address is a generic one" if var else None
    for op, named in addresses(i):
        if isinstance(op.base, Sym) and op.base.name in spaces and not op.coords and i.op != "fence":
            base = None if named == GENERIC else named.partition("::")[0]
            text = _other_space(spaces[op.base.name], base)
            if text is not None:
                return f"{i.name}: {op.base.name} is {text}"
    return None


def _other_space(lies: str, named: str | None) -> str | None:
    """What is wrong with a variable in one state space where an instruction names another, or none."""
    if lies == named or (named is None and lies not in ("const", "param")):
        return None
    what = f"the state space {named}" if named is not None else "no state space"
    return f"in the state space {lies}, the instruction names {what}"


def _past_parameter(i: Instr, f: Function) -> str | None:
    """What is wrong with a load from a parameter by its name: it reads bytes that the parameter has not."""
    if i.op != "ld" or not any(m.split("::")[0] == "param" for m in i.mods):
        return None
    at, into = i.operands[1], i.operands[0]
    if not isinstance(at, Mem) or not isinstance(at.base, Sym):
        return None
    size = next((v.size for v in f.params if v.name == at.base.name), 0)
    first = at.base.offset + at.offset
    last = first + width(i.mods[-1]) // 8 * (len(into.items) if isinstance(into, Vector) else 1) - 1
    if not size or (first >= 0 and last < size):
        return None
    return f"{i.name}: bytes {first} to {last} are read of {at.base.name}, which has {size}"


def _no_parameter(i: Instr, f: Function) -> str | None:
    """What is wrong with ``param::func``: its address is by name, and no parameter of a kernel."""
    if "param::func" not in i.mods:
        return None
    for op in i.operands:
        if isinstance(op, Mem):
            name = op.base.name if isinstance(op.base, Sym) else None
            if name is None or (f.entry and any(v.name == name for v in f.params)):
                return f"{i.name}: the address is no parameter of a function: name one, or use param"
    return None


def _memory(module: Module, f: Function) -> InputError | None:
    """An entry whose shared variables are larger than any architecture has them."""
    if not f.entry:
        return None
    size = sum(v.size for v in f.variables if v.space == "shared" and not v.extern)
    if size <= MOST_STATIC_SHARED:
        return None
    text = f"{size} bytes of shared variables: a kernel has at most {MOST_STATIC_SHARED}"
    return InputError(f"{text}, more only as dynamic shared memory", Span(module.path, f.line))


def _symbols(op: Operand) -> Iterable[str]:
    if isinstance(op, Sym):
        yield op.name
    elif isinstance(op, Vector):
        for item in op.items:
            yield from _symbols(item)
    elif isinstance(op, Pair):
        yield from _symbols(op.first)
        yield from _symbols(op.second)
