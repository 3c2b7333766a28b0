"""Planted mistakes in the code that judges flags, and programs that show them.

A mistake is one change of one function: a condition that is negated or decided, an operand of ``and`` and
``or`` that is dropped, another comparison, ``any`` for ``all``, a number off by one, a statement left out.
Run as a script, it looks for a program that is wrongly proved with each of them::

    python -m tests.checker.happens_before.flag_mutants [--seeds FIRST LAST] [--tries N] [--only NUMBER ...]
"""

from __future__ import annotations

import argparse
import ast
import copy
import inspect
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

from syncverify.checker.happens_before.handlers import flag_order, global_memory, shared_flags
from tests.checker.happens_before.flag_events import hangs, proved
from tests.checker.happens_before.flag_model import TooManyError, harm
from tests.checker.happens_before.flag_programs import Program, counted, edited, wide


def _plain(*functions: Any) -> tuple[FunctionType, ...]:
    return functions


#: What is changed: all that decides about flags, but for messages and tables.
FUNCTIONS: tuple[FunctionType, ...] = _plain(
    flag_order.ordered_before, flag_order.covered, flag_order.newest_known, flag_order._comes_after,
    flag_order.knows_of, flag_order._has_passed, flag_order.forget_settled, flag_order.held_before,
    flag_order.first_true, flag_order.check_spins, flag_order._judge, flag_order.decided,
    flag_order._stays_true, flag_order._sum_decided, global_memory.Write.behind, global_memory.signal,
    global_memory.release, global_memory._wait, global_memory.acquire, global_memory.hand_over,
    global_memory.only_signals, shared_flags.on_signal, shared_flags.on_spin,
)  # fmt: skip

_OTHER: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq, ast.GtE, ast.LtE), ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_FLAGS = annotations.compiler_flag
_SWAPPED = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    function: FunctionType
    line: int
    text: str  # what stands there instead
    code: CodeType = field(compare=False)

    def __str__(self) -> str:
        return f"{self.function.__qualname__}:{self.line}: {self.text}"

    @contextmanager
    def planted(self) -> Iterator[None]:
        """As long as this lasts, all who call the function call the changed one."""
        right = self.function.__code__
        self.function.__code__ = self.code
        try:
            yield
        finally:
            self.function.__code__ = right


def mutants(functions: Sequence[FunctionType] = FUNCTIONS) -> list[Mutant]:
    return [m for f in functions for m in _of(f)]


def _of(function: FunctionType) -> Iterator[Mutant]:
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(inspect.cleandoc("\n" + "".join(lines)) if lines[0][0] == " " else "".join(lines))
    body = tree.body[0]
    assert isinstance(body, ast.FunctionDef)
    seen = {ast.dump(tree)}
    for n, node in enumerate(ast.walk(tree)):
        for change in _changes(node):
            other = copy.deepcopy(tree)
            text = change(next(x for k, x in enumerate(ast.walk(other)) if k == n))
            if text is None or ast.dump(other) in seen:
                continue
            seen.add(ast.dump(other))
            code = _compiled(other, function)
            at = getattr(node, "lineno", 1)
            around = [
                x
                for x in ast.walk(tree)
                if isinstance(x, ast.stmt) and x.lineno <= at <= (x.end_lineno or at)
            ]
            yield Mutant(function, first + max(x.lineno for x in around) - 1, text, code)


class _Single(ast.NodeTransformer):
    """``and`` and ``or`` of one operand are that operand."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return node.values[0] if len(node.values) == 1 else node


def _compiled(tree: ast.Module, function: FunctionType) -> CodeType:
    tree = ast.fix_missing_locations(_Single().visit(tree))
    space: dict[str, Any] = {}
    exec(compile(tree, function.__code__.co_filename, "exec", _FLAGS), function.__globals__, space)
    code = space[function.__name__].__code__
    assert isinstance(code, CodeType) and code.co_freevars == function.__code__.co_freevars
    return code


Change = Callable[[Any], str | None]


def _changes(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, (ast.If, ast.IfExp)):
        yield from (_with("test", _negated), _with("test", _constant(True)), _with("test", _constant(False)))
    if isinstance(node, ast.comprehension):
        yield from (_dropped("ifs", k) for k in range(len(node.ifs)))
    if isinstance(node, ast.BoolOp):
        yield from (_dropped("values", k) for k in range(len(node.values)))
    if isinstance(node, ast.Compare):
        yield from (_compared(o) for o in _OTHER[type(node.ops[0])])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
        yield _called
    if isinstance(node, ast.Return) and _may_be_bool(node.value):
        yield from (_with("value", _constant(True)), _with("value", _constant(False)))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (_number(1), _number(-1))
    for name in ("body", "orelse"):
        found = getattr(node, name, None)
        if isinstance(found, list) and isinstance(node, (ast.FunctionDef, ast.If, ast.For)):
            yield from (_left_out(name, k) for k in range(len(found)))


def _may_be_bool(value: ast.expr | None) -> bool:
    return isinstance(value, (ast.BoolOp, ast.Compare, ast.UnaryOp)) or (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in ("any", "all", "bool")
    )


def _with(name: str, change: Callable[[ast.expr], ast.expr]) -> Change:
    def apply(node: Any) -> str:
        old = getattr(node, name)
        setattr(node, name, change(old))
        return f"{ast.unparse(old)} -> {ast.unparse(getattr(node, name))}"

    return apply


def _negated(old: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), old)


def _constant(value: bool) -> Callable[[ast.expr], ast.expr]:
    return lambda old: ast.Constant(value)


def _dropped(name: str, k: int) -> Change:
    def apply(node: Any) -> str:
        gone = getattr(node, name).pop(k)
        return f"without {ast.unparse(gone)}"

    return apply


def _compared(op: type[ast.cmpop]) -> Change:
    def apply(node: Any) -> str:
        before = ast.unparse(node)
        node.ops[0] = op()
        return f"{before} -> {ast.unparse(node)}"

    return apply


def _called(node: Any) -> str:
    before = ast.unparse(node)
    node.func.id = _SWAPPED[node.func.id]
    return f"{before} -> {node.func.id}"


def _number(by: int) -> Change:
    def apply(node: Any) -> str:
        node.value += by
        return f"{node.value - by} -> {node.value}"

    return apply


def _left_out(name: str, k: int) -> Change:
    def apply(node: Any) -> str | None:
        old = getattr(node, name)[k]
        if isinstance(old, (ast.FunctionDef, ast.Import)) or isinstance(
            getattr(old, "value", None), ast.Constant
        ):
            return None
        getattr(node, name)[k] = ast.Pass()
        return f"without {ast.unparse(old).splitlines()[0]}"

    return apply


# ------------------------------------------------------------------ the search


def accepts(m: Mutant, p: Program) -> bool:
    """Whether a program is proved with the mistake; one that ends in an error is not."""
    with m.planted():
        try:
            return proved(p)
        except Exception:
            return False


def wrong(p: Program) -> bool | None:
    """Whether an execution harms; None where there are too many."""
    try:
        return harm(p.meant) is not None
    except TooManyError:
        return None


#: Lines of the changed functions that a program executes.
Lines = frozenset[tuple[str, int]]


def executed(p: Program) -> Lines:
    codes = {f.__code__: f.__qualname__ for f in FUNCTIONS}
    found = set[tuple[str, int]]()

    def entered(frame: FrameType, event: str, arg: object) -> Any:
        name = codes.get(frame.f_code)
        if name is None:
            return None

        def at(frame: FrameType, event: str, arg: object) -> Any:
            found.add((name, frame.f_lineno))
            return at

        return at

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        proved(p)
    finally:
        sys.settrace(before)
    return frozenset(found)


@dataclass
class Pool:
    """Programs that are drawn, and are judged rightly: wrong ones that do not hang outright, and right ones,
    a few for each set of lines that they execute."""

    most: int
    wrong: list[tuple[Program, Lines]] = field(default_factory=list)
    right: list[tuple[Program, bool]] = field(default_factory=list)  # and whether they are proved
    kinds: Counter[tuple[bool, bool, Lines]] = field(default_factory=Counter)

    def add(self, p: Program) -> None:
        bad, said = wrong(p), proved(p)
        if bad and said:
            raise AssertionError(f"wrongly proved without any mistake: {p}")
        if bad is None or (bad and hangs(p)):
            return
        lines = executed(p)
        self.kinds[bad, said, lines] += 1
        if self.kinds[bad, said, lines] > self.most:
            return
        if bad:
            self.wrong.append((p, lines))
        else:
            self.right.append((p, said))


def drawn(seeds: Iterable[int], most: int = 4) -> Pool:
    """Programs of all kinds; every second one of those in which writes are counted."""
    pool = Pool(most)
    for seed in seeds:
        pool.add((counted if seed % 2 else wide)(random.Random(seed)))
    return pool


def caught(m: Mutant, pool: Pool) -> Program | None:
    """A program of a pool that is wrongly proved with a mistake; it comes first for the next one."""
    place = m.function.__qualname__, m.line
    for n, (p, lines) in enumerate(pool.wrong):
        if (place in lines or m.line <= m.function.__code__.co_firstlineno) and accepts(m, p):
            pool.wrong.insert(0, pool.wrong.pop(n))
            return p
    return None


def sought(m: Mutant, pool: Pool, tries: int) -> tuple[Program | None, str]:
    """The same among edits of right programs that only the mistake proves; else what the mistake does."""
    more = [p for p, said in pool.right if not said and accepts(m, p)]
    rng = random.Random(0)
    for _ in range(tries if more else 0):
        p = edited(rng, rng.choice(more))
        if not accepts(m, p):
            continue
        bad, said = wrong(p), proved(p)
        if bad and not said:
            return p, "caught"
        if not said and bad is False:
            more.append(p)
    if more:
        return None, "accepts more"
    fewer = any(said and not accepts(m, p) for p, said in pool.right[:200])
    return None, "accepts less" if fewer else "no difference"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 6000))
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first mistake")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), help="which of how many parts")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mistakes")
    given = parser.parse_args()
    pool = drawn(range(*given.seeds))
    print(len(pool.wrong), "wrong programs", len(pool.right), "right ones", flush=True)
    for k, m in enumerate(mutants()):
        if k < given.first:
            continue
        if k % given.part[1] != given.part[0] or (given.only is not None and k not in given.only):
            continue
        p = caught(m, pool)
        kind = "caught"
        if p is None:
            p, kind = sought(m, pool, given.tries)
        print(k, m, kind, " / ".join(str(p).splitlines()) if p else "", sep=" | ", flush=True)


if __name__ == "__main__":
    main()
