"""Faults of a judge: left out for users, seen by tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, Verdict
from syncverify.base.faults import RAISE_FAULTS
from syncverify.driver import sought
from syncverify.driver.files import check_source, read_source
from tests.frontends.ptx.execute_helpers import module_text

BY_DATA = """ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 0;
@%p1 bra E; bar.sync 0; bra F; E: bar.sync 1; F: ret;"""


def report(tmp_path: Path) -> KernelReport:
    path = tmp_path / "k.ptx"
    path.write_text(module_text(BY_DATA, ".param .u64 p", bounds=".reqntid 64"))
    (found,) = check_source(read_source(path), repairs=False)
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
