"""The places where a package rejects, and how tests leave out one of them alone."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import syncverify.checker.kernel

#: The kernel for protocols, and what it raises.
KERNEL = syncverify.checker.kernel.__name__, ("RejectedError",)
#: A package, and names of exceptions.
Package = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Raise:
    """``where``: classes and functions around it, outermost first; ``line``: of the statement.

    ``message``: its text, with ``{}`` for what it fills in.
    """

    package: str
    module: str
    where: tuple[str, ...]
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.module}: {self.message}"


@cache
def raises(of: Package = KERNEL) -> tuple[Raise, ...]:
    """Every ``raise`` of such exceptions in a package."""
    name, errors = of
    out: list[Raise] = []
    for path in sorted(_root(name).glob("*.py")):
        for node, where in _found(ast.parse(path.read_text("utf-8")), ()):
            if isinstance(node.exc, ast.Call) and getattr(node.exc.func, "id", "") in errors:
                out.append(Raise(name, path.stem, where, node.lineno, _message(node.exc)))
    return tuple(out)


def _root(name: str) -> Path:
    (found,) = import_module(name).__path__
    return Path(found)


def _found(node: ast.AST, where: tuple[str, ...]) -> Iterator[tuple[ast.Raise, tuple[str, ...]]]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        if isinstance(child, ast.Raise):
            yield child, where
        yield from _found(child, (*where, child.name) if named else where)


def _message(raised: ast.Call) -> str:
    said = raised.args[0]
    if isinstance(said, ast.Constant):
        return str(said.value)
    if isinstance(said, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in said.values)
    return ast.unparse(said)


class _Without(ast.NodeTransformer):
    def __init__(self, line: int) -> None:
        self.line = line

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node) if node.lineno == self.line else node


@contextmanager
def without(r: Raise) -> Iterator[None]:
    """The package goes on where it would reject at this place."""
    module = import_module(f"{r.package}.{r.module}")
    assert module.__file__ is not None
    tree = _Without(r.line).visit(ast.parse(Path(module.__file__).read_text("utf-8")))
    outer = _function(module, r.where)
    (new,) = [
        c for c in _codes(compile(tree, module.__file__, "exec")) if c.co_qualname == outer.__qualname__
    ]
    pairs = [(outer, new), *_inner(outer.__code__, new)]
    before = [f.__code__ for f, _ in pairs]
    try:
        for f, code in pairs:
            f.__code__ = code
        yield
    finally:
        for (f, _), code in zip(pairs, before, strict=True):
            f.__code__ = code


def _inner(old: CodeType, new: CodeType) -> Iterator[tuple[FunctionType, CodeType]]:
    """Functions that were made by a function whose code is replaced, with their new code."""
    codes = {c.co_qualname: c for c in _codes(new)}
    for c in _codes(old):
        made = [f for f in gc.get_referrers(c) if isinstance(f, FunctionType) and f.__code__ is c]
        yield from ((f, codes[c.co_qualname]) for f in made if c is not old)


def _function(module: ModuleType, where: tuple[str, ...]) -> FunctionType:
    """The outermost function: those inside it are constants of its code."""
    found: Any = module
    for name in where:
        found = vars(found)[name]
        if isinstance(found, FunctionType):
            return found
    raise AssertionError(where)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def off(r: Raise) -> Iterator[AbstractContextManager[Any]]:
    yield without(r)


def raised_at(e: BaseException) -> tuple[str, int]:
    """Module and line where an exception comes from."""
    at = e.__traceback__
    assert at is not None
    while at.tb_next is not None:
        at = at.tb_next
    return Path(at.tb_frame.f_code.co_filename).stem, at.tb_lineno


__all__ = ["Raise", "off", "raised_at", "raises", "without"]
