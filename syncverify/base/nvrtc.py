"""CUDA source to PTX and cubin through NVRTC, the one place that talks to it; needs no driver and no GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from syncverify.base.source import InputError

ARCH = "sm_90a"


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compilation: what was asked for, and the compiler's messages."""

    code: bytes
    log: str


class CompileError(InputError):
    """The source is not valid CUDA; ``log`` holds the compiler's messages."""

    def __init__(self, name: str, log: str) -> None:
        super().__init__(f"NVRTC cannot compile {name}:\n{log}")
        self.log = log


def compile_source(source: str, name: str, target: str = "cubin") -> Compiled:
    """Compiles one kernel to ``cubin`` or ``ptx``; InputError with the compiler's messages if it cannot."""
    return compile_file(source, f"{name}.cu", target, ("--std=c++17", "-default-device"))


def compile_file(
    source: str,
    file: str,
    target: str,
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    arch: str = ARCH,
) -> Compiled:
    """Compiles a source under the name ``file``, which messages and line tables show.

    ``headers``: texts by the name under which the source includes them. Raises CompileError, or
    InputError where NVRTC is not installed.
    """
    with _compiled(source, file, target, options, headers, arch) as (program, log):
        return Compiled(_output(program, target), log)


def compile_kernel(source: str, name: str) -> tuple[str, bytes]:
    """PTX and cubin of one and the same compilation; InputError with the compiler's messages."""
    options = ("--std=c++17", "-default-device")
    with _compiled(source, f"{name}.cu", "cubin", options, None, ARCH) as (program, _):
        return _output(program, "ptx").rstrip(b"\0").decode(), _output(program, "cubin")


@contextmanager
def _compiled(
    source: str,
    file: str,
    target: str,
    options: Sequence[str],
    headers: Mapping[str, str] | None,
    arch: str,
) -> Iterator[tuple[Any, str]]:
    """A compiled program, and the compiler's messages."""
    nvrtc = _nvrtc()
    target_arch = arch if target == "cubin" else arch.replace("sm_", "compute_")
    flags = [o.encode() for o in (f"--gpu-architecture={target_arch}", *options)]
    names = [name.encode() for name in headers or {}]
    texts = [text.encode() for text in (headers or {}).values()]
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), file.encode(), len(names), texts, names))
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        size = _checked(nvrtc.nvrtcGetProgramLogSize(program))
        buffer = _room(size)
        nvrtc.nvrtcGetProgramLog(program, buffer)
        log = buffer.rstrip(b"\0").decode(errors="replace").strip()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(file.removesuffix(".cu"), log)
        yield program, log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _output(program: Any, target: str) -> bytes:
    nvrtc = _nvrtc()
    cubin = (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    size_of, get = cubin if target == "cubin" else (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    size = _checked(size_of(program))
    code = _room(size)
    _checked(get(program, code))
    return code[:size]


def _room(size: int) -> bytes:
    """Bytes for NVRTC to fill. Python shares bytes objects of lengths 0 and 1, so none of those."""
    return bytes(size + 2)


def bundled_headers(root: Path) -> Path | None:
    """CUDA's own headers (``cuda_fp16.h``, ``cuda/std``), which newer NVRTCs hold, unpacked under ``root``.

    None if this NVRTC has none, or if they cannot be written there.
    """
    nvrtc = _nvrtc()
    if not hasattr(nvrtc, "nvrtcInstallBundledHeaders"):
        return None
    place = root / f"headers-of-nvrtc-{version()}"
    if place.is_dir():
        return place
    try:
        root.mkdir(parents=True, exist_ok=True)
        # unpacked apart and renamed, so that no other process meets a part of them
        with TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as apart:
            whole = Path(apart) / "headers"
            if nvrtc.nvrtcInstallBundledHeaders(str(whole).encode(), 0)[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
                return None
            with suppress(OSError):  # another process was faster
                whole.rename(place)
    except (OSError, RuntimeError):
        return None
    return place if place.is_dir() else None


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
        raise InputError(f"NVRTC is not installed (pip install '.[gpu]' brings it): {e}") from None
    return nvrtc


def _checked(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise InputError(f"NVRTC failed: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)
