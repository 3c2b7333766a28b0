"""CUDA sources: compiled to PTX by NVRTC, with every place on a line of the author's files.

What NVRTC does not take, host code, is left to nvcc where there is one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from syncverify.base import nvrtc
from syncverify.base.cache_dir import Store, default_root, digest
from syncverify.base.includes import header_places
from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.frontends.cuda.lines import author_lines
from syncverify.frontends.cuda.nvcc import HOST_COMPILER, TOOLKIT, compile_with, has_host_code, nvcc
from syncverify.frontends.cuda.options import DEFAULTS, CudaOptions
from syncverify.frontends.cuda.standard_headers import STANDARD_HEADERS

#: Part of every cache key: change it with anything that changes the text this module makes of NVRTC's.
_FORMAT = 3
_ERROR = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: (?P<text>.*)$", re.M)
_AT_END = re.compile(r"^At end of source: error(?: #\S+)?: (.*)$", re.M)
_NVFUSER = re.compile(r"\bnvfuser_index_t\b")
#: What nvcc has from the host's ``<cmath>`` in each source, and NVRTC has not.
_MACROS = {"INFINITY": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fffffff)"}
#: A source that nvFuser dumps whole says itself what its index type is.
_NVFUSER_OWN = re.compile(
    r"\b(?:using\s+nvfuser_index_t\s*=|typedef\b[^;]*\bnvfuser_index_t\s*;|define\s+nvfuser_index_t\b)"
)
_NO_FILE = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')


def compile_cuda(
    path: str | Path, options: CudaOptions = DEFAULTS, *, arch: str = nvrtc.ARCH, store: Store | None = None
) -> str:
    """The PTX of a CUDA file; its ``.loc`` directives name lines of the author's files only.

    Raises InputError: a file that cannot be read or compiled (with its line), an unknown prelude, no NVRTC.
    """
    source = _read(Path(path))
    headers = _prelude(options.prelude)
    flags = _flags(options, source, headers)
    store = store or Store(default_root())
    key = _key(Path(path), source, flags, headers, options.include_paths, arch)
    stored = store.read(f"{key}.ptx") if key else None
    if stored is not None:
        return stored.decode()
    try:
        compiled = _compile(source, str(path), flags, headers, arch, store)
    except InputError as e:
        if _NVFUSER.search(source) and not headers:
            raise InputError(
                f"{e.message}; a kernel that nvFuser printed needs --prelude nvfuser", e.span
            ) from None
        host_code = has_host_code(source)
        if headers or not (host_code or _NO_FILE.search(e.message)):
            raise
        return _by_nvcc(str(path), options, arch, store, key, e, host_code)
    unpacked = [_scratch().name] if _scratch.cache_info().currsize else []
    ptx = author_lines(compiled, str(path), foreign=(*headers, str(store.root), *unpacked))
    if key:
        store.write(f"{key}.ptx", ptx.encode())
    return ptx


def _by_nvcc(
    file: str,
    options: CudaOptions,
    arch: str,
    store: Store,
    key: str | None,
    why: InputError,
    host_code: bool,
) -> str:
    """The PTX of a file that NVRTC does not take; ``why`` is raised where there is no nvcc, or where it does
    not take it either, for the same reason or where NVRTC lacks neither host code nor a header."""
    tool = nvcc()
    if tool is None:
        raise why
    host = os.environ.get(HOST_COMPILER, "")
    where = key and digest(f"{key} {tool} {Path(tool).resolve().stat().st_mtime_ns} {host}")
    stored = store.read(f"{where}.ptx") if where else None
    if stored is not None:
        return stored.decode()
    flags = [f"-std={options.std}", *(f"-I{p}" for p in options.include_paths)]
    flags += [f"-D{define}" for define in options.defines]
    try:
        compiled = compile_with(tool, file, flags, arch)
    except InputError as other:
        # where both lack the header, the message of NVRTC says what to do
        of_a_header = _NO_FILE.search(str(why)) is not None and other.span.line != why.span.line
        if not (host_code or of_a_header):
            raise why from None
        raise
    ptx = author_lines(compiled, file, foreign=TOOLKIT)
    if where:
        store.write(f"{where}.ptx", ptx.encode())
    return ptx


def prelude_of(source: str) -> str | None:
    """The prelude that a source needs and does not bring: of a kernel as nvFuser prints or dumps it."""
    return "nvfuser" if _NVFUSER.search(source) and not _NVFUSER_OWN.search(source) else None


@cache
def prelude_names() -> tuple[str, ...]:
    """The preludes that ``CudaOptions.prelude`` may name."""
    found = files("syncverify.frontends.cuda").joinpath("prelude").iterdir()
    return tuple(sorted(f.name.removesuffix(".cuh") for f in found if f.name.endswith(".cuh")))


def _prelude(name: str | None) -> dict[str, str]:
    """The prelude's text by the name under which it is included."""
    if name is None:
        return {}
    if name not in prelude_names():
        raise InputError(f"no prelude {name!r}; known: {', '.join(prelude_names())}")
    text = files("syncverify.frontends.cuda").joinpath("prelude", f"{name}.cuh").read_text("utf-8")
    return {f"syncverify/{name}.cuh": text}


def _flags(options: CudaOptions, source: str, headers: Mapping[str, str]) -> list[str]:
    flags = [f"--std={options.std}", "-lineinfo", "-default-device"]
    flags += [f"--pre-include={name}" for name in headers]
    flags += [f"-I{path}" for path in options.include_paths]
    flags += [f"-D{define}" for define in options.defines]
    flags += [f"-D{name}={value}" for name, value in _MACROS.items() if _lacks(source, name, options.defines)]
    if headers:
        flags += [f"-DSYNCVERIFY_OWN_{name}" for name in own_utilities(source, "".join(headers.values()))]
    return flags


def _lacks(source: str, name: str, defines: Sequence[str]) -> bool:
    """Whether a source names a macro of ``<cmath>`` that it does not define itself."""
    own = any(x.partition("=")[0] == name for x in defines)
    defined = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", source, re.M)
    return not (own or defined) and re.search(rf"\b{name}\b", source) is not None


def own_utilities(source: str, prelude: str) -> Iterator[str]:
    """What the source defines itself of the prelude's parts that may be redefined (``SYNCVERIFY_OWN_*``).

    A generator prints some utilities with each kernel that needs them; the prelude's must then give way.
    """
    for name in dict.fromkeys(re.findall(r"\bSYNCVERIFY_OWN_(\w+)", prelude)):
        if re.search(rf"\bnamespace\s+{name}\s*\{{|\b(?:void|bool|struct|class)\s+{name}\s*[({{]", source):
            yield name


def _compile(
    source: str, file: str, flags: list[str], headers: Mapping[str, str], arch: str, store: Store
) -> str:
    try:
        compiled = nvrtc.compile_file(source, file, "ptx", flags, headers, arch)
    except nvrtc.CompileError as e:
        lacking = _NO_FILE.search(e.log)
        system = _system_headers(store) if lacking else []
        # where there is an nvcc, its compiler is the author's, and it has these headers
        standard = STANDARD_HEADERS if lacking and nvcc() is None else {}
        if not (system or (lacking and lacking[1] in standard)):
            raise _located(e, file) from None
        try:
            known = {**standard, **headers}
            compiled = nvrtc.compile_file(source, file, "ptx", [*flags, *system], known, arch)
        except nvrtc.CompileError as again:
            # host code needs nvcc, which the first message names
            raise _located(e if standard and has_host_code(source) else again, file) from None
    return compiled.code.rstrip(b"\0").decode()


def _located(error: nvrtc.CompileError, file: str) -> InputError:
    """The first error of the compiler's log, at its place."""
    found = list(_ERROR.finditer(error.log))
    at_end = _AT_END.search(error.log)
    if at_end and not found:
        return InputError(f"{at_end[1]}, at the end of the file", Span(file))
    if not found:
        return InputError(f"NVRTC cannot compile it: {error.log}", Span(file))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    first = found[0]
    if _NO_FILE.search(first["text"]):
        more += "; NVRTC compiles device code only: use -I, or hide host code behind #ifndef __CUDACC_RTC__"
        more += "; a file with host code is compiled by nvcc, if it is on the path"
    return InputError(first["text"] + more, Span(first["file"], int(first["line"])))


def _system_headers(store: Store) -> list[str]:
    """``-I`` options for CUDA's own headers: those that NVRTC holds, else those of the wheels beside it."""
    bundled = nvrtc.bundled_headers(store.root) or nvrtc.bundled_headers(Path(_scratch().name))
    places = [bundled] if bundled else _installed_headers()
    return [f"-I{d}" for p in places for d in (p, p / "cccl") if d.is_dir()]


@cache
def _scratch() -> TemporaryDirectory[str]:
    """A directory of this process, for want of a cache that can be written."""
    return TemporaryDirectory(prefix="syncverify-")


def _installed_headers() -> list[Path]:
    """Directories of the ``nvidia-cuda-runtime`` wheel's headers."""
    from importlib.util import find_spec

    spec = find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    return sorted({p.parent for r in roots for p in Path(r).glob("*/include/cuda_fp16.h")})


def _key(
    path: Path, source: str, flags: list[str], headers: Mapping[str, str], include: tuple[str, ...], arch: str
) -> str | None:
    """What the PTX depends on; None where that is not known (an include through a macro)."""
    places = header_places(path, source.encode("utf-8", "surrogateescape"), include)
    if places is None:
        return None
    parts = (
        _FORMAT,
        nvrtc.version(),
        arch,
        str(path),
        source,
        flags,
        dict(headers),
        sorted((str(place), text) for place, text in places.items() if text is not None),
    )
    return digest(repr(parts))


def _read(path: Path) -> str:
    return decode(read_bytes(path), str(path)).replace("\r\n", "\n")
