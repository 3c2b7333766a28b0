"""CUDA to PTX by the toolkit's nvcc, for generators that print CUDA."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


def nvcc() -> str:
    """The compiler; raises `RuntimeError` where the machine has none."""
    found = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if found is None:
        raise RuntimeError("nvcc is not on PATH")
    return found


def to_ptx(source: str, cu: Path, options: Sequence[str] = ()) -> str:
    """PTX for sm_90a of `source`, which is kept as `cu`; raises `RuntimeError` with the first error line."""
    cu.write_text(source)
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder, "kernel.ptx")
        command = [nvcc(), "-arch=sm_90a", "-std=c++17", "-ptx", *options, "-o", str(ptx), str(cu)]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: os.nice(5))
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr[-200:]]
            raise RuntimeError(errors[0])
        return ptx.read_text()


def param_kinds(ptx: str, entry: str) -> list[tuple[str, int]]:
    """Type and size in bytes of each parameter of an entry: `("u64", 8)`, `("b8", 128)`."""
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((.*?)\)", ptx, re.S)
    if head is None:
        raise RuntimeError(f"no entry {entry}")
    kinds = []
    for param in re.findall(r"\.param ([^,]*)", head[1]):
        type_ = re.search(r"\.([bsuf]\d+)", param)
        count = re.search(r"\[(\d+)\]", param)
        assert type_ is not None
        bits = int(type_[1][1:])
        kinds.append((type_[1], bits // 8 * int(count[1]) if count else bits // 8))
    return kinds
