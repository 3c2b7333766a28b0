"""NVRTC fills bytes that nobody else holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = r"""
from syncverify import nvrtc
ptx, cubin = nvrtc.compile_kernel('extern "C" __global__ void k() {}', "k")
assert ptx.rstrip().endswith("}") and cubin.startswith(b"\x7fELF") and "\0" not in ptx
changed = [i for i in range(256) if bytes([i]) != bytes(bytearray([i]))]
print(changed, repr(bytes(bytearray([32])) + b"x"), eval('f"{1} {2}"'), list(b"\x20"), list(b""))
"""


def test_a_compilation_without_messages_changes_no_bytes_of_python() -> None:
    # in a process of its own: a shared object that is written to spoils everything that runs later
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] b' x' 1 2 [32] []"

HEADERS = """
import sys
from pathlib import Path
from syncverify import nvrtc
place = nvrtc.bundled_headers(Path(sys.argv[1]))
assert place is not None and (place / "cuda_fp16.h").is_file() and (place / "cccl" / "cuda" / "std").is_dir()
"""


def test_processes_that_unpack_headers_at_once_all_find_them(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    command = [sys.executable, "-c", HEADERS, str(root)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [p.communicate()[1] for p in running] == [""] * 4
    assert [p.returncode for p in running] == [0] * 4
    assert len(list(root.iterdir())) == 1  # nothing is left of those that came second
