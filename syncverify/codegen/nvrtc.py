"""CUDA source to PTX and cubin through NVRTC; needs no driver and no GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from syncverify.source import InputError

ARCH = "sm_90a"


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compilation: what was asked for, and the compiler's messages."""

    code: bytes
    log: str


def compile_source(source: str, name: str, target: str = "cubin") -> Compiled:
    """Compiles one kernel to ``cubin`` or ``ptx``; InputError with the compiler's messages if it cannot."""
    nvrtc = _nvrtc()
    arch = ARCH if target == "cubin" else ARCH.replace("sm_", "compute_")
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"-default-device"]
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), f"{name}.cu".encode(), 0, [], []))
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        size = _checked(nvrtc.nvrtcGetProgramLogSize(program))
        buffer = b" " * size
        nvrtc.nvrtcGetProgramLog(program, buffer)
        log = buffer.rstrip(b"\0 ").decode(errors="replace").strip()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise InputError(f"NVRTC cannot compile {name}:\n{log}")
        cubin = (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        size_of, get = cubin if target == "cubin" else (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
        code = b" " * _checked(size_of(program))
        _checked(get(program, code))
        return Compiled(code, log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@lru_cache(maxsize=1)
def version() -> str:
    """NVRTC's version, part of every cache key."""
    major, minor = _checked(_nvrtc().nvrtcVersion())
    return f"{major}.{minor}"


@lru_cache(maxsize=1)
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as e:
        raise InputError(f"NVRTC is not installed (pip install 'syncverify[gpu]'): {e}") from None
    return nvrtc


def _checked(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise InputError(f"NVRTC failed: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)
