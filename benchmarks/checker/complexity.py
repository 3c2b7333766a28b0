"""Functions by how much they decide, of a checkout or of a commit: for docs/decisions/names-and-shapes.md.

    python benchmarks/checker/complexity.py [--of COMMIT] [--most 30]

A function decides once more for each branch, loop, handler, case, condition of a comprehension, conditional
expression, and operand of ``and`` or ``or`` beyond the first. What nested functions decide counts as theirs.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

ROOT = Path(__file__).parents[2]
_ONCE = (
    ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension, ast.Assert, ast.match_case,
)  # fmt: skip


def sources(commit: str | None) -> Iterator[tuple[str, str]]:
    """Modules of the package and their text."""
    if commit is None:
        for path in sorted((ROOT / "syncverify").rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        return
    packed = subprocess.run(
        ["git", "archive", commit, "syncverify"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive.getmembers():
            if member.name.endswith(".py") and (file := archive.extractfile(member)) is not None:
                yield member.name, file.read().decode("utf-8")


def decisions(function: ast.AST) -> int:
    """How often a function decides, and one."""
    count, todo = 1, list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.comprehension):
            count += len(node.ifs)
        count += isinstance(node, _ONCE)
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        todo += ast.iter_child_nodes(node)
    return count


def functions(text: str) -> Iterator[tuple[str, int]]:
    """Functions of a module by their qualified names, and what they decide."""

    def inside(node: ast.AST, name: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                full = f"{name}{child.name}"
                if isinstance(child, ast.FunctionDef):
                    yield full, decisions(child)
                yield from inside(child, f"{full}.")
            else:
                yield from inside(child, name)

    yield from inside(ast.parse(text), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--of", help="a commit; else the checkout")
    parser.add_argument("--most", type=int, default=30)
    given = parser.parse_args()
    found = [(n, module, name) for module, text in sources(given.of) for name, n in functions(text)]
    found.sort(key=lambda x: (-x[0], x[1:]))
    print(f"{sum(n > 15 for n, _, _ in found)} of {len(found)} functions decide more than 15 times")
    for n, module, name in found[: given.most]:
        print(f"| `{module.removeprefix('syncverify/')}`: `{name}` | {n} |")


if __name__ == "__main__":
    signal(SIGPIPE, SIG_DFL)  # `| head` closes the pipe
    main()
