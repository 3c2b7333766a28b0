"""The same text is compiled once, and executed in namespaces that have nothing in common."""

from __future__ import annotations

from typing import Any

import pytest

from syncverify.base.generated_code import compiled


def test_namespaces_are_apart() -> None:
    text = "def f():\n    return c"
    first: dict[str, Any] = {"c": 1}
    second: dict[str, Any] = {"c": 2}
    exec(compiled(text, "<k>"), first)
    exec(compiled(text, "<k>"), second)
    assert (first["f"](), second["f"]()) == (1, 2)
    assert compiled(text, "<k>") is compiled(text, "<k>")


def test_another_name_is_another_code() -> None:
    assert compiled("x = 1", "<a>").co_filename == "<a>" and compiled("x = 1", "<b>").co_filename == "<b>"


def test_what_is_no_text_of_a_module_is_said_each_time() -> None:
    for _ in range(2):
        with pytest.raises(SyntaxError):
            compiled("def", "<k>")
