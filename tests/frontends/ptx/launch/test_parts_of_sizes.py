"""Parameters that are parts of open sizes: which ones is asked where paths begin, and guessed nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text

#: The upper word of the parameter is given as zero: a size below zero is a large number. Roles are told
#: through shared memory, so that all classes run the whole code.
WIDE = """
    .shared .align 8 .b8 mode[8];
    mov.u32 %r2, %tid.x;
    ld.param.b64 %rd1, [k_n];
    setp.ge.u32 %p1, %r2, 32;
    @%p1 bra SECOND;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra FIRST;
    mov.u32 %r3, 1;
    st.shared.u32 [mode], %r3;
    FIRST:
    bar.sync 0, 64;
    bra ROLES;
    SECOND:
    bar.sync 0, 64;
    ROLES:
    ld.shared.u32 %r4, [mode];
    setp.ne.u32 %p3, %r4, 1;
    @%p3 bra END;
    {lines}
    @!%p4 bra END;
    setp.lt.u32 %p1, %r2, 32;
    @%p1 bra END;
    bar.sync 1, 64;
    END: ret;
"""
FACTS = """[kernel.k]
block = [64]
cluster = [1]
grid = [1]
assume = ["N >= {low}"]
[kernel.k.params]
0 = [{{i32 = "N", at = 0}}, {{bytes = "00000000", at = 4}}]
"""


@pytest.mark.parametrize(("low", "wanted"), [(0, Verdict.PROVED), (-3, Verdict.REFUTED)])
@pytest.mark.parametrize(
    "lines",
    ["setp.gt.u64 %p4, %rd1, 2147483647;", "shr.u64 %rd2, %rd1, 31; setp.eq.u64 %p4, %rd2, 1;"],
)
def test_a_word_with_a_sign_is_a_large_number(tmp_path: Path, lines: str, low: int, wanted: Verdict) -> None:
    (path := tmp_path / "k.ptx").write_text(module_text(WIDE.format(lines=lines), params=".param .b64 k_n"))
    (launch := tmp_path / "k.toml").write_text(FACTS.format(low=low))
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    assert report.verdict is wanted, report.reason
