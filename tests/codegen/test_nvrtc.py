"""NVRTC fills bytes that nobody else holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from syncverify.base import nvrtc

CODE = r"""
from syncverify.base import nvrtc
ptx, cubin = nvrtc.compile_kernel('extern "C" __global__ void k() {}', "k")
assert ptx.rstrip().endswith("}") and cubin.startswith(b"\x7fELF") and "\0" not in ptx
changed = [i for i in range(256) if bytes([i]) != bytes(bytearray([i]))]
print(changed, repr(bytes(bytearray([32])) + b"x"), eval('f"{1} {2}"'), list(b"\x20"), list(b""))
"""


def test_a_compilation_without_messages_changes_no_bytes_of_python() -> None:
    # in a process of its own: a shared object that is written to spoils everything that runs later
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] b' x' 1 2 [32] []"


def test_headers_appear_whole_under_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = nvrtc._nvrtc()
    met: list[Path | None] = []
    unpacked: list[Path] = []

    class Slow:
        """NVRTC, with another process that looks for the headers in the meantime."""

        nvrtcResult = real.nvrtcResult

        def nvrtcInstallBundledHeaders(self, path: bytes, flags: int) -> Any:
            unpacked.append(Path(path.decode()))
            monkeypatch.setattr(nvrtc, "_nvrtc", lambda: real)
            met.append(nvrtc.bundled_headers(tmp_path))
            return real.nvrtcInstallBundledHeaders(path, flags)

    nvrtc.version()
    monkeypatch.setattr(nvrtc, "_nvrtc", Slow)
    place = nvrtc.bundled_headers(tmp_path)
    assert place is not None and met == [place]
    assert place not in unpacked  # NVRTC would empty it under whoever reads it
    assert (place / "cuda_fp16.h").is_file() and (place / "cccl" / "cuda" / "std").is_dir()
    assert list(tmp_path.iterdir()) == [place]  # nothing is left of the one that came second
