"""Faults of a judge: left out for users, seen by tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.api import check
from syncverify.base.deadline import OutOfTimeError
from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.base.faults import RAISE_FAULTS
from syncverify.base.reason import Cause, has
from syncverify.driver.executions import sought
from syncverify.driver.files import check_source, read_source
from tests.frontends.ptx.execute_helpers import module_text

BY_DATA = """ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 0;
@%p1 bra E; bar.sync 0; bra F; E: bar.sync 1; F: ret;"""


#: The block that counts last goes on: it is proved, and executions are asked about it.
LAST_BLOCK = """ld.param.u64 %rd1, [p]; ld.param.u64 %rd3, [q]; ld.param.u64 %rd4, [o];
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra F;
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x; sub.u32 %r3, %r3, 1;
mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r2; fence.acq_rel.gpu;
atom.global.relaxed.gpu.add.u32 %r4, [%rd3], 1; fence.acq_rel.gpu; setp.ne.u32 %p2, %r4, %r3; @%p2 bra F;
ld.global.u32 %r5, [%rd1]; st.global.u32 [%rd4], %r5; F: ret;"""
POINTERS = ".param .u64 p, .param .u64 q, .param .u64 o"


def report(tmp_path: Path) -> KernelReport:
    path = tmp_path / "k.ptx"
    path.write_text(module_text(BY_DATA, ".param .u64 p", bounds=".reqntid 64"))
    (found,) = check_source(read_source(path), repairs=False)
    return found


def last_block(tmp_path: Path) -> KernelReport:
    path = tmp_path / "k.ptx"
    path.write_text(module_text(LAST_BLOCK, POINTERS, bounds=".reqntid 64"))
    (found,) = check(path, advice=False)
    return found


def test_a_fault_of_the_search_is_seen_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise LookupError("a mistake of the search")

    monkeypatch.setattr(sought, "_of_zeros", fails)
    with pytest.raises(LookupError, match="a mistake of the search"):
        report(tmp_path)
    monkeypatch.delenv(RAISE_FAULTS)
    assert report(tmp_path).verdict is Verdict.UNKNOWN


def test_a_proof_whose_search_fails_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise LookupError("a mistake of the search")

    monkeypatch.setattr(sought, "_of_zeros", fails)
    monkeypatch.delenv(RAISE_FAULTS)
    found = last_block(tmp_path)
    assert found.verdict is Verdict.UNKNOWN
    assert has(found.reason, Cause.INTERNAL_FAULT) and "a mistake of the search" in str(found.reason)
    assert found.diagnostics[0].rule == "SV906"


def test_a_proof_whose_search_is_cut_off_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise OutOfTimeError(1.0)

    monkeypatch.setattr(sought, "_of_zeros", late)
    found = last_block(tmp_path)
    assert found.verdict is Verdict.UNKNOWN
    assert has(found.reason, Cause.TIMEOUT) and "contradicts the proof" in str(found.reason)
