"""Lark's callbacks for expressions, operands and statements: one method per rule of ``grammar.lark``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from syncverify.base.source import InputError, Span
from syncverify.ir import nodes
from syncverify.ir.expr import BUILTINS, INDEX_CALLS, VALUE_CALLS, Binary, Call, Expr, Float, Int, Unary, Var
from syncverify.ir.text import forms
from syncverify.ir.text.lines import Source

if TYPE_CHECKING:
    from lark import Token

    Child = Any

PRECEDENCE = {
    "or": 1, "and": 2, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "^": 6, "&": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10,
}  # fmt: skip
NOT_PRECEDENCE = 3
COMPARISON = 4
UNARY_PRECEDENCE = 11
MAX_DIGITS = 20
CALLS = frozenset(INDEX_CALLS) | frozenset(VALUE_CALLS)


class _Ref(NamedTuple):
    """A name with brackets, before its statement says whether it is a region, a barrier or a map."""

    name: Token
    brackets: tuple[tuple[Expr, ...] | _Range, ...]
    rank: Expr | None = None


class _Range(NamedTuple):
    start: Expr
    length: Expr
    rows: Expr | None
    pitch: Expr | None


class _Compare(NamedTuple):
    ref: _Ref
    op: Token
    value: Expr


class _Keyed(NamedTuple):
    key: Token
    value: Expr


class Option(NamedTuple):
    """A header word with its value, such as ``align 128``."""

    word: str
    value: Any


class StatementBuild:
    """Lark's callbacks, one method per rule. Parsing is iterative, so depth costs no Python stack."""

    def __init__(self) -> None:
        self.source: Source | None = None
        self.fragments: set[str] = set()

    def begin(self, source: Source | None) -> None:
        self.source = source
        self.fragments = set()

    # ------------------------------------------------------------ places and errors

    def span(self, first: Token) -> Span:
        """From a token to the end of its logical line."""
        assert self.source is not None
        return self.source.span(first.start_pos or 0)

    def block_span(self, first: Token, last: Token) -> Span:
        """From a token to a closing brace."""
        assert self.source is not None
        return self.source.span(first.start_pos or 0, last.end_pos)

    def error(self, message: str, at: Token) -> InputError:
        assert self.source is not None
        return InputError(message, self.source.span(at.start_pos or 0, at.end_pos))

    def integer(self, token: Token) -> int:
        if len(token) > MAX_DIGITS:
            raise self.error(f"a number has at most {MAX_DIGITS} digits", token)
        return int(token, 0) if token[:2] in ("0x", "0X") else int(token)

    # ------------------------------------------------------------ expressions

    def expr(self, c: list[Child]) -> Expr:
        if len(c) == 1:
            return self._atom(c[0])
        return self._climb(c, [0], 1)

    def _atom(self, x: Child) -> Expr:
        if isinstance(x, Expr):
            return x
        kind = x.type
        if kind == "NAME":
            return Var(str(x))
        if kind == "INT":
            return Int(self.integer(x))
        return Float(float(x))

    def _climb(self, c: list[Child], at: list[int], least: int) -> Expr:
        """Precedence climbing over the flat list of one expression; ``at`` is the cursor."""
        left = self._prefixed(c, at)
        while at[0] < len(c):
            op = c[at[0]]
            level = PRECEDENCE[op]
            if level < least:
                break
            at[0] += 1
            left = Binary(str(op), left, self._climb(c, at, level + 1))
            if level == COMPARISON and at[0] < len(c) and PRECEDENCE[c[at[0]]] == COMPARISON:
                raise self.error("comparisons do not chain; write a < b and b < c", c[at[0]])
        return left

    def _prefixed(self, c: list[Child], at: list[int]) -> Expr:
        x = c[at[0]]
        at[0] += 1
        if isinstance(x, Expr) or x.type != "PREFIX":
            return self._atom(x)
        if x == "not":
            return Unary("not", self._climb(c, at, NOT_PRECEDENCE))
        following = c[at[0]]
        if x == "-" and not isinstance(following, Expr) and following.type in ("INT", "FLOAT"):
            at[0] += 1
            return Int(-self.integer(following)) if following.type == "INT" else Float(-float(following))
        return Unary(str(x), self._climb(c, at, UNARY_PRECEDENCE))

    def call(self, c: list[Child]) -> Expr:
        name = c[0]
        if name not in CALLS:
            hint = forms.did_you_mean(name, sorted(CALLS))
            raise self.error(f"there is no function {name}{hint}", name)
        return Call(str(name), tuple(c[1:]))

    # ------------------------------------------------------------ operands

    def rows(self, c: list[Child]) -> _Range:
        return _Range(c[0], c[0], c[0], c[1])

    def range(self, c: list[Child]) -> _Range:
        if len(c) == 3:
            return _Range(c[0], c[1], c[2].rows, c[2].pitch)
        return _Range(c[0], c[1], None, None)

    def bracket(self, c: list[Child]) -> tuple[Expr, ...]:
        return tuple(c)

    def ref(self, c: list[Child]) -> _Ref:
        return _Ref(c[0], tuple(c[1:]))

    def operand(self, c: list[Child]) -> Child:
        x = c[0]
        return x if isinstance(x, Expr | _Ref) else Var(str(x))

    def remote(self, c: list[Child]) -> _Ref:
        x, rank = c
        return x._replace(rank=rank) if isinstance(x, _Ref) else _Ref(x, (), rank)

    def compare(self, c: list[Child]) -> _Compare:
        if c[1] not in ("==", "!=", "<", "<=", ">", ">="):
            raise self.error(f"expected a comparison, found {c[1]}", c[1])
        return _Compare(*c)

    def keyed(self, c: list[Child]) -> _Keyed:
        return _Keyed(*c)

    # ------------------------------------------------------------ statements

    def op(self, c: list[Child]) -> nodes.Stmt:
        return self._operation(c[0], None, False, c[0], c[1:])

    def let_op(self, c: list[Child]) -> nodes.Stmt:
        return self._operation(c[0], c[1], True, c[2], c[3:])

    def assign_op(self, c: list[Child]) -> nodes.Stmt:
        return self._operation(c[0], c[0], False, c[1], c[2:])

    def let(self, c: list[Child]) -> nodes.Stmt:
        return nodes.Let(self.declared(c[1]), c[2], span=self.span(c[0]))

    def assign(self, c: list[Child]) -> nodes.Stmt:
        return nodes.Assign(self.declared(c[0]), c[1], span=self.span(c[0]))

    def compute(self, c: list[Child]) -> nodes.Stmt:
        return nodes.Compute(self.declared(c[1]), c[2], span=self.span(c[0]))

    def step(self, c: list[Child]) -> Option:
        return Option("step", c[0])

    def unroll(self, c: list[Child]) -> Option:
        return Option("unroll", self.integer(c[0]))

    def for_(self, c: list[Child]) -> nodes.Stmt:
        options = {x.word: x.value for x in c[4:6] if isinstance(x, Option)}
        body = tuple(c[4 + len(options) : -1])
        step = options.get("step", Int(1))
        span = self.block_span(c[0], c[-1])
        return nodes.For(self.declared(c[1]), c[2], c[3], step, body, options.get("unroll"), span=span)

    def block(self, c: list[Child]) -> tuple[tuple[nodes.Stmt, ...], Token]:
        return tuple(c[:-1]), c[-1]

    def if_(self, c: list[Child]) -> nodes.Stmt:
        then, last = c[2]
        orelse: tuple[nodes.Stmt, ...] = ()
        assert self.source is not None
        span = self.block_span(c[0], last)
        if len(c) == 5:
            if isinstance(c[4], nodes.If):
                orelse = (c[4],)
                end = c[4].span
                span = Span(span.file, span.line, span.column, end.end_line, end.end_column)
            else:
                orelse, last = c[4]
                span = self.block_span(c[0], last)
        return nodes.If(c[1], then, orelse, span=span)

    def role(self, c: list[Child]) -> nodes.Stmt:
        span = self.block_span(c[0], c[-1])
        unit: Any = str(c[2])
        return nodes.Role(self.declared(c[1]), unit, c[3], c[4], tuple(c[5:-1]), span=span)

    def declared(self, name: Token) -> str:
        if "." in name:
            raise self.error(f"a name has no dots: {name}", name)
        if name in BUILTINS:
            raise self.error(f"{name} is a builtin and cannot be declared or set", name)
        return str(name)

    def _operation(
        self, first: Token, target: Token | None, is_let: bool, mnemonic: Token, operands: list[Child]
    ) -> nodes.Stmt:
        try:
            form, suffixes = forms.lookup(str(mnemonic))
        except forms.FormError as e:
            raise self.error(str(e), mnemonic) from None
        values = dict(suffixes)
        if target is not None:
            if form.target is None or form.target_let != is_let:
                raise self.error(
                    f"this is not how {mnemonic} is written; its form is: {form.usage}", mnemonic
                )
            values[form.target] = self.declared(target)
        elif form.target is not None and not form.target_optional:
            raise self.error(f"the result of {mnemonic} needs a name; its form is: {form.usage}", mnemonic)
        given = 0
        for o in form.operands:
            x = operands[given] if given < len(operands) else None
            if x is None or (o.key is not None and not (isinstance(x, _Keyed) and x.key == o.key)):
                if not o.optional:
                    raise self.error(f"{mnemonic} lacks {forms.KIND_TEXT[o.kind]}; its form is: {form.usage}",
                                     mnemonic)  # fmt: skip
                continue
            if o.key is None and isinstance(x, _Keyed):
                if o.optional:
                    continue
                raise self.error(
                    f"{mnemonic} lacks {forms.KIND_TEXT[o.kind]}; its form is: {form.usage}", x.key
                )
            given += 1
            self._fill(values, o, x.value if isinstance(x, _Keyed) else x, form, mnemonic)
        if given < len(operands):
            raise self.error(f"{mnemonic} takes fewer operands; its form is: {form.usage}", mnemonic)
        return form.node(**values, span=self.span(first))

    def _fill(self, values: dict[str, Any], o: forms.Operand, x: Child, form: forms.Form, m: Token) -> None:
        """Sets the fields of one operand."""
        made: Any = None
        match o.kind:
            case "index" | "value":
                made = x if isinstance(x, Expr) else None
            case "name":
                made = x.name if isinstance(x, Var) and "." not in x.name else None
            case "shared":
                made = self._region(x)
            case "barrier":
                made = self._barrier(x)
            case "global":
                made = self._global(x)
            case "fragment_or_shared":
                is_fragment = isinstance(x, Var) and x.name in self.fragments
                made = x.name if is_fragment else self._region(x)
            case "map":
                if isinstance(x, _Ref) and len(x.brackets) == 1 and x.rank is None:
                    coords = x.brackets[0]
                    if coords and not isinstance(coords, _Range):
                        values["map"], values["coords"] = str(x.name), coords
                        return
            case "compare":
                if isinstance(x, _Compare) and (src := self._global(x.ref)) is not None:
                    values.update(src=src, cmp=str(x.op), value=x.value)
                    return
        if made is None:
            at = x.name if isinstance(x, _Ref) else m
            raise self.error(f"{m} wants {forms.KIND_TEXT[o.kind]} here; its form is: {form.usage}", at)
        values[o.field] = made

    def _region(self, x: Child) -> nodes.Region | None:
        if isinstance(x, Var):
            return nodes.Region(x.name)
        if not isinstance(x, _Ref) or len(x.brackets) > 2:
            return None
        index = x.brackets[0] if x.brackets else ()
        if isinstance(index, _Range):
            raise self.error(f"a range follows an index; write {x.name}[][start : count] for a buffer "
                             "without leading index", x.name)  # fmt: skip
        if len(x.brackets) < 2:
            return nodes.Region(str(x.name), index, rank=x.rank)
        r = x.brackets[1]
        if not isinstance(r, _Range):
            raise self.error(f"the second bracket of {x.name} is a range: {x.name}[s][start : count]", x.name)
        return nodes.Region(str(x.name), index, r.start, r.length, r.rows, r.pitch, x.rank)

    def _barrier(self, x: Child) -> nodes.BarrierRef | None:
        if isinstance(x, Var):
            return nodes.BarrierRef(x.name)
        if not isinstance(x, _Ref) or len(x.brackets) > 1:
            return None
        if not x.brackets:
            return nodes.BarrierRef(str(x.name), None, x.rank)
        index = x.brackets[0]
        if isinstance(index, _Range) or len(index) != 1:
            return None
        return nodes.BarrierRef(str(x.name), index[0], x.rank)

    def _global(self, x: Child) -> nodes.GlobalRegion | None:
        if not isinstance(x, _Ref) or len(x.brackets) != 1 or x.rank is not None:
            return None
        b = x.brackets[0]
        if isinstance(b, _Range):
            return nodes.GlobalRegion(str(x.name), b.start, b.length, b.rows, b.pitch)
        return nodes.GlobalRegion(str(x.name), b[0]) if len(b) == 1 else None
