"""Regular expressions mean the same in every Python that the project supports."""

from __future__ import annotations

import importlib
import pkgutil
import re
from re import _constants as constants
from re import _parser as parser
from typing import Any

import pytest

import syncverify

# Examples run when imported; torch and the language server are extras.
_NOT_IMPORTED = ("syncverify.examples", "syncverify.torch", "syncverify.lsp")
_SINGLE = {constants.LITERAL, constants.NOT_LITERAL, constants.IN, constants.ANY}


def _patterns() -> dict[str, re.Pattern[str]]:
    found = {}
    for module in pkgutil.walk_packages(syncverify.__path__, "syncverify."):
        if module.name.startswith(_NOT_IMPORTED) or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                found[f"{module.name}.{name}"] = value
    return found


def possessive_groups(pattern: str, flags: int = 0) -> int:
    """How many possessive repetitions of more than one character set a pattern holds."""
    return _count(parser.parse(pattern, flags))


def _count(parsed: Any) -> int:
    if isinstance(parsed, parser.SubPattern):
        return sum(
            _count(argument) + (op is constants.POSSESSIVE_REPEAT and _is_group(argument))
            for op, argument in parsed
        )
    if isinstance(parsed, list | tuple):
        return sum(map(_count, parsed))
    return 0


def _is_group(repeat: Any) -> bool:
    return len(repeat[2]) != 1 or repeat[2][0][0] not in _SINGLE


def test_no_possessive_groups() -> None:
    """Before Python 3.11.5 they match wrongly (python/cpython#106052)."""
    patterns = _patterns()
    assert len(patterns) > 20
    assert [name for name, p in patterns.items() if possessive_groups(p.pattern, p.flags & ~re.UNICODE)] == []


@pytest.mark.parametrize(
    ("pattern", "groups"), [(r"(?:a|bc)*+", 1), (r"((?:\[[^]]*+\]\s*+)*+)", 1), (r"\s*+[ab]++.?+", 0)]
)
def test_groups_are_told_from_sets(pattern: str, groups: int) -> None:
    assert possessive_groups(pattern) == groups
