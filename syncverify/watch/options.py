"""Options of a CUDA program, as ``check`` takes them."""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.frontends.cuda.options import CudaOptions


def cuda_options(options: Sequence[str]) -> CudaOptions:
    """Options of the form ``-IDIR``, ``-DNAME=VALUE`` and ``-std=c++17``."""
    std = next((x.removeprefix("-std=") for x in reversed(options) if x.startswith("-std=")), "c++17")
    return CudaOptions(
        include_paths=tuple(x[2:] for x in options if x.startswith("-I")),
        defines=tuple(x[2:] for x in options if x.startswith("-D")),
        std=std,
    )
