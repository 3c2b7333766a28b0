"""NVRTC fills bytes that nobody else holds."""

from __future__ import annotations

import subprocess
import sys

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
