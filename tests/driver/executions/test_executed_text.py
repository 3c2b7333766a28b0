"""The text that the second reader executes: a plain first guess of a ``cas`` is no race in practical mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.driver.executions.executed_text import executed
from syncverify.frontends.ptx.syntax.parser import parse
from tests.system.small_ptx import read

SMALL = Path(__file__).parents[2] / "system" / "small_ptx" / "first_guesses.kernels"


@pytest.mark.parametrize("policy", [Policy.PRACTICAL, Policy.STRICT])
def test_the_guess_is_strong_in_practical_mode(policy: Policy) -> None:
    module = parse(next(read(SMALL)).text)
    found = [i.line for f in executed(module, "k", policy).functions for i in f.body if "relaxed" in i.mods]
    assert found == ([21] if policy is Policy.PRACTICAL else [])
    assert executed(module, "another", policy) == module
