"""The table of sweeps: it names tests that there are, and leaves out what it says."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sweeps import PARTS, leave_out

TESTS = Path(__file__).parents[1]


class Case(SimpleNamespace):
    """What the table needs of a collected case."""

    def get_closest_marker(self, name: str) -> object | None:
        return name if name in self.marks else None

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark.name)


@pytest.mark.parametrize("name", PARTS)
def test_a_sweep_is_a_test_of_many_cases(name: str) -> None:
    file, _, test = name.partition("::")
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    (found,) = (x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name == test)
    assert any("parametrize" in ast.unparse(d) for d in found.decorator_list)


def test_of_each_sweep_the_first_and_every_so_manieth_case_is_run() -> None:
    name, every = next((n, k) for n, k in PARTS.items() if k == 3)
    cases: Any = [Case(nodeid=f"tests/{name}[{n}]", marks=["slow"] if n == 1 else []) for n in range(8)]
    other: Any = Case(nodeid="tests/other/test_it.py::test_it[0]", marks=[])
    leave_out([*cases, other])
    assert [n for n, case in enumerate(cases) if not case.marks] == [0, 4, 7]
    assert every == 3 and not other.marks
