"""Files of PTX against the table of instructions: errors, what is not modelled, architectures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syncverify.cli.main import run

HEAD = ".version {version}\n.target {target}\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .f32 %f<9>;"
    " .shared .align 128 .b8 s[2048];"
)


def entry(body: str, name: str = "k") -> str:
    return f".visible .entry {name}()\n.reqntid 128, 1, 1\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"


def check(tmp_path: Path, text: str, *more: str, target: str = "sm_90a", version: str = "9.4",
          facts: str = "", capsys: Any = None) -> tuple[int, Any, str]:  # fmt: skip
    path = tmp_path / "k.ptx"
    path.write_text(HEAD.format(version=version, target=target) + text)
    (tmp_path / "k.ptx.launch.toml").write_text(
        f'[kernel."*"]\ngrid = [1, 1, 1]\ncluster = [1, 1, 1]\n{facts}'
    )
    status = run(["check", str(path), "--format", "json", *more])
    out = capsys.readouterr()
    return status, json.loads(out.out), out.err


RACE = "mov.u32 %r1, s;\nst.shared.u32 [%r1], 1;\nld.shared.u32 %r2, [%r1];\nst.shared.u32 [%r1+4], %r2;"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("st.shraed.f32 [%r1], %f1;", "unknown instruction st.shraed.f32: did you mean st.shared.f32?"),
        ("stx.shared.f32 [%r1], %f1;", "unknown instruction stx.shared.f32: did you mean "),
        ("stx.async.b32 [%r1], %r2;", "unknown instruction stx.async.b32"),
        ("bar.sync.aligned 0;", "did you mean bar.sync?"),
        ("barier.sync 0;", "did you mean barrier.sync?"),
        ("add.u32 %f1, %f2, %f3;", "add.u32 does not take these operands"),
        ("ld.shared.u32 %h1, [%r1];", "ld.shared.u32 does not take these operands"),
        ("fence.proxy.async.shared;", "unknown instruction fence.proxy.async.shared"),
        (
            "cp.async.bulk.shared::cta.global.bulk_group [%r1], [%rd1], 16;",
            "unknown instruction cp.async.bulk",
        ),
    ],
)
def test_what_no_isa_has_is_an_error(tmp_path: Path, capsys: Any, line: str, said: str) -> None:
    status, report, err = check(tmp_path, entry(line) + entry("bar.sync 0;", "other"), capsys=capsys)
    assert status == 2
    assert said in err
    assert "k.ptx:8" in err
    assert [(k["name"], k["verdict"]) for k in report["kernels"]] == [("other", "proved")]


def test_functions_that_are_called_count(tmp_path: Path, capsys: Any) -> None:
    helper = ".func helper()\n{\n.reg .b32 %r<9>;\nst.shraed.u32 [%r1], %r1;\nret;\n}\n"
    status, report, err = check(tmp_path, helper + entry("call helper;"), capsys=capsys)
    assert status == 2
    assert "k.ptx:7" in err
    assert not report["kernels"]
    status, report, err = check(tmp_path, helper + entry("bar.sync 0;"), capsys=capsys)
    assert status == 2
    assert [k["verdict"] for k in report["kernels"]] == ["proved"]


@pytest.mark.parametrize(
    ("line", "target", "said"),
    [
        (
            "wgmma.fence.sync.aligned;",
            "sm_100a",
            "wgmma.fence.sync.aligned needs .target sm_90a, the file has sm_100a",
        ),
        ("wgmma.fence.sync.aligned;", "sm_90", "needs .target sm_90a"),
        ("tcgen05.wait::ld.sync.aligned;", "sm_90a", "needs .target sm_100f or sm_110f"),
        ("tcgen05.wait::ld.sync.aligned;", "sm_120a", "needs .target sm_100f or sm_110f"),
        ("st.bulk.shared::cta [%r1], %rd1, 0;", "sm_90a", "needs .target sm_100 or later"),
        ("mbarrier.try_wait.shared.b64 %p1, [%r1], %rd1;", "sm_80", "needs .target sm_90 or later"),
    ],
)
def test_what_the_architecture_lacks_is_an_error(
    tmp_path: Path, capsys: Any, line: str, target: str, said: str
) -> None:
    status, _, err = check(tmp_path, entry(line), target=target, capsys=capsys)
    assert status == 2
    assert said in err


def test_what_the_version_lacks_is_an_error(tmp_path: Path, capsys: Any) -> None:
    status, _, err = check(tmp_path, entry("bar.sync 0;"), target="sm_120a", version="8.0", capsys=capsys)
    assert status == 2
    assert ".target sm_120a needs .version 8.7 or later, the file has 8.0" in err
    line = "mov.u32 %r1, s;\nmbarrier.init.layout::v0.shared.b64 [%r1], 1;"
    status, _, err = check(tmp_path, entry(line), version="8.0", capsys=capsys)
    assert status == 2
    assert "needs .version 9.3 or later" in err


@pytest.mark.parametrize(
    ("line", "target", "said"),
    [
        ("tcgen05.wait::ld.sync.aligned;", "sm_100a", "tensor memory is not modelled"),
        (
            "mov.u32 %r1, s;\nmbarrier.init.layout::v1.shared.b64 [%r1], 1;",
            "sm_90a",
            "the layout v1 of an mbarrier",
        ),
        (
            "mbarrier.try_wait.parity.phase_type::conditional.shared.b64 %p1, [%r1], 0;",
            "sm_90a",
            "conditional phases of an mbarrier",
        ),
        ("stacksave.u64 %rd1;", "sm_90a", "memory on the stack is not modelled"),
    ],
)
def test_what_is_not_modelled_is_unknown_with_its_line(
    tmp_path: Path, capsys: Any, line: str, target: str, said: str
) -> None:
    status, report, _ = check(tmp_path, entry(line), target=target, capsys=capsys)
    assert status == 3
    assert said in report["kernels"][0]["reason"]
    assert "line " in report["kernels"][0]["reason"]


@pytest.mark.parametrize(
    "target", ["sm_70", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103f", "sm_120"]
)
def test_kernels_are_checked_by_the_rules_of_their_architecture(
    tmp_path: Path, capsys: Any, target: str
) -> None:
    status, report, _ = check(tmp_path, entry("bar.sync 0;"), target=target, capsys=capsys)
    assert (status, report["kernels"][0]["arch"]) == (0, target)
    status, report, _ = check(tmp_path, entry(RACE), target=target, capsys=capsys)
    assert (status, report["kernels"][0]["verdict"]) == (1, "refuted")


@pytest.mark.parametrize("target", ["sm_60", "sm_135", "sm_90f"])
def test_an_architecture_without_rules_is_unknown(tmp_path: Path, capsys: Any, target: str) -> None:
    status, report, _ = check(tmp_path, entry("bar.sync 0;"), target=target, capsys=capsys)
    assert status == 3
    assert target in report["kernels"][0]["reason"]
    assert report["kernels"][0]["arch"] == target


@pytest.mark.parametrize(
    ("target", "fits"), [("sm_90a", True), ("sm_100a", True), ("sm_120a", False), ("sm_80", False)]
)
def test_shared_memory_is_that_of_the_architecture(
    tmp_path: Path, capsys: Any, target: str, fits: bool
) -> None:
    facts = "dynamic_smem = 204800\n"
    status, _, err = check(tmp_path, entry("bar.sync 0;"), target=target, facts=facts, capsys=capsys)
    assert status == (0 if fits else 2)
    assert fits or "dynamic_smem: 204800 is not from 0 to" in err


def test_modifiers_come_in_any_order(tmp_path: Path, capsys: Any) -> None:
    body = RACE.replace("st.shared.u32", "st.u32.volatile.shared").replace("ld.shared.u32", "ld.u32.shared")
    status, report, _ = check(tmp_path, entry(body), capsys=capsys)
    assert (status, report["kernels"][0]["verdict"]) == (1, "refuted")


UNFENCED = """
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 4;
mov.u32 %r3, s;
add.u32 %r4, %r3, %r2;
cvt.u64.u32 %rd1, %r2;
mov.u64 %rd2, g;
add.u64 %rd3, %rd2, %rd1;
cp.async.ca.shared.global [%r4], [%rd3], 16;
cp.async.wait_all;
FENCE
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra done;
mov.u64 %rd4, h;
cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r3], 2048;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
done:
"""


@pytest.mark.parametrize(
    ("target", "policy", "fence", "verdict"),
    [
        ("sm_90a", "practical", "", "proved"),
        ("sm_90a", "strict", "", "refuted"),
        ("sm_120a", "practical", "", "proved"),
        ("sm_100a", "practical", "", "refuted"),
        ("sm_103a", "practical", "", "refuted"),
        ("sm_100a", "practical", "fence.proxy.async.shared::cta;", "proved"),
    ],
)
def test_cp_async_before_an_asynchronous_reader(
    tmp_path: Path, capsys: Any, target: str, policy: str, fence: str, verdict: str
) -> None:
    """Rulebook K6: without a proxy fence it failed on sm_100, and is what ships on sm_90."""
    memory = ".global .align 16 .b8 g[2048];\n.global .align 16 .b8 h[2048];\n"
    text = memory + entry(UNFENCED.replace("FENCE", fence))
    _, report, _ = check(tmp_path, text, "--policy", policy, target=target, capsys=capsys)
    assert report["kernels"][0]["verdict"] == verdict, report["kernels"][0]
