"""What ``import syncverify`` offers."""

from __future__ import annotations

import pytest

import syncverify
from syncverify import Policy, Verdict, check_kernel, parse


@pytest.mark.parametrize("name", syncverify.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(syncverify, name).__doc__


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = syncverify.nothing


def test_check_a_kernel_from_text() -> None:
    (kernel,) = parse("kernel k {\n  launch block [64]\n  bar.sync 0\n}\n")
    report = check_kernel(kernel, policy=Policy.STRICT)
    assert (report.verdict, report.policy) == (Verdict.PROVED, Policy.STRICT)
