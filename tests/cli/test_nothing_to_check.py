"""A proved kernel without shared memory, barriers and asynchronous operations says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syncverify.cli.main import run
from syncverify.driver.reports.remarks import source_shares

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
PLAIN = """\
.visible .entry plain(.param .u64 p) .reqntid 32 {
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd0, [p];
  cvta.to.global.u64 %rd1, %rd0;
  ld.global.u32 %r0, [%rd1];
  st.global.u32 [%rd1], %r0;
  ret;
}
"""


def _rules(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, set[str]]:
    assert run(["check", str(path), "--format", "json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    return {k["name"]: {d["rule"] for d in k["diagnostics"]} for k in kernels}


@pytest.mark.parametrize(
    ("line", "empty"),
    [
        ("", True),
        ("add.u32 %r0, %r0, 1;", True),
        ("bar.sync 0;", False),
        ("fence.proxy.async;", False),
        ("shfl.sync.idx.b32 %r0, %r0, 0, 31, -1;", False),
        ("atom.global.add.u32 %r0, [%rd1], 1;", False),
        ("prefetch.global.L2 [%rd1];", True),
    ],
)
def test_ptx(tmp_path: Path, line: str, empty: bool, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(HEAD + PLAIN.replace("  ret;", f"  {line}\n  ret;"))
    Path(f"{path}.launch.toml").write_text('[kernel."*"]\ngrid = [1]\n')
    assert ("SV905" in _rules(path, capsys)["plain"]) == empty


def test_ir(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.syncir"
    path.write_text("kernel a {\n  let x = 1\n}\nkernel b {\n  bar.sync 0\n}\n")
    found = _rules(path, capsys)
    assert "SV905" in found["a"]
    assert "SV905" not in found["b"]


@pytest.mark.parametrize(
    ("source", "shares"),
    [
        (b"__shared__ int s[32]; s[0] = 1;", True),
        (b"__syncthreads();", True),
        (b"// __shared__\n/* __syncthreads() */ int x;", False),
        (b"int shared;", False),
    ],
)
def test_what_a_source_shares(source: bytes, shares: bool) -> None:
    assert source_shares(source) == shares
