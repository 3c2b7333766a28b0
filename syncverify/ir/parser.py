"""Text to kernels. ``grammar.lark`` gives the structure, ``forms.py`` what each mnemonic takes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from syncverify.ir import forms, nodes
from syncverify.ir.expr import BUILTINS, INDEX_CALLS, VALUE_CALLS, Binary, Call, Expr, Float, Int, Unary, Var
from syncverify.ir.lines import Source
from syncverify.source import InputError, Span

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
CALLS = frozenset(INDEX_CALLS) | frozenset(VALUE_CALLS)


def parse_file(path: str | Path) -> tuple[nodes.Kernel, ...]:
    """Every kernel of a file."""
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise InputError(f"cannot read the file: {e.strerror or e}", Span(str(path))) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise InputError("this is not UTF-8 text", Span(str(path), line)) from None
    return parse(text, str(path))


def parse(text: str, file: str = "<string>") -> tuple[nodes.Kernel, ...]:
    """Every kernel of a text; InputError with a place if it is not well formed."""
    source = Source(text, file)
    if not source.code.strip():
        raise InputError("the file holds no kernel; expected: kernel NAME { ... }", Span(file))
    with _LOCK:
        lark, build = _machine()
        build.begin(source)
        try:
            kernels: tuple[nodes.Kernel, ...] = lark.parse(source.code)
        except InputError:
            raise
        except Exception as e:
            from syncverify.ir.syntax_errors import explain

            raise explain(e, source) from None
        finally:
            build.begin(None)
    return kernels


_LOCK = Lock()


@lru_cache(maxsize=1)
def _machine() -> tuple[Any, _Build]:
    """The LALR tables and the callbacks that build nodes while parsing; made once."""
    from lark import Lark

    build = _Build()
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    lark = Lark(grammar, parser="lalr", lexer="contextual", maybe_placeholders=False, transformer=build)
    return lark, build


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


class _Option(NamedTuple):
    """A header word with its value, such as ``align 128``."""

    word: str
    value: Any


class _Item(NamedTuple):
    """A header item; ``field`` is the field of Kernel that it belongs to."""

    field: str
    token: Token
    value: Any


class _Build:
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
            return Int(_int(x))
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
            return Int(-_int(following)) if following.type == "INT" else Float(-float(following))
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
        return nodes.Let(self._declared(c[1]), c[2], span=self.span(c[0]))

    def assign(self, c: list[Child]) -> nodes.Stmt:
        return nodes.Assign(self._declared(c[0]), c[1], span=self.span(c[0]))

    def compute(self, c: list[Child]) -> nodes.Stmt:
        return nodes.Compute(self._declared(c[1]), c[2], span=self.span(c[0]))

    def step(self, c: list[Child]) -> _Option:
        return _Option("step", c[0])

    def unroll(self, c: list[Child]) -> _Option:
        return _Option("unroll", _int(c[0]))

    def for_(self, c: list[Child]) -> nodes.Stmt:
        options = {x.word: x.value for x in c[4:6] if isinstance(x, _Option)}
        body = tuple(c[4 + len(options) : -1])
        step = options.get("step", Int(1))
        span = self.block_span(c[0], c[-1])
        return nodes.For(self._declared(c[1]), c[2], c[3], step, body, options.get("unroll"), span=span)

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
        return nodes.Role(self._declared(c[1]), _unit(c[2]), c[3], c[4], tuple(c[5:-1]), span=span)

    def _declared(self, name: Token) -> str:
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
            values[form.target] = self._declared(target)
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
            return nodes.GlobalRegion(str(x.name), b.start, b.length) if b.rows is None else None
        return nodes.GlobalRegion(str(x.name), b[0]) if len(b) == 1 else None

    # ------------------------------------------------------------ header

    def shape(self, c: list[Child]) -> tuple[Expr, ...]:
        return tuple(c)

    def align(self, c: list[Child]) -> _Option:
        return _Option("align", _int(c[0]))

    def offset(self, c: list[Child]) -> _Option:
        return _Option("offset", c[0])

    def swizzle(self, c: list[Child]) -> _Option:
        return _Option("swizzle", str(c[0]))

    def dims(self, c: list[Child]) -> _Option:
        word, sizes = c[0], c[1:]
        if len(sizes) > 3:
            raise self.error(f"{word} takes one to three numbers", word)
        padded = tuple(sizes) + (Int(1),) * (3 - len(sizes))
        return _Option(str(word), padded if word == "grid" else self._numbers(padded, word))

    def registers(self, c: list[Child]) -> _Option:
        return _Option("registers", _int(c[1]))

    def arch(self, c: list[Child]) -> _Item:
        return _Item("arch", c[0], str(c[1]))

    def launch(self, c: list[Child]) -> _Item:
        parts = [x if isinstance(x, _Option) else _Option("cooperative", True) for x in c[1:]]
        return _Item("launch", c[0], nodes.Launch(**self._options(parts, c[0]), span=self.span(c[0])))

    def param(self, c: list[Child]) -> _Item:
        default = None
        if len(c) == 4:
            if not isinstance(c[3], Int):
                raise self.error(f"the value of parameter {c[1]} must be a number", c[1])
            default = c[3].value
        dtype: Any = str(c[2])
        if dtype not in ("i32", "i64", "u32", "u64"):
            raise self.error(f"a parameter is of type i32, i64, u32 or u64, not {dtype}", c[2])
        return _Item("params", c[1], nodes.Param(self._declared(c[1]), dtype, default, span=self.span(c[0])))

    def assume(self, c: list[Child]) -> _Item:
        return _Item("assumes", c[0], c[1])

    def tensor(self, c: list[Child]) -> _Item:
        mode: Any = str(c[4])
        t = nodes.Tensor(self._declared(c[1]), self._dtype(c[2]), c[3], mode, span=self.span(c[0]))
        return _Item("tensors", c[1], t)

    def tensormap(self, c: list[Child]) -> _Item:
        box = self._numbers(c[3], c[1])
        options = self._options(c[4:], c[1])
        m = nodes.TensorMap(self._declared(c[1]), str(c[2]), box, **options, span=self.span(c[0]))
        return _Item("maps", c[1], m)

    def shared(self, c: list[Child]) -> _Item:
        options = self._options(c[4:], c[1])
        s = nodes.Shared(self._declared(c[1]), self._dtype(c[2]), c[3], **options, span=self.span(c[0]))
        return _Item("shared", c[1], s)

    def mbarrier(self, c: list[Child]) -> _Item:
        rest = list(c[2:])
        count: Expr = Int(1)
        if rest and not isinstance(rest[0], _Option):
            shape = rest.pop(0)
            if len(shape) != 1:
                raise self.error("a barrier array has one dimension", c[1])
            count = shape[0]
        options = self._options(rest, c[1])
        return _Item(
            "barriers", c[1], nodes.Barrier(self._declared(c[1]), count, **options, span=self.span(c[0]))
        )

    def fragment(self, c: list[Child]) -> _Item:
        shape = self._numbers(c[3], c[1])
        self.fragments.add(str(c[1]))
        f = nodes.Fragment(self._declared(c[1]), self._dtype(c[2]), shape, span=self.span(c[0]))
        return _Item("fragments", c[1], f)

    def _dtype(self, name: Token) -> str:
        if name not in nodes.DTYPE_BYTES:
            hint = forms.did_you_mean(name, list(nodes.DTYPE_BYTES))
            raise self.error(f"there is no type {name}{hint}", name)
        return str(name)

    def _numbers(self, exprs: tuple[Expr, ...], at: Token) -> tuple[int, ...]:
        out: list[int] = []
        for e in exprs:
            if not isinstance(e, Int):
                raise self.error(f"the sizes of {at} must be numbers", at)
            out.append(e.value)
        return tuple(out)

    def _options(self, options: list[_Option], at: Token) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for o in options:
            if o.word in out:
                raise self.error(f"{o.word} is given twice", at)
            out[o.word] = o.value
        return out

    # ------------------------------------------------------------ kernels

    def kernel(self, c: list[Child]) -> tuple[Token, nodes.Kernel]:
        first, name, last = c[0], c[1], c[-1]
        body: list[nodes.Stmt] = []
        lists: dict[str, list[Any]] = {}
        single: dict[str, Any] = {}
        declared: dict[str, Token] = {}
        for x in c[2:-1]:
            if isinstance(x, nodes.Stmt):
                body.append(x)
                continue
            if body:
                raise self.error("a declaration stands before the first statement of its kernel", x.token)
            if x.field in ("arch", "launch"):
                if x.field in single:
                    raise self.error(f"{x.field} is given twice", x.token)
                single[x.field] = x.value
                continue
            if x.field != "assumes":
                if x.token in declared:
                    raise self.error(f"{x.token} is declared twice", x.token)
                declared[x.token] = x.token
            lists.setdefault(x.field, []).append(x.value)
        groups: dict[str, Any] = {k: tuple(v) for k, v in lists.items()}
        span = self.block_span(first, last)
        self.fragments = set()
        return name, nodes.Kernel(str(name), body=tuple(body), **groups, **single, span=span)

    def start(self, c: list[Child]) -> tuple[nodes.Kernel, ...]:
        seen: set[str] = set()
        for name, k in c:
            if k.name in seen:
                raise self.error(f"there are two kernels named {name}", name)
            seen.add(k.name)
        return tuple(k for _, k in c)


def _int(token: Token) -> int:
    return int(token, 0) if token[:2] in ("0x", "0X") else int(token)


def _unit(token: Token) -> Any:
    return str(token)
