"""The walk over a kernel that checks names, kinds and scopes; ``operations`` adds a rule per operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from syncverify.base.source import Span
from syncverify.ir import nodes
from syncverify.ir.expr import BUILTINS, Binary, Call, Expr, Float, Int, Unary, Var, evaluate
from syncverify.ir.text.forms import BY_NODE, RESERVED, did_you_mean

MAX_DEPTH = 200
MAX_BLOCKS = 100
CLUSTER_LIMIT = 16  # non-portable cluster size of sm_90; 8 is portable
THREAD_LIMIT = 1024
REGISTER_FILE = 65536
TMA_RANK = 5
TMA_BOX = 256

#: Functions of integers, and of values only, with their least and greatest number of arguments.
INDEX_ARITY = {"min": (2, 8), "max": (2, 8), "cdiv": (2, 2), "select": (3, 3), "abs": (1, 1)}
VALUE_ARITY = {"pow": (2, 2), "fma": (3, 3), "iota": (3, 3), "philox": (6, 6)}

Kind = Literal["integer", "value"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a kernel; a note does not keep it from being used."""

    message: str
    span: Span
    level: Literal["error", "note"] = "error"


Rule = Callable[["Checks", Any], None]


@dataclass
class Checks:
    """The declarations of a kernel, the registers seen so far, and what was found."""

    kernel: nodes.Kernel
    found: list[Problem] = field(default_factory=list)
    registers: dict[str, Kind] = field(default_factory=dict)
    loops: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    scopes: list[dict[str, Span]] = field(default_factory=list)  # what the blocks around declare, and where
    depth: int = 0

    def __post_init__(self) -> None:
        k = self.kernel
        self.tensors = {t.name: t for t in k.tensors}
        self.maps = {m.name: m for m in k.maps}
        self.shared = {s.name: s for s in k.shared}
        self.barriers = {b.name: b for b in k.barriers}
        self.fragments = {f.name: f for f in k.fragments}

    def error(self, message: str, span: Span) -> None:
        self.found.append(Problem(message, span))

    def note(self, message: str, span: Span) -> None:
        self.found.append(Problem(message, span, "note"))

    # ------------------------------------------------------------ statements

    def body(self, body: Iterable[nodes.Stmt], rules: dict[type[nodes.Stmt], Rule]) -> None:
        """Every statement in text order: a name must be set before it is read, in any block."""
        self.depth += 1
        self.scopes.append({})
        if self.depth <= MAX_BLOCKS:
            self._statements(body, rules)
        else:
            for s in body:
                self.error(f"blocks and else-ifs nest deeper than {MAX_BLOCKS}", s.span)
                break
        self.scopes.pop()
        self.depth -= 1

    def _statements(self, body: Iterable[nodes.Stmt], rules: dict[type[nodes.Stmt], Rule]) -> None:
        for s in body:
            for name, kind in _OPERANDS.get(type(s), ()):
                self._operand(s, name, kind)
            rule = rules.get(type(s))
            if rule is not None:
                rule(self, s)
            match s:
                case nodes.For():
                    self._for(s, rules)
                case nodes.If():
                    self.integer(s.cond, s.span)
                    self.body(s.then, rules)
                    self.body(s.orelse, rules)
                case nodes.Role():
                    self.body(s.body, rules)
                case nodes.Let():
                    self.integer(s.value, s.span)
                case nodes.Assign():
                    self.integer(s.value, s.span)
                    self._assign(s)
                case nodes.Compute():
                    self.value(s.value, s.span)
            for register, register_kind in sets(s, self.fragments):
                if isinstance(s, nodes.Let | nodes.LoadIndex | nodes.Elect):
                    self._declare(register, s.span)
                self.set(register, register_kind, s.span)

    def _for(self, s: nodes.For, rules: dict[type[nodes.Stmt], Rule]) -> None:
        for e in (s.lo, s.hi, s.step):
            self.integer(e, s.span)
        step = constant(s.step)
        if step is not None and step < 1:
            self.error(f"the step of loop {s.var} must be at least 1, not {step}", s.span)
        if s.unroll is not None and s.unroll < 1:
            self.error(f"the unroll factor of loop {s.var} must be at least 1", s.span)
        if s.var in self.loops:
            self.error(f"loop variable {s.var} is that of a loop around it", s.span)
            return
        before = s.var in self.registers or s.var in self.declared
        self.set(s.var, "integer", s.span)
        self.scopes.append({})
        self._declare(s.var, s.span)
        self.loops.append(s.var)
        self.body(s.body, rules)
        self.loops.pop()
        self.scopes.pop()
        if not before:
            self.registers.pop(s.var, None)

    def _assign(self, s: nodes.Assign) -> None:
        if s.name in self.loops:
            self.error(f"loop variable {s.name} cannot be set in its loop", s.span)
            return
        if s.name in self.registers and s.name not in self.declared:
            return
        if s.name in self.declared:
            self.error(f"{s.name} is a {self.declared[s.name]} and cannot be set", s.span)
        else:
            self.error(f"{s.name} is set before it is declared; write: let {s.name} = ...", s.span)

    def _declare(self, name: str, span: Span) -> None:
        """A new register's name is new in the blocks around it: else each of the two might be read for the
        other. Tokens, which only arrivals give, are set again by ``let``."""
        before = next((scope[name] for scope in reversed(self.scopes) if name in scope), None)
        if before is not None and name not in self.loops:
            where = f" of line {before.line}" if before.line else ""
            self.error(f"{name} hides the {name}{where}: set that one ({name} = ...), or use two names", span)
        self.scopes[-1].setdefault(name, span)

    def set(self, name: str, kind: Kind, span: Span) -> None:
        """Records that a register is set."""
        if not usable(name):
            self.error(f"{name!r} cannot be the name of a register", span)
        elif name in self.declared:
            self.error(f"{name} is a {self.declared[name]} and cannot be set", span)
        elif name in self.loops:
            self.error(f"loop variable {name} cannot be set in its loop", span)
        elif self.registers.setdefault(name, kind) != kind:
            self.error(f"{name} is an integer in one place and a value in another; use two names", span)

    # ------------------------------------------------------------ operands

    def _operand(self, s: nodes.Stmt, name: str, kind: str) -> None:
        x = getattr(s, name)
        if x is None:
            return
        match kind:
            case "index":
                self.integer(x, s.span)
            case "value":
                self.value(x, s.span)
            case "shared":
                self.region(x, s.span)
            case "fragment_or_shared":
                if isinstance(x, str):
                    self.known(x, self.fragments, "fragment", s.span)
                else:
                    self.region(x, s.span)
            case "barrier":
                self.barrier(x, s.span)
            case "global" | "compare":
                self.global_region(x, s.span)
                if x.rows is not None and not isinstance(s, nodes.LdGlobal | nodes.StGlobal):
                    self.error(f"rows of {x.tensor} are for plain loads and stores", s.span)
                if kind == "compare":
                    self.value(getattr(s, "value"), s.span)  # noqa: B009
            case "map":
                self.box(x, getattr(s, "coords"), s.span)  # noqa: B009
            case "name":
                if name in ("acc", "frag"):
                    self.known(x, self.fragments, "fragment", s.span)
                elif name == "map":
                    self.known(x, self.maps, "tensor map", s.span)

    def known(self, name: str, table: dict[str, Any], what: str, span: Span) -> bool:
        """Whether a name is declared as what it is used for; an error if not."""
        if name in table:
            return True
        if name in self.declared:
            self.error(f"{name} is a {self.declared[name]}, not a {what}", span)
        else:
            self.error(f"there is no {what} named {name}{did_you_mean(name, list(table))}", span)
        return False

    def region(self, r: nodes.Region, span: Span) -> None:
        for e in (*r.index, r.start, r.count, r.rows, r.pitch, r.rank):
            if e is not None:
                self.integer(e, span)
        if (r.start is None) != (r.count is None):
            self.error(f"a range of {r.buffer} has a start and a count", span)
        if (r.rows is None) != (r.pitch is None) or (r.rows is not None and r.start is None):
            self.error(f"rows of {r.buffer} come with a range and a pitch", span)
        if not self.known(r.buffer, self.shared, "shared buffer", span):
            return
        rank = len(self.shared[r.buffer].shape)
        if len(r.index) > rank:
            self.error(f"{r.buffer} has {rank} dimensions, not {len(r.index)}", span)

    def barrier(self, b: nodes.BarrierRef, span: Span) -> None:
        for e in (b.index, b.rank):
            if e is not None:
                self.integer(e, span)
        if not self.known(b.name, self.barriers, "mbarrier", span):
            return
        if b.index is None and constant(self.barriers[b.name].count) != 1:
            self.error(f"{b.name} is an array of mbarriers; which one: {b.name}[...]?", span)

    def global_region(self, g: nodes.GlobalRegion, span: Span) -> None:
        for e in (g.start, g.count, g.rows, g.pitch):
            if e is not None:
                self.integer(e, span)
        if (g.rows is None) != (g.pitch is None):
            self.error(f"rows of {g.tensor} come with a pitch", span)
        self.known(g.tensor, self.tensors, "tensor", span)

    def box(self, name: str, coords: tuple[Expr, ...], span: Span) -> None:
        for e in coords:
            self.integer(e, span)
        if not self.known(name, self.maps, "tensor map", span):
            return
        rank = len(self.maps[name].box)
        if len(coords) != rank:
            self.error(f"tensor map {name} has {rank} dimensions, not the {len(coords)} given here", span)

    # ------------------------------------------------------------ expressions

    def integer(self, e: Expr, span: Span) -> None:
        """Checks an index expression: integers only."""
        if isinstance(e, Int):
            return
        for x in self._nodes(e, span):
            match x:
                case Var(name):
                    if name in BUILTINS or self.registers.get(name) == "integer":
                        continue
                    if self.registers.get(name) == "value":
                        self.error(f"{name} is a value; control, indices and sizes need an integer", span)
                    else:
                        self._unknown(name, span)
                case Float():
                    self.error("an index expression has integers only", span)
                case Binary("/"):
                    self.error("'/' divides values; integers divide with '//'", span)
                case Call(name, args):
                    if name not in INDEX_ARITY:
                        self.error(f"{name} is a function of values, not of integers", span)
                    else:
                        self._arity(name, len(args), INDEX_ARITY[name], span)

    def value(self, e: Expr, span: Span) -> None:
        """Checks a value expression: values and integers."""
        for x in self._nodes(e, span):
            match x:
                case Var(name):
                    if name not in BUILTINS and name not in self.registers:
                        self._unknown(name, span)
                case Call(name, args):
                    self._arity(name, len(args), INDEX_ARITY.get(name, VALUE_ARITY.get(name, (1, 1))), span)

    def _unknown(self, name: str, span: Span) -> None:
        if name in self.declared:
            self.error(f"{name} is a {self.declared[name]} and has no value here", span)
        else:
            hint = did_you_mean(name, [*self.registers, *BUILTINS])
            self.error(f"{name} is not declared, or not set before this place{hint}", span)

    def _arity(self, name: str, given: int, wanted: tuple[int, int], span: Span) -> None:
        if not wanted[0] <= given <= wanted[1]:
            count = str(wanted[0]) if wanted[0] == wanted[1] else f"{wanted[0]} to {wanted[1]}"
            self.error(f"{name} takes {count} arguments, not {given}", span)

    def _nodes(self, e: Expr, span: Span) -> Iterator[Expr]:
        """Every node, without recursion; trees too deep for recursive readers are an error."""
        stack = [(e, 1)]
        while stack:
            x, depth = stack.pop()
            if depth > MAX_DEPTH:
                self.error(f"an expression nests deeper than {MAX_DEPTH}; split it with let", span)
                return
            yield x
            match x:
                case Unary(_, a):
                    stack.append((a, depth + 1))
                case Binary(_, a, b):
                    stack += ((a, depth + 1), (b, depth + 1))
                case Call(_, args):
                    stack += [(a, depth + 1) for a in args]


def usable(name: str) -> bool:
    """Whether the author may give something this name."""
    return name.isidentifier() and name.isascii() and name not in BUILTINS and name not in RESERVED


def constant(e: Expr | None) -> int | None:
    """The value of an expression without names, else None."""
    if isinstance(e, Int):
        return e.value
    if e is None or isinstance(e, Var):
        return None
    try:
        return evaluate(e, {})
    except (KeyError, ZeroDivisionError, ValueError, TypeError, OverflowError, RecursionError):
        return None


def sets(s: nodes.Stmt, fragments: Iterable[str] = ()) -> Iterator[tuple[str, Kind]]:
    """The registers a statement sets, and their kind."""
    match s:
        case nodes.Let() | nodes.LoadIndex() | nodes.Elect() | nodes.MbarrierTest():
            yield s.name, "integer"
        case nodes.MbarrierArrive() if s.token is not None:
            yield s.token, "integer"
        case nodes.LdMatrix() if s.name in fragments:
            return
        case nodes.Compute() | nodes.LdShared() | nodes.LdGlobal() | nodes.FragRead() | nodes.LdMatrix():
            yield s.name, "value"
        case nodes.Shuffle():
            yield s.name, "value"
        case nodes.AtomShared() | nodes.AtomGlobal() | nodes.Multimem() if s.name is not None:
            yield s.name, "value"


#: Field and kind of every operand, per node.
_OPERANDS: dict[type[nodes.Stmt], tuple[tuple[str, str], ...]] = {
    node: tuple({o.field: (o.field, o.kind) for f in forms for o in f.operands}.values())
    for node, forms in BY_NODE.items()
}
