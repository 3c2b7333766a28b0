"""Text to ``nodes.Module``: one pass over the statements.

Operands are looked up by their text (``operand_parser.Scope``), opcodes too, so that what repeats costs a
dictionary access. Branch targets are filled in at the end of their function.
"""

from __future__ import annotations

import re
from pathlib import Path

from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.frontends.ptx.syntax import lexer
from syncverify.frontends.ptx.syntax.call_chain import wrappers
from syncverify.frontends.ptx.syntax.declarations import declaration, header
from syncverify.frontends.ptx.syntax.functions import SPECIAL, AtLine, Body
from syncverify.frontends.ptx.syntax.lexer import Malformed, pieces, shown
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Loc, Mem, Module, Operand, Sym, Variable
from syncverify.frontends.ptx.syntax.operand_parser import Scope

_LOC = re.compile(
    r"\s*+(\d{1,9})\s++(\d{1,9})\s++(\d{1,9})"
    r"(?:\s*+,(?:\s*+function_name\s++([^,+\s]++)|).*?inlined_at\s++(\d{1,9})\s++(\d{1,9})\s++(\d{1,9}))?"
)
_FILE = re.compile(r'\s*+(\d++)\s*+"([^"]*)"')
_VERSION = re.compile(r"version\s++(\d{1,4})\.(\d{1,4})\s*")
_TARGET = re.compile(r"target\s++(\w++)")
_ADDRESS_SIZE = re.compile(r"address_size\s++(32|64)\s*")
_ALIAS = re.compile(r"alias\s++([\w$%]++)\s*+,\s*+([\w$%]++)\s*")
#: Which operand of an instruction is an address.
_ADDRESSES = {"ld": 1, "ldu": 1, "atom": 1, "ldmatrix": 1, "st": 0, "red": 0, "stmatrix": 0}
#: The fewest operands of instructions whose value control may need.
_FEWEST = {
    op: n
    for n, ops in {
        2: "mov abs neg not cnot cvt cvta getctarank isspacep vote",
        3: "add sub mul mul24 div rem min max and or xor shl shr set setp szext bmsk mapa redux",
        4: "mad mad24 bfe prmt selp slct shf shfl dp4a dp2a",
        5: "bfi lop3",
    }.items()
    for op in ops.split()
}
#: The opcode, its modifiers, whether its operands have a form of their own, and which of them is an address.
_Opcode = tuple[str, tuple[str, ...], bool, int]
#: Inlined calls remembered per place; deeper ones are cut off.
_DEEPEST_INLINING = 32


def parse_file(path: str | Path) -> Module:
    """The module of a PTX file; InputError if it cannot be read or is malformed."""
    return parse(decode(read_bytes(path), str(path)), str(path))


def parse(text: str, path: str = "<string>") -> Module:
    """The module that a PTX text describes; InputError with the line if it is malformed."""
    return _Parser(path).run(lexer.blank_comments(text.replace("\r", " ").rstrip("\0\x1a")))


class _Parser:
    def __init__(self, path: str) -> None:
        self.path = path
        self.version: tuple[int, int] | None = None
        self.target = ""
        self.address_size = 64
        self.files: dict[int, str] = {}
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.aliases: dict[str, str] = {}
        self.symbols = Scope(None)
        self.body: Body | None = None
        self.waiting: Body | None = None  # its header is read
        self.frames: dict[Loc, tuple[Loc, ...]] = {}
        self.shared_code: set[Loc] = set()
        self.inlined: dict[Loc, str] = {}  # places inside inlined functions, by the function's label
        self.opcodes: dict[str, _Opcode] = {}  # by their text
        self.line = 1
        self._begin_places()

    def _begin_places(self) -> None:
        """No ``.loc`` yet: each function begins so."""
        self.loc: Loc = (0, 0, 0)
        self.callers: tuple[Loc, ...] = ()
        self.named_callers = 0  # callers named right before
        self.after = False  # whether an instruction came since

    def run(self, text: str) -> Module:
        """The module of a text without comments."""
        last = 0
        try:
            for m in lexer.STATEMENT.finditer(text):
                kind = m.lastindex or 0
                start = m.start(lexer.OPCODE if kind == lexer.ARGUMENTS else kind)
                self.line += text.count("\n", last, start)
                last = start
                if kind == lexer.ARGUMENTS:
                    self._instruction(m)
                elif kind == lexer.LOC:
                    self._location(m[kind])
                elif self.body is None:
                    self._outside(kind, m)
                else:
                    self._inside(self.body, kind, m)
            self.line += text.count("\n", last)
            if open_body := self.body or self.waiting:
                raise Malformed(f"the file ends inside {open_body.header.name}: expected '}}'")
            return self._module()
        except AtLine as e:
            raise InputError(str(e), Span(self.path, e.line)) from None
        except Malformed as e:
            raise InputError(str(e), Span(self.path, self.line)) from None

    def _instruction(self, m: re.Match[str]) -> None:
        """An instruction, at the place that the last ``.loc`` gave."""
        guard_text, opcode, arguments = m.group(lexer.GUARD, lexer.OPCODE, lexer.ARGUMENTS)
        body = self.body
        if body is None:
            raise Malformed(f"expected a directive outside of functions, found {shown(opcode)}")
        op, mods, special, address = self.opcodes.get(opcode) or self._opcode(opcode)
        guard, negated = (None, False) if guard_text is None else body.guard(guard_text)
        operands: tuple[Operand, ...]
        if special:
            operands = body.special(op, arguments)
        elif arguments:
            parts = pieces(arguments) if "{" in arguments else arguments.split(",")
            operands = tuple(map(body.scope.__getitem__, parts))
        else:
            operands = ()
        if address >= 0 and (len(operands) <= address or type(operands[address]) is not Mem):
            raise Malformed(f"expected [address] as operand {address + 1} of {opcode}")
        if len(operands) < _FEWEST.get(op, 0):
            raise Malformed(f"{opcode} takes at least {_FEWEST[op]} operands")
        body.out.append(
            Instr(op, mods, operands, self.line, self.loc, guard, negated, self.callers, self.named_callers)
        )
        self.after = True

    def _opcode(self, text: str) -> _Opcode:
        """An opcode that is read for the first time."""
        op, *mods = lexer.opcode(text)
        found = self.opcodes[text] = op, tuple(mods), op in SPECIAL, _ADDRESSES.get(op, -1)
        return found

    def _location(self, text: str) -> None:
        """The place of what follows, and how many callers were named right before it."""
        before = self.loc
        self.loc, self.callers = self._loc(text)
        self.named_callers = self.named_callers + 1 if self.callers[:1] == (before,) and not self.after else 0
        self.after = False

    def _inside(self, body: Body, kind: int, m: re.Match[str]) -> None:
        """A statement of a function that is no instruction."""
        if kind == lexer.LABEL:
            body.label(m[kind])
        elif kind == lexer.OPEN:
            body.open()
        elif kind == lexer.CLOSE:
            if body.close() is None:
                self._end(body)
        elif kind == lexer.DIRECTIVE:
            body.directive(m[kind], self.line)
        elif kind == lexer.FILE:
            self._file(m[kind])
        elif kind == lexer.HEADER and m.string[m.end() : m.end() + 1] == ";":
            self._declare(m[kind], self.line)
        elif kind == lexer.MODULE:
            self._setting(m[kind])
        elif kind != lexer.EMPTY:
            raise Malformed(f"expected an instruction, a directive or '}}', found {_near(m)}")

    def _module(self) -> Module:
        if self.version is None:
            raise InputError("expected a PTX file, which starts with .version", Span(self.path))
        if not self.target:
            raise InputError("expected .target after .version", Span(self.path))
        return Module(
            path=self.path,
            version=self.version,
            target=self.target,
            address_size=self.address_size,
            variables=tuple(self.variables.values()),
            functions=tuple(self.functions.values()),
            files=self.files,
            aliases=self.aliases,
            shared_code=frozenset(self.shared_code),
            wrappers=wrappers((i for f in self.functions.values() for i in f.body), self.inlined),
        )

    def _loc(self, text: str) -> tuple[Loc, tuple[Loc, ...]]:
        m = _LOC.match(text)
        if m is None:
            raise Malformed(f"expected .loc FILE LINE COLUMN, found {shown('.loc' + text)}")
        own = int(m[1]), int(m[2]), int(m[3])
        if m[5] is None:
            return own, ()
        caller = int(m[5]), int(m[6]), int(m[7])
        if m[4] is not None:
            self.inlined[own] = m[4]
        callers = (caller, *self.frames.get(caller, ()))[:_DEEPEST_INLINING]
        before = self.frames.get(own)
        if before is not None and before[0] != caller:
            self.shared_code.add(own)
        self.frames[own] = callers
        return own, callers

    def _file(self, text: str) -> None:
        if (m := _FILE.match(text)) is None:
            raise Malformed(f'expected .file NUMBER "NAME", found {shown(".file" + text)}')
        self.files[lexer.integer(m[1])] = m[2]

    def _outside(self, kind: int, m: re.Match[str]) -> None:
        """A statement outside of functions."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            if kind == lexer.OPEN:
                self.body = waiting
                self._begin_places()
                return
            if kind != lexer.EMPTY:
                raise Malformed(f"expected the body of {waiting.header.name} or ';', found {_near(m)}")
            self._add(waiting.declaration())
        elif kind == lexer.HEADER:
            self.waiting = self._begin(m[kind], self.line)
        elif kind == lexer.DIRECTIVE:
            self._directive(m[kind], self.line)
        elif kind == lexer.FILE:
            self._file(m[kind])
        elif kind == lexer.MODULE:
            self._setting(m[kind])
        elif kind not in (lexer.SECTION, lexer.EMPTY):
            raise Malformed(f"expected a function, a variable or a directive, found {_near(m)}")

    def _begin(self, text: str, line: int) -> Body:
        body = Body(header(text), self.symbols, line)
        self.symbols.names.setdefault(body.header.name, Sym(body.header.name))
        return body

    def _declare(self, text: str, line: int) -> None:
        self._add(self._begin(text, line).declaration())

    def _add(self, function: Function) -> None:
        known = self.functions.get(function.name)
        if known is None or not known.body:
            self.functions[function.name] = function
        elif function.body:
            raise AtLine(f"function {function.name} is defined twice", function.line)

    def _end(self, body: Body) -> None:
        self.body = None
        self._add(body.finish())

    def _directive(self, text: str, line: int) -> None:
        if text.startswith(".pragma"):
            return
        if alias := _ALIAS.fullmatch(text, 1):
            self.aliases[alias[1]] = alias[2]
            self.symbols.names.setdefault(alias[1], Sym(alias[1]))
            return
        d = declaration(text)
        if d.space in ("reg", "param", "local"):
            raise Malformed(f"a .{d.space} variable is declared inside a function")
        for v in d.variables(line):
            known = self.variables.get(v.name)
            if known is not None and not (known.extern or v.extern):
                raise Malformed(f"{v.name} is declared twice")
            if known is None or known.extern:
                self.variables[v.name] = v
            self.symbols.names[v.name] = Sym(v.name)

    def _setting(self, text: str) -> None:
        text = text.strip()
        if m := _VERSION.fullmatch(text):
            self.version = int(m[1]), int(m[2])
        elif m := _TARGET.match(text):
            self.target = m[1]
        elif m := _ADDRESS_SIZE.fullmatch(text):
            self.address_size = int(m[1])
        else:
            raise Malformed(
                f"expected .version N.N, .target NAME or .address_size 64, found {shown('.' + text)}"
            )


def _near(m: re.Match[str]) -> str:
    line = m.string[m.start(m.lastindex or 0) :][:80]
    return shown(line)
