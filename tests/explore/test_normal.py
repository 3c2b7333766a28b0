"""The normal form treats every field that a run has, one way or the other."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest

from syncverify.checker.explore.normal import TREATED


@pytest.mark.parametrize("kind", TREATED, ids=lambda k: k.__name__)
def test_every_field_is_kept_or_left_out(kind: type) -> None:
    kept, left = (text.split() for text in TREATED[kind])
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "__slots__"))  # noqa: B009
    assert sorted(kept + left) == sorted(names)
