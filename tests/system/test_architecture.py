"""The floors of docs/architecture.md hold (import-linter), and no module imports z3 or CUDA too early."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parents[2]


def test_floors_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["syncverify.cli.main", "syncverify.cli.check", "syncverify.cli.explain"])
def test_command_line_starts_without_heavy_imports(module: str) -> None:
    heavy = ("z3", "cuda", "torch")
    code = f"import sys, {module}; print(*(m for m in {heavy} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_checks_of_ptx_load_no_statements_of_the_ir() -> None:
    """Their data classes take a quarter of the processor time of a small check."""
    code = "import sys, syncverify.driver.ptx.check; print('syncverify.ir.nodes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_one_module_talks_to_z3() -> None:
    users = {
        str(p.relative_to(ROOT))
        for p in (ROOT / "syncverify").rglob("*.py")
        if re.search(r"^\s*(import z3|from z3)\b", p.read_text("utf-8"), re.M)
    }
    assert users == {"syncverify/ir/solver.py"}


def test_the_page_shows_the_floors_that_are_held() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    held = [re.findall(r"syncverify\.([\w.]+)", floor) for floor in contracts[0]["layers"]]
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    block = page.split("holds them (`pyproject.toml`")[1].split("\n\n")[1]
    shown = [re.findall(r"[\w.]+", line.split("(")[0]) for line in block.splitlines()]
    assert shown == held


def test_the_page_names_every_package_and_module_of_the_top() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    paths = [
        p for p in (ROOT / "syncverify").iterdir() if not p.name.startswith("_") and p.name != "py.typed"
    ]
    missing = [p.name for p in paths if not re.search(rf"`{p.stem}\b", page)]
    assert missing == [] and len(paths) > 20


def test_the_page_names_no_file_that_is_gone() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = page.split("| file | knowledge |")[1].split("## ")[0]
    for name in re.findall(r"`([\w/*.]+(?:/|\.py|\.lark))`", table):
        found = [
            p
            for root in (ROOT / "syncverify", ROOT, ROOT / "syncverify" / "checker")
            for p in root.glob(name)
        ]
        assert found or list((ROOT / "syncverify").rglob(name)), name


def test_the_index_links_every_page_and_the_front_page_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text("utf-8")
    pages = [p.relative_to(docs).as_posix() for p in docs.rglob("*.md") if p.name != "index.md"]
    assert [p for p in sorted(pages) if f"({p})" not in index] == []
    assert "(docs/index.md)" in (ROOT / "README.md").read_text("utf-8")


def _statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """The statements right inside one; imports are in no expression."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        yield from getattr(node, part, ())


def _imports(path: Path, names: dict[str, Path]) -> set[str]:
    """The modules of the package that a module imports, wherever it does, but for type checkers only."""
    out: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while todo:
        for node in _statements_of(todo.pop()):
            match node:
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    continue
                case ast.ImportFrom(module=str(module), names=found):
                    full = [f"{module}.{a.name}" for a in found]
                    out |= {f if f in names else module for f in full}
                case ast.Import(names=found):
                    out |= {a.name for a in found}
            todo.append(node)
    return out & set(names)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside of functions count: they hide a circle, they do not end it."""
    names: dict[str, Path] = {}
    for path in (ROOT / "syncverify").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = networkx.DiGraph((a, b) for a, path in names.items() for b in _imports(path, names) if a != b)
    assert graph.number_of_edges() > 3000
    assert [sorted(x) for x in networkx.strongly_connected_components(graph) if len(x) > 1] == []
