"""Fixes name instructions as PTX spells them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind
from syncverify.checker.explain.advice import _BY_MISTAKE, _BY_RULE
from syncverify.driver.files import check_source, read_source
from syncverify.driver.ptx.wording import _SPELLED, as_ptx
from syncverify.frontends.launch_facts import facts_for, read_facts
from tests.frontends.ptx.execute_helpers import module_text

CORPUS = Path(__file__).parents[3] / "corpus" / "ptx"


@pytest.mark.parametrize(
    ("short", "spelled"),
    [
        ("bulk.wait.read 0, then a barrier", "cp.async.bulk.wait_group.read 0, then a barrier"),
        ("wait (bulk.wait 0) before", "wait (cp.async.bulk.wait_group 0) before"),
        ("fence.proxy.async.shared_cta by all", "fence.proxy.async.shared::cta by all"),
        ("a wgmma.wait. Then", "a wgmma.wait_group. Then"),
        ("wgmma.wait_group 0", "wgmma.wait_group 0"),
        ("cp.async.bulk.wait_group 0", "cp.async.bulk.wait_group 0"),
        ("fence.proxy.async.shared::cta", "fence.proxy.async.shared::cta"),
    ],
)
def test_short_mnemonics_are_spelled_out_once(short: str, spelled: str) -> None:
    assert as_ptx(short) == spelled
    assert as_ptx(spelled) == spelled


def test_no_fix_of_the_checker_keeps_a_mnemonic_of_the_ir() -> None:
    only_in_the_ir = re.compile(
        r"shared_c|(?<!async\.)bulk\.|griddep\.|(?<!barrier\.)cluster\.(?:arrive|wait)\b"
    )
    for fix in (*_BY_RULE.values(), *_BY_MISTAKE.values()):
        assert not only_in_the_ir.search(as_ptx(fix)), fix
    assert any(short in fix for fix in _BY_RULE.values() for short in _SPELLED)


def test_reports_on_ptx_speak_ptx() -> None:
    path = CORPUS / "one_fence.bad.ptx"
    (report,) = check_source(read_source(path), facts=facts_for(path))
    fix = report.diagnostics[0].fix
    assert fix is not None and fix.startswith("fence.proxy.async.shared::cta ")


@pytest.mark.parametrize(
    ("register", "hint"),
    [
        ("ld.param.u32 %r1, [k_n];", r"param0 has to be a number: give one, by --param NAME=VALUE"),
        ("mov.u32 %r1, %ctaid.y;", r"ctaid\.y\d* has to be a number: give grid"),
    ],
)
def test_a_number_is_asked_for_as_it_is_given(tmp_path: Path, register: str, hint: str) -> None:
    body = f"{register} xor.b32 %r2, %r1, 5; setp.ne.u32 %p1, %r2, 3; @%p1 bra OUT; bar.sync 1, 64; OUT: ret;"
    (path := tmp_path / "k.ptx").write_text(module_text(body))
    (facts := tmp_path / "k.toml").write_text("[kernel.k]\nblock = [64]\n")
    (report,) = check_source(read_source(path), facts=read_facts(facts), scope=ScopeKind.ALL)
    assert re.search(hint, str(report.reason)), report.reason


@pytest.mark.parametrize(
    ("params", "load", "hint"),
    [
        (".param .u64 k_n", "[k_n]", 'write 0 = {ptr = "A"} under params'),
        (".param .align 8 .b8 k_n[16]", "[k_n+8]", 'write 0 = [{ptr = "A", at = 8}] under params'),
    ],
)
def test_a_pointer_is_asked_for_as_one(tmp_path: Path, params: str, load: str, hint: str) -> None:
    body = f"""ld.param.u64 %rd1, {load};
    red.release.gpu.global.add.u32 [%rd1], 1;
    WAIT: ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;
    ret;"""
    (path := tmp_path / "k.ptx").write_text(module_text(body, params=params))
    (facts := tmp_path / "k.toml").write_text("[kernel.k]\nblock = [64]\ngrid = [1]\n")
    (report,) = check_source(read_source(path), facts=read_facts(facts), scope=ScopeKind.ALL, infer=False)
    assert hint in str(report.reason)
