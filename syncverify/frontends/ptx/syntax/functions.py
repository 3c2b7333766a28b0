"""The body of a function: its scopes, what they declare, and its branch targets (PTX ISA, 5.4 and 11.2)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from syncverify.frontends.ptx.syntax.declarations import COMPONENTS, Declaration, Header, declaration
from syncverify.frontends.ptx.syntax.lexer import Malformed, pieces, shown
from syncverify.frontends.ptx.syntax.nodes import (
    Function,
    Instr,
    Label,
    Not,
    Operand,
    Reg,
    Sym,
    Variable,
    Vector,
)
from syncverify.frontends.ptx.syntax.operand_parser import Scope

#: Opcodes with operands of their own form.
SPECIAL = frozenset({"bra", "brx", "call"})
_TABLES = ("branchtargets", "calltargets", "callprototype")
_MOST_REGISTERS = 1 << 20
_DEEPEST = 200


class Body:
    """A function while its statements are read; ``out`` takes its instructions."""

    def __init__(self, header: Header, symbols: Scope, line: int) -> None:
        self.header = header
        self.line = line
        self.scope = Scope(symbols)
        self.depth = 1
        self.out: list[Instr] = []
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.used = set(symbols.names)
        self.last_label = ""
        self.jumps: list[tuple[int, str, Scope]] = []  # instruction, target's name, where
        self.targets: list[tuple[str, list[str], Scope, int]] = []  # table, labels, where, line
        self.params = self._parameters(header.params)
        self.results = self._parameters(header.results)

    def _parameters(self, declarations: tuple[Declaration, ...]) -> tuple[Variable, ...]:
        out: list[Variable] = []
        for d in declarations:
            if d.space == "reg":
                self._registers(d)
            for v in d.variables(self.line):
                if d.space != "reg":
                    self.scope.declare(v.name, Sym(v.name))
                    self.used.add(v.name)
                out.append(v)
        return tuple(out)

    def open(self) -> Scope:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Malformed(f"braces are nested deeper than {_DEEPEST}")
        self.scope = Scope(self.scope)
        return self.scope

    def close(self) -> Scope | None:
        """The scope outside; None at the end of the function."""
        self.depth -= 1
        parent = self.scope.parent
        if self.depth == 0 or parent is None:
            return None
        self.scope = parent
        return parent

    def unique(self, name: str) -> str:
        """The name, or one derived from it if another scope has it."""
        fresh, n = name, 1
        while fresh in self.used or fresh in self.registers:
            n += 1
            fresh = f"{name}${n}"
        self.used.add(fresh)
        return fresh

    def label(self, name: str) -> None:
        if name in self.scope.labels:
            raise Malformed(f"label {name} is declared twice")
        fresh, n = name, 1
        while fresh in self.labels:
            n += 1
            fresh = f"{name}${n}"
        self.labels[fresh] = len(self.out)
        self.scope.labels[name] = fresh, len(self.out)
        self.last_label = name

    def guard(self, text: str) -> tuple[Reg, bool]:
        operand = self.scope[text]
        if isinstance(operand, Not):
            return operand.reg, True
        if not isinstance(operand, Reg):
            raise Malformed(f"expected a predicate after @, found {shown(text)}")
        return operand, False

    def directive(self, text: str, line: int) -> None:
        word = text[1:].split(None, 1)[0]
        if word == "pragma":
            return
        if word in _TABLES:
            self._table(word, text[1 + len(word) :], line)
            return
        d = declaration(text)
        if d.space == "reg":
            self._registers(d)
            return
        for v in d.variables(line):
            name = self.unique(v.name)
            self.scope.declare(v.name, Sym(name))
            self.variables.append(v if name == v.name else replace(v, name=name))

    def _registers(self, d: Declaration) -> None:
        scope, used, registers = self.scope, self.used, self.registers
        for name, count, dimensions, init in d.names:
            if prod(dimensions) != 1 or init is not None:
                raise Malformed(f"{name}: a register is no array and has no initial value")
            if count is not None and count > _MOST_REGISTERS - len(registers):
                raise Malformed(f"more than {_MOST_REGISTERS} registers")
            own = [name] if count is None else [f"{name}{i}" for i in range(count)]
            if d.vector > 1:
                for n in own:
                    self._vector_register(n, d)
            elif used.isdisjoint(own) and registers.keys().isdisjoint(own):
                if not scope.names.keys().isdisjoint(own):
                    raise Malformed(f"{name} is declared twice")
                scope.names.update(zip(own, own, strict=True))
                scope.clear()
                registers.update(dict.fromkeys(own, d.type))
            else:
                for n in own:
                    fresh = self.unique(n)
                    scope.declare(n, fresh)
                    registers[fresh] = d.type

    def _vector_register(self, name: str, d: Declaration) -> None:
        fresh = self.unique(name)
        parts = [f"{fresh}.{c}" for c in COMPONENTS[: d.vector]]
        self.registers.update(dict.fromkeys(parts, d.type))
        self.scope.declare(name, Vector(tuple(map(Reg, parts))))

    def _table(self, word: str, text: str, line: int) -> None:
        name = self.last_label
        unique, at = self.scope.labels.get(name, ("", -1))
        if at != len(self.out):
            raise Malformed(f"expected a label before .{word}")
        del self.scope.labels[name], self.labels[unique]
        fresh = self.unique(name)
        self.scope.tables[name] = fresh
        self.tables[fresh] = ()
        targets = [] if word == "callprototype" else [t.strip() for t in text.split(",")]
        if word == "branchtargets":
            self.targets.append((fresh, targets, self.scope, line))
        else:
            self.tables[fresh] = tuple(targets)

    def special(self, op: str, text: str) -> tuple[Operand, ...]:
        """The operands of a branch or call; a branch's target follows in ``finish``."""
        if op == "bra":
            self.jumps.append((len(self.out), text.strip(), self.scope))
            return ()
        if op == "brx":
            index, _, table = text.partition(",")
            return self.scope[index], self._named_table(table)
        return self._call(pieces(text))

    def _named_table(self, text: str) -> Sym:
        if (table := self.scope.table(text.strip())) is None:
            raise Malformed(f"expected a list of targets or a prototype, found {shown(text)}")
        return Sym(table)

    def _call(self, parts: list[str]) -> tuple[Operand, ...]:
        results = self._list(parts.pop(0)) if parts and parts[0].lstrip()[:1] == "(" else Vector(())
        if not parts:
            raise Malformed("expected the function to call")
        callee = self.scope[parts.pop(0)]
        if not isinstance(callee, Sym | Reg):
            raise Malformed("expected a function or a register to call")
        arguments = self._list(parts.pop(0)) if parts and parts[0].lstrip()[:1] == "(" else Vector(())
        rest = tuple(self._named_table(p) for p in parts)
        return results, callee, arguments, *rest

    def _list(self, text: str) -> Vector:
        return Vector(tuple(map(self.scope.__getitem__, pieces(text.strip()[1:-1]))))

    def finish(self) -> Function:
        """The function, its branch targets filled in."""
        for at, name, scope in self.jumps:
            instr = self.out[at]
            target = scope.label(name)
            if target is None:
                raise AtLine(f"label {shown(name)} is not declared", instr.line)
            self.out[at] = replace(instr, operands=(Label(*target),))
        for table, names, scope, line in self.targets:
            targets = []
            for name in names:
                if (target := scope.label(name)) is None:
                    raise AtLine(f"label {shown(name)} is not declared", line)
                targets.append(target[0])
            self.tables[table] = tuple(targets)
        return self._function(tuple(self.out))

    def declaration(self) -> Function:
        """The function without a body."""
        return self._function(())

    def _function(self, body: tuple[Instr, ...]) -> Function:
        return Function(
            name=self.header.name,
            entry=self.header.entry,
            params=self.params,
            results=self.results,
            registers=self.registers,
            variables=tuple(self.variables),
            body=body,
            labels=self.labels,
            tables=self.tables,
            directives=self.header.directives,
            line=self.line,
        )


class AtLine(Malformed):
    """Malformed, at a line other than the one being read."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line
