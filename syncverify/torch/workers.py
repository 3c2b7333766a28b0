"""The processes in which Inductor compiles Triton's kernels: begun early, with one assembler for all.

Inductor begins them when a graph comes to its own backend. Until they are there, its main process compiles
kernels itself, one after the other.

Triton keeps a kernel by the version of ptxas, among others. Inductor's processes use the one that came with
torch. The main process asks for the version first and takes that ptxas later: it looks for kernels under keys
by which nobody has kept them. Example: kernels whose names have over 150 characters are in no bundle of
Inductor's; T5 has two. Its second process compiled both again, for 2.5 s.

Inductor itself has the main process take that ptxas with the first kernel that it compiles there. A path that
the user gave stays. Whatever fails here costs time alone, and fails no compilation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch

log = logging.getLogger("syncverify.torch")

#: Seconds that are waited for the processes, at most.
_PATIENCE = 10.0


def begin(device: torch.device) -> None:
    """Begins the processes, unless they are there or kernels of this device need none."""
    if device.type != "cuda":
        return
    one_assembler()
    with _harmless("are not begun early"):
        from torch._inductor.async_compile import maybe_warm_pool

        maybe_warm_pool()


def there(device: torch.device) -> bool:
    """Whether the processes compile, or nothing waits for them."""
    found = True
    if device.type == "cuda" and not _wait.cache_info().currsize:
        with _harmless("are not asked whether they are there"):
            from torch._inductor.async_compile import AsyncCompile, get_compile_threads

            found = get_compile_threads() <= 1 or bool(AsyncCompile.use_process_pool())
    return found


def wait(device: torch.device) -> None:
    """Returns when the processes compile, or after a while; at once where they were waited for before."""
    if device.type == "cuda":
        _wait()


@lru_cache(maxsize=1)
def _wait() -> None:
    with _harmless("did not come in time"):
        from torch._inductor.async_compile import AsyncCompile

        ready: Any = getattr(AsyncCompile, "wait_pool_ready", None)
        if ready is not None:
            ready(timeout=_PATIENCE)


@lru_cache(maxsize=1)
def one_assembler() -> None:
    """Has this process find the kernels that Inductor's processes compile."""
    with _harmless("may have another assembler"):
        from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path
        from triton.backends.nvidia.compiler import get_ptxas_version

        _set_triton_ptxas_path()
        get_ptxas_version.cache_clear()


@contextmanager
def _harmless(what: str) -> Iterator[None]:
    """Another release of torch or Triton, too few processes, an assembler that does not run: no failure."""
    try:
        yield
    except Exception as e:  # whatever they raise
        log.debug("Inductor's processes %s: %s: %s", what, type(e).__name__, e)


__all__ = ["begin", "one_assembler", "there", "wait"]
