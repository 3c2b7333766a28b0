"""A warp that arrives and then waits on one barrier counts twice, also where its lanes come apart.

Ordered pipelines begin so: one warpgroup arrives for itself and then waits for its turn.
"""

from __future__ import annotations

from pathlib import Path

from syncverify.base.diagnostics import Verdict
from syncverify.driver.files import check_source, read_source

#: Warp 0 gives itself the turn; lane 0 waits for warp 1, then the warp takes the turn.
PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() .reqntid 64
{
 .reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
 .shared .align 8 .b8 bar[8];
 mov.u32 %r0, %tid.x;
 setp.eq.u32 %p0, %r0, 0;
 @%p0 mbarrier.init.shared.b64 [bar], 1;
 bar.sync 0;
 setp.gt.u32 %p1, %r0, 31;
 @%p1 bra OTHER;
 bar.arrive 2, 64;
 @%p0 bra ONE;
 bra MEET;
ONE:
 mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
 @!%p2 bra ONE;
MEET:
 bar.sync 2, 64;
 bra END;
OTHER:
 setp.eq.u32 %p3, %r0, 32;
 @%p3 mbarrier.arrive.shared.b64 %rd0, [bar];
END:
 ret;
}
"""


def test_lanes_that_come_apart_make_one_second_arrival(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(PTX)
    (report,) = check_source(read_source(path), repairs=False)
    assert report.verdict is Verdict.PROVED, report.diagnostics
