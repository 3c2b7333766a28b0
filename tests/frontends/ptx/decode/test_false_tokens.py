"""Waits by a number that no arrival gave as a token (PTX ISA: mbarrier.test_wait)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text

FACTS = "[kernel.k]\ngrid = [1]\nblock = [32]\ncluster = [1]\n"
BODY = """
    .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x;
    mov.u64 %rd1, full;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%rd1], 32;
READY:
    bar.sync 0;
    mbarrier.arrive.shared.b64 %rd2, [%rd1];
    OTHER
WAIT:
    mbarrier.try_wait.shared.b64 %p2, [%rd1], %rd2;
    @!%p2 bra WAIT;
    ret;
"""


def verdict(check: Any, other: str) -> str:
    return str(check(module_text(BODY.replace("OTHER", other)), facts=FACTS)["verdict"])


@pytest.mark.parametrize("other", ["mov.u64 %rd2, 0;", "cvta.shared.u64 %rd2, %rd1;", "not.b64 %rd2, %rd2;"])
def test_any_other_number_is_refuted(check: Any, other: str) -> None:
    assert verdict(check, "") == "proved"
    assert verdict(check, other) == "refuted"
