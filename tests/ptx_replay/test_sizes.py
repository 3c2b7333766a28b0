"""Sizes inside a parameter of several bytes, without a name in any launch file."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind
from syncverify.driver.files import SourceFile, check_source, read_source
from syncverify.frontends.launch_facts import LaunchFacts, read_facts
from syncverify.ptx_replay import unroll
from syncverify.simulate.ir import replay
from tests.frontends.ptx.execute_helpers import module_text

#: One warp reads what the other stores, as often as the word at AT says; BARRIER stands before each store.
KERNEL = """
    .shared .align 16 .b8 slot[16];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    ld.param.b64 %rd1, [k_args];
    ld.param.b32 %r3, [k_args+AT];
    mov.u32 %r4, 0;
LOOP:
    setp.ge.s32 %p2, %r4, %r3;
    @%p2 bra END;
    BARRIER
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra FILLED;
    st.shared.u32 [slot], %r4;
FILLED:
    bar.sync 0;
    setp.eq.u32 %p4, %r2, 0;
    @%p4 bra NEXT;
    ld.shared.u32 %r6, [slot];
    st.global.u32 [%rd1], %r6;
NEXT:
    add.u32 %r4, %r4, 1;
    bra LOOP;
END:
    ret;
"""


def _source(folder: Path, at: int, barrier: str) -> tuple[SourceFile, LaunchFacts]:
    text = KERNEL.replace("AT", str(at)).replace("BARRIER", barrier)
    (path := folder / "k.ptx").write_text(module_text(text, ".param .align 8 .b8 k_args[16]"))
    (launch := folder / "k.toml").write_text("[kernel.k]\nblock = [64]\ncluster = [1]\n")
    return read_source(path), read_facts(launch)


@pytest.mark.parametrize("at", [8, 12])
def test_the_size_that_does_harm_is_named_and_replayed(tmp_path: Path, at: int) -> None:
    source, facts = _source(tmp_path, at, "")
    (report,) = check_source(source, facts=facts, scope=ScopeKind.ALL, repairs=False)
    assert (report.verdict.value, report.scope.values.get(f"params.0+{at}")) == ("refuted", 2), report.reason
    assert source.module is not None and report.witness is not None
    unrolled = unroll(source.module, facts, report.witness)
    result = replay(unrolled.witness, unrolled.kernel)
    assert result.reproduced, result.reason


@pytest.mark.parametrize(("values", "kind"), [({}, ScopeKind.ALL), ({"param0[8]": 2}, ScopeKind.PARTIAL)])
def test_a_number_inside_a_parameter_narrows_the_scope(
    tmp_path: Path, values: dict[str, int], kind: ScopeKind
) -> None:
    source, facts = _source(tmp_path, 8, "bar.sync 0;")
    report: KernelReport
    (report,) = check_source(source, facts=facts, values=values, scope=ScopeKind.ALL, repairs=False)
    assert (report.verdict.value, report.scope.kind) == ("proved", kind), report.reason
