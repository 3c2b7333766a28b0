"""CUDA sources with host code, which NVRTC does not take: compiled to PTX by nvcc, where there is one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from syncverify.base.source import InputError, Span

#: Ends the text of PTX that nvcc made.
MARK = "\n// compiled by nvcc\n"
#: Launches, host headers and the runtime's calls.
_HOST = re.compile(
    r"<<<|\bcuda(?:Malloc|Memcpy|FuncSetAttribute|DeviceSynchronize|LaunchKernel)|\bint\s+main\s*\("
)
_ERROR = re.compile(
    r"^(?P<file>[^\n(:]+)"
    r"(?:\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?|:(?P<at>\d+):\d+: (?:fatal )?error)"
    r": (?P<text>.*)$",
    re.M,
)
#: What host code often takes for granted, and kernels that it does not concern do not see.
_LENIENT = ("--expt-relaxed-constexpr", "--extended-lambda")
#: The environment variable that names the compiler by which nvcc reads sources.
HOST_COMPILER = "NVCC_CCBIN"
#: Folders of the toolkit's own headers, as line tables name them.
TOOLKIT = ("/targets/", "/include/cuda", "/include/crt/", "_intrinsics.hpp", "/include/sm_")


def has_host_code(source: str) -> bool:
    """Whether a source seems to hold more than device code."""
    return _HOST.search(source) is not None


def nvcc() -> str | None:
    """The compiler of the toolkit that the environment names, or the one on the path."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        found = shutil.which("nvcc", path=str(Path(os.environ.get(name) or "/none") / "bin"))
        if found is not None:
            return found
    return shutil.which("nvcc")


def compile_with(tool: str, file: str, options: Sequence[str], arch: str) -> str:
    """The PTX of a file; InputError at the place of the compiler's first error."""
    with TemporaryDirectory(prefix="syncverify-") as folder:
        out = Path(folder) / "kernel.ptx"
        command = [
            tool,
            "-ptx",
            f"-arch={arch}",
            "-lineinfo",
            "-w",
            *_LENIENT,
            *options,
            file,
            "-o",
            str(out),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and out.exists():
            return out.read_text() + MARK
    log = done.stderr or done.stdout
    first = _ERROR.search(log)
    if first is None:
        raise InputError(f"nvcc cannot compile it: {log.strip()[-400:]}", Span(file))
    more = "; use -I" if "No such file" in first["text"] else ""
    raise InputError(f"{first['text']} (nvcc){more}", Span(first["file"], int(first["line"] or first["at"])))
