"""The places where the kernel rejects, and how tests leave out one of them alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import syncverify.checker.kernel as package

_ROOT = Path(package.__file__).parent


@dataclass(frozen=True, slots=True)
class Raise:
    """``where``: classes and functions around it, outermost first; ``line``: of the statement.

    ``message``: its text, with ``{}`` for what it fills in.
    """

    module: str
    where: tuple[str, ...]
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.module}: {self.message}"


@cache
def raises() -> tuple[Raise, ...]:
    """Every ``raise RejectedError`` of the kernel for protocols."""
    out: list[Raise] = []
    for path in sorted(_ROOT.glob("*.py")):
        for node, where in _found(ast.parse(path.read_text("utf-8")), ()):
            out.append(Raise(path.stem, where, node.lineno, _message(node)))
    return tuple(out)


def _found(node: ast.AST, where: tuple[str, ...]) -> Iterator[tuple[ast.Raise, tuple[str, ...]]]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        if isinstance(child, ast.Raise) and _rejects(child):
            yield child, where
        yield from _found(child, (*where, child.name) if named else where)


def _rejects(node: ast.Raise) -> bool:
    return isinstance(node.exc, ast.Call) and getattr(node.exc.func, "id", "") == "RejectedError"


def _message(node: ast.Raise) -> str:
    assert isinstance(node.exc, ast.Call)
    (said,) = node.exc.args
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
    """The kernel goes on where it would reject at this place."""
    module = import_module(f"{package.__name__}.{r.module}")
    assert module.__file__ is not None
    tree = _Without(r.line).visit(ast.parse(Path(module.__file__).read_text("utf-8")))
    outer = _function(module, r.where)
    (new,) = [
        c for c in _codes(compile(tree, module.__file__, "exec")) if c.co_qualname == outer.__qualname__
    ]
    before, outer.__code__ = outer.__code__, new
    try:
        yield
    finally:
        outer.__code__ = before


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
