"""The lemmas of the reading name functions and rules that there are."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from syncverify.checker.induction import assemble, claims, flags, program, read, strides
from tests.checker.induction.switches import COMPILED_SWITCHES, SWITCHES
from tests.checker.induction.test_words import OFF

TEXT = (Path(__file__).parents[3] / "docs" / "kernel_reading.md").read_text("utf-8")
CLASSES = {
    name: c
    for module in (assemble, claims, flags, program, read, strides)
    for name, c in inspect.getmembers(module, inspect.isclass)
}
NAMES = sorted({m[1] for m in re.finditer(r"`([\w.]+\.\w+)`", TEXT)})


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_page_exists(name: str) -> None:
    *owner, what = name.split(".")
    if owner[-1] in CLASSES:
        assert hasattr(CLASSES[owner[-1]], what), name
        return
    room = "syncverify." if owner[0] == "symbolic" else "syncverify.checker.induction."
    module = import_module(room + ".".join(owner))
    assert hasattr(module, what), name


def test_rules_of_the_page_are_switches() -> None:
    table = TEXT[TEXT.index("| lemma |") :].split("\n\n")[0].splitlines()[2:]
    named = {x.strip() for row in table for x in row.split("|")[2].split(";")}
    assert len(table) > 5
    assert named <= {*SWITCHES, *COMPILED_SWITCHES, *OFF}
