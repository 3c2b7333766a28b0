"""Atomics that decide who writes and who reads, where nothing is released: no proof leaves these out."""

from __future__ import annotations

import pytest

import syncverify
from syncverify import Verdict

_FACTS = {"block": [32], "grid": [3], "params": {"0": "ptr", "1": "ptr"}}
_SUM = "ld.global.u32 %r4, [sum];\nadd.u32 %r4, %r4, 5;\nst.global.u32 [sum], %r4;"
_READ = "ld.global.u32 %r9, [sum];\nst.global.u32 [%x3], %r9;"
_CAS = "atom.relaxed.gpu.global.cas.b32 %r3, [%x5], 0, 1;"
_SWAP = "atom.relaxed.gpu.global.exch.b32 %r3, [%x5], 1;"
_COUNT = "atom.relaxed.gpu.global.add.u32 %r3, [%x1], 1;"
_NEXT = f"""LOOP:
{_COUNT}
setp.ge.u32 %p1, %r3, 7;
@%p1 bra END;
mul.wide.u32 %x6, %r3, 4;
add.u64 %x7, %x0, %x6;
ld.global.u32 %r5, [%x7];
add.u32 %r5, %r5, 1;
st.global.u32 [%x7], %r5;
bra LOOP;"""


def _kernel(body: str) -> str:
    return f""".version 8.6
.target sm_90a
.address_size 64
.global .align 4 .u32 sum;
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)
{{
.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %x<12>;
ld.param.u64 %x0, [k_param_0];
ld.param.u64 %x1, [k_param_1];
cvta.to.global.u64 %x0, %x0;
cvta.to.global.u64 %x1, %x1;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mul.wide.u32 %x2, %r1, 4;
add.u64 %x3, %x0, %x2;
shr.u32 %r2, %r1, 1;
mul.wide.u32 %x4, %r2, 4;
add.u64 %x5, %x1, %x4;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra END;
{body}
END:
ret;
}}
"""


def _won(atomic: str, first: str, others: str) -> str:
    return f"{atomic}\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra ELSE;\n{first}\nbra END;\nELSE:\n{others}"


@pytest.mark.parametrize(
    ("right", "body"),
    [
        (False, _won(_CAS, _SUM, _READ)),
        (False, _won(_SWAP, _SUM, _READ)),
        (False, _won(_COUNT, _SUM, _READ)),
        (False, _won(_COUNT, "st.global.u32 [sum], 5;", _SUM)),
        (False, _NEXT.replace("ld.global.u32 %r5, [%x7]", "ld.global.u32 %r5, [%x7+4]")),
        (False, _won(_COUNT, "red.global.add.u32 [sum], 5;", _READ)),
        (False, _won(_COUNT, "atom.global.exch.b32 %r4, [sum], 5;", _READ)),
        (False, _won(_COUNT, "st.volatile.global.u32 [sum], 5;", _READ)),
        (True, _won(_COUNT, "red.global.add.u32 [sum], 5;", _READ.replace("ld.", "ld.relaxed.gpu."))),
        (True, _won(_COUNT, _SUM, "st.global.u32 [%x3], %r3;")),
        (True, _NEXT),
    ],
    ids=["cas", "swap", "count", "both change", "neighbour's tile", "adds to it",
         "swaps it", "volatile", "adds to it, read by a strong load", "first alone", "own tile"],
)  # fmt: skip
def test_only_who_reads_what_it_writes_is_proved(right: bool, body: str) -> None:
    (report,) = syncverify.check(_kernel(body), facts={"kernel": {"k": _FACTS}}, replay=False, advice=False)
    assert (report.verdict is Verdict.PROVED) == right
    assert right or (report.reason is not None and "depends on data" in report.reason)
