"""A constant that an instruction does not take is an error, as it is for ptxas."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.isa.constants import out_of_range
from tests.frontends.ptx.isa.samples import function

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, "
SPARSE = "mma.sp.sync.aligned.m16n8kK.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, "
MULTICAST = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    " [%rd1], [%rd2], 16, [%rd3], "
)


@pytest.mark.parametrize(
    "line",
    [
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%rd1], 0;",
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%rd1], 1, 1000;",
        "mbarrier.test_wait.shared::cta.b64 %p1, [%rd1], %rd2;",
        "bfe.u32 %r1, %r2, 31, 255;",
        "bfi.b32 %r1, %r2, %r3, 0, 32;",
        WGMMA + "1, -1, 1, 0, 1;",
        WGMMA + "%p1, 1, 1, 0, 0;",
        "wgmma.wait_group.sync.aligned 7;",
        SPARSE.replace("K", "16") + "{%r1, %r2}, {%r1, %r2}, {%f1, %f2, %f3, %f4}, %r1, 3;",
        "discard.global.L2 [%rd1], 128;",
        "mbarrier.arrive.shared::cta.b64 %rd1, [%rd2], 1;",
        MULTICAST + "65535;",
        "cp.async.ca.shared.global [%rd1], [%rd2], 8, 8;",
        "cp.async.cg.shared.global.L2::cache_hint [%rd1], [%rd2], 16, %rd3;",
    ],
)
def test_constants_that_are_taken(line: str) -> None:
    assert out_of_range(function(line).body[0]) is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%rd1], 2;", "operand 3 is 2: 0 or 1 is expected"),
        ("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%rd1], -1;", "operand 3 is -1"),
        ("bfe.u32 %r1, %r2, -1, 5;", "operand 3 is -1: 0 to 255 is expected"),
        ("bfi.b32 %r1, %r2, %r3, 0, 256;", "operand 5 is 256"),
        (WGMMA + "2, 1, 1, 0, 0;", "operand 4 is 2"),
        (WGMMA + "1, 0, 1, 0, 0;", "operand 5 is 0: -1 or 1 is expected"),
        (WGMMA + "1, 1, 1, 0, 2;", "operand 8 is 2"),
        ("wgmma.wait_group.sync.aligned -1;", "operand 1 is -1"),
        (
            SPARSE.replace("K", "8") + "{%r1, %r2}, {%r1, %r2}, {%f1, %f2, %f3, %f4}, %r1, 1;",
            "operand 6 is 1",
        ),
        ("discard.global.L2 [%rd1], 64;", "operand 2 is 64: 128 is expected"),
        ("mbarrier.arrive.shared::cta.b64 %rd1, [%rd2], 0;", "operand 3 is 0: 1 to"),
        ("cp.async.bulk.prefetch.L2.global [%rd1], 8;", "operand 2 is 8: a multiple of 16 from 0 to 1048560"),
        (MULTICAST + "65536;", "operand 5 is 65536"),
        ("cp.async.ca.shared.global [%rd1], [%rd2], 5;", "operand 3 is 5: 4, 8 or 16 is expected"),
        ("cp.async.cg.shared.global [%rd1], [%rd2], 8;", "operand 3 is 8: 16 is expected"),
        ("cp.async.ca.shared.global [%rd1], [%rd2], 4, 5;", "operand 4 is 5: 0 to 4 is expected"),
        ("pmevent 16;", "operand 1 is 16: 0 to 15 is expected"),
    ],
)
def test_constants_out_of_range(line: str, text: str) -> None:
    found = out_of_range(function(line).body[0])
    assert found is not None
    assert text in found
