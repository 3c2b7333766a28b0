"""Flags that are written again by who has seen the last write: ordered by observation, without a release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text
from tests.frontends.ptx.global_helpers import FACTS, PARAMS, first

#: Block 0 adds one to FLAG; block 1 waits for it, and resets FLAG for the next launch, as split-K kernels do.
RESET = """
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r2, 0;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra SECOND;
    @%p1 bra END;
    st.global.u32 [%rd1], 1;
    fence.acq_rel.gpu;
    {BETWEEN}
    red.relaxed.{SCOPE}.global.add.u32 [%rd2], 1;
    bra END;
    SECOND:
    @%p1 bra WAITED;
    {SPIN}
    WAITED:
    bar.sync 0;
    {READ}
    setp.ne.u32 %p4, %r2, {WHO};
    @%p4 bra END;
    st.global.u32 [%rd2], 0;
    END: ret;
"""
SPIN = """LOOP:
    ld.{SEM}.gpu.global.u32 %r6, [%rd2];
    setp.ne.u32 %p3, %r6, 1;
    @%p3 bra LOOP;"""


def reset(between: str = "", scope: str = "gpu", sem: str = "acquire", read: str = "", who: int = 0) -> str:
    body = RESET.replace("{SPIN}", SPIN.replace("{SEM}", sem)).replace("{BETWEEN}", between)
    body = body.replace("{SCOPE}", scope).replace("{READ}", read).replace("{WHO}", str(who))
    return module_text(body, params=PARAMS)


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("sem", ["acquire", "relaxed"])
@pytest.mark.parametrize("policy", ["practical", "strict"])
def test_who_saw_a_write_may_write_again(check: Any, sem: str, who: int, policy: str) -> None:
    assert check(reset(sem=sem, who=who), 2, FACTS, "--policy", policy)["verdict"] == "proved"


def test_who_saw_nothing_may_not(check: Any) -> None:
    """Thread 1 does not wait for thread 0, which has seen it."""
    text = reset(who=1).replace("bar.sync 0;", "")
    assert first(check(text))[0] == "SV112"


def test_a_write_of_the_block_alone_was_not_seen(check: Any) -> None:
    assert first(check(reset(scope="cta")))[0] in ("SV112", "SV115")


def test_only_the_write_itself_is_ordered(check: Any) -> None:
    """What its author wrote behind the fence, and before it, is handed over by nothing."""
    read = "ld.global.u32 %r7, [%rd1];"
    assert check(reset(read=read))["verdict"] == "proved"
    assert first(check(reset(read=read, between="st.global.u32 [%rd1], 2;")))[0] == "SV110"
    assert first(check(reset(read=read, sem="relaxed")))[0] == "SV110"
