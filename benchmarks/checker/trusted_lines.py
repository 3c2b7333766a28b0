"""Counts the lines of code that must be right for a verdict, by room: no comments, docstrings or blank lines.

python -m benchmarks.checker.trusted_lines

Files are not chosen: what counts for a verdict is all that its judge imports, and what that imports.
``BESIDES`` names the few on which no acceptance rests, each with its reason. Front ends stand apart.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2] / "syncverify"


@dataclass(frozen=True, slots=True)
class Judge:
    """What accepts a verdict: the modules it begins with. ``front``: those of the front end before it."""

    starts: tuple[str, ...]
    front: tuple[str, ...] = ()


JUDGES = {
    "a kernel of PTX, every size": Judge(
        ("driver/by_kernel.py",), ("driver/ptx/check.py", "driver/ptx/task.py")
    ),
    "a kernel of the IR with a number of stages, every other size": Judge(
        ("driver/by_kernel.py", "ir/text/parser.py", "ir/check/well_formed.py"),
        ("frontends/ir/open_kernel.py",),
    ),
    "a kernel of the IR whose number of stages is a parameter": Judge(
        ("checker/prover/rings/cases.py", "ir/text/parser.py", "ir/check/well_formed.py")
    ),
}
#: Rooms by where files stand; the first that fits.
ROOMS = {
    "kernel, proofs of protocols": ("checker/kernel/",),
    "agents as protocols": ("checker/induction/",),
    "kernels of the IR as protocols": ("checker/prover/rings/",),
    "tables and events": ("model/",),
    "arithmetic of sizes": ("symbolic/", "ir/solver.py"),
    "certificates and launches": (
        "driver/",
        "checker/",
        "base/certificate_data.py",
        "frontends/launch_facts.py",
    ),
    "layout and footprints": ("ir/layout.py", "ir/footprints.py"),
    "syntax of the IR": ("ir/",),
    "words of reports": ("base/",),
}
#: Files on which no acceptance rests, and why.
BESIDES = {
    "ir/text/syntax_errors.py": "words of an error that the parser has found",
    "ir/check/path_facts.py": "notes; where no launch meets the facts, the reading refuses too",
    "ir/check/wait_cycles.py": "refuses kernels that evidently hang, as the kernel would",
}
#: Here imports in functions lead to front ends.
SEAM = "driver/by_kernel.py"
_SILENT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
)  # fmt: skip


def code_lines(text: str) -> int:
    """Lines with code on them."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                documented |= set(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    lines: set[int] = set()
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type not in _SILENT:
            lines |= set(range(t.start[0], t.end[0] + 1))
    return len(lines - documented)


@cache
def lines_of(name: str) -> int:
    """The lines of code of one file."""
    return code_lines((ROOT / name).read_text("utf-8"))


def count(patterns: list[str]) -> int:
    """The lines of code of the files that match."""
    return sum(lines_of(str(f.relative_to(ROOT))) for f in {f for p in patterns for f in ROOT.glob(p)})


def _file(module: str) -> str | None:
    """The file of a module of the package."""
    path = ROOT.parent.joinpath(*module.split("."))
    found = next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()), None)
    return None if found is None or ROOT not in found.parents else str(found.relative_to(ROOT))


def _imports(node: ast.AST, in_functions: bool) -> Iterator[ast.ImportFrom | ast.Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom | ast.Import):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        elif in_functions or not isinstance(child, ast.FunctionDef):
            yield from _imports(child, in_functions)


@cache
def imported(name: str) -> frozenset[str]:
    """The files of the package that a file imports."""
    out: set[str | None] = set()
    tree = ast.parse((ROOT / name).read_text("utf-8"))
    for found in _imports(tree, in_functions=name != SEAM):
        if isinstance(found, ast.Import):
            out |= {_file(a.name) for a in found.names}
        elif found.module is not None:
            inner = {a.name: _file(f"{found.module}.{a.name}") for a in found.names}
            out |= {x for x in inner.values() if x is not None}
            if None in inner.values():
                out.add(_file(found.module))
    return frozenset(x for x in out if x is not None)


def trusted(judge: Judge) -> list[str]:
    """The files that a judge rests on."""
    return _closed(judge.starts)


def in_front(judge: Judge) -> list[str]:
    """The other files that its front end rests on."""
    return sorted(set(_closed(judge.front)) - set(trusted(judge)))


def _closed(starts: tuple[str, ...]) -> list[str]:
    """Files, and all that they import."""
    todo, seen = list(starts), set(starts)
    while todo:
        for name in imported(todo.pop()) - seen - BESIDES.keys():
            seen.add(name)
            todo.append(name)
    return sorted(seen)


def rooms(judge: Judge) -> dict[str, int]:
    """The lines of a judge by room."""
    out = dict.fromkeys(ROOMS, 0)
    for name in trusted(judge):
        out[next(room for room, places in ROOMS.items() if name.startswith(places))] += lines_of(name)
    return {room: n for room, n in out.items() if n}


def main() -> None:
    for what, judge in JUDGES.items():
        sys.stdout.write(f"{what}\n")
        found = rooms(judge)
        for room, n in found.items():
            sys.stdout.write(f"{n:7,}  {room}\n")
        sys.stdout.write(f"{sum(found.values()):7,}  in all\n")
        if judge.front:
            sys.stdout.write(f"{sum(map(lines_of, in_front(judge))):7,}  beside them, of the front end\n")


if __name__ == "__main__":
    main()
