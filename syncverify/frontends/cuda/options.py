"""How CUDA sources are compiled; apart from the compiler, which a result from the cache does not need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """How a ``.cu`` file is compiled. ``prelude`` names a header of ``prelude_names()``."""

    include_paths: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()  # NAME or NAME=VALUE
    std: str = "c++17"
    prelude: str | None = None


DEFAULTS = CudaOptions()
