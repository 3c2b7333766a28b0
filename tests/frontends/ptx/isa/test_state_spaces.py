"""A variable as an address lies in the state space that the instruction names, as ptxas asks for it."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.isa.validate import checked
from syncverify.frontends.ptx.syntax.parser import parse

FILE = """.version 8.4
.target sm_90a
.address_size 64
.global .u32 in_global;
.const .u32 in_const;
.visible .entry k(.param .u32 in_param)
{
.reg .b32 %r<3>;
.reg .b64 %rd<3>;
.shared .align 4 .u32 in_shared;
LINE
ret;
}
"""


def wrong(line: str) -> str:
    """What is wrong with a line, in words; empty if nothing is."""
    error = checked(parse(FILE.replace("LINE", line), "k.ptx")).wrong.get("k")
    return "" if error is None else error.message


@pytest.mark.parametrize(
    "line",
    [
        "ld.u32 %r1, [in_shared];",
        "ld.u32 %r1, [in_global];",
        "ld.const.u32 %r1, [in_const];",
        "ld.param.u32 %r1, [in_param];",
        "st.shared.u32 [in_shared], %r1;",
        "ld.param::entry.u32 %r1, [in_param];",
        "cp.async.ca.shared.global [in_shared], [in_global], 4;",
        "cp.async.bulk.global.shared::cta.bulk_group [in_global], [in_shared], 16;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [in_shared], [in_global], 16, [in_shared];",
    ],
)
def test_addresses_in_the_space_that_is_named(line: str) -> None:
    assert wrong(line) == ""


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("ld.u32 %r1, [in_const];", "in_const is in the state space const, the instruction names no state"),
        ("st.u32 [in_const], %r1;", "in_const is in the state space const"),
        ("ld.u32 %r1, [in_param];", "in_param is in the state space param"),
        ("ld.global.u32 %r1, [in_shared];", "in_shared is in the state space shared"),
        ("wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%rd1}, [in_shared];", "in_shared is in"),
        (
            "cp.async.ca.shared.global [in_shared], [in_shared], 4;",
            "the instruction names the state space global",
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group [in_shared], [%rd1], 16;", "in_shared is in"),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [in_shared], [%rd1], 16, [in_global];",
            "in_global is in the state space global",
        ),
        ("prefetch.global.L1 [in_shared];", "in_shared is in the state space shared"),
        ("prefetchu.L1 [in_global];", "in_global has a state space"),
        ("ld.param::func.u32 %r1, [in_param];", "the address is no parameter of a function"),
        ("st.param::func.b32 [%rd1], %r1;", "the address is no parameter of a function"),
        ("ld.param.u32 %r1, [in_param+8];", "bytes 8 to 11 are read of in_param, which has"),
        ("ld.param.u32 %r1, [in_param+-4];", "bytes -4 to -1 are read of in_param, which has"),
    ],
)
def test_addresses_in_another_space(line: str, text: str) -> None:
    assert text in wrong(line)
