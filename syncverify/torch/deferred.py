"""Inductor's kernels are compiled by processes of its own. Who times several programs waits for them late.

A program's last step of compilation waits for its Triton kernels, some hundred milliseconds. Example: five
contexts are compiled one after the other. With ``deferred`` the processes work on the kernels of the first
while Inductor writes the programs of the others; the first call of each waits for what is still missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: One at a time takes the place of Inductor's function.
_ONE = threading.Lock()


class Pending:
    """What a program still waits for before its first call."""

    def __init__(self) -> None:
        self._waits: list[Callable[[], None]] = []

    def add(self, wait: Callable[[], None]) -> None:
        self._waits.append(wait)

    def __call__(self) -> None:
        """Waits; what a kernel's compilation raises is raised here."""
        while self._waits:
            self._waits[-1]()
            self._waits.pop()


@contextmanager
def deferred() -> Iterator[Pending]:
    """Programs that this thread compiles inside do not wait for their kernels: what is found does.

    Where Inductor runs kernels while it compiles, nothing is deferred, nor while another thread defers.
    """
    from torch._inductor.async_compile import AsyncCompile

    pending = Pending()
    plain: Any = getattr(AsyncCompile, "wait", None)
    if plain is None or _runs_kernels() or not _ONE.acquire(blocking=False):
        yield pending
        return
    own = threading.get_ident()

    def wait(self: Any, scope: dict[str, Any]) -> None:
        if threading.get_ident() == own:
            pending.add(lambda: plain(self, scope))
        else:
            plain(self, scope)

    AsyncCompile.wait = wait
    try:
        yield pending
    finally:
        AsyncCompile.wait = plain
        _ONE.release()


def _runs_kernels() -> bool:
    """Whether Inductor times kernels while it compiles."""
    from torch._inductor import config

    names = (
        "max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "benchmark_kernel", "benchmark_fusion",
        "benchmark_combo_kernel", "cpp_wrapper", "coordinate_descent_tuning",
    )  # fmt: skip
    return any(getattr(config, name, False) for name in names)


__all__ = ["Pending", "deferred"]
