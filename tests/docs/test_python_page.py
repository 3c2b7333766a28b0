"""The examples of docs/python.md and of the API's docstrings run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from syncverify import api
from syncverify.frontends import launch_facts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
_FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def test_the_page_runs() -> None:
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert done.attempted > 10
    assert done.failed == 0


@pytest.mark.parametrize("module", [api, launch_facts])
def test_docstrings_run(module: object) -> None:
    done = doctest.testmod(module, optionflags=_FLAGS)  # type: ignore[arg-type]
    assert done.attempted and not done.failed
