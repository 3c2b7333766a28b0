"""What a pass is: a named, pure function from kernel to kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from syncverify.ir.nodes import Kernel


class Pass(Protocol):
    """A frozen dataclass whose fields are the pass's options."""

    @property
    def name(self) -> str:
        """Kebab-case; what ``--print-after`` takes."""

    def apply(self, kernel: Kernel) -> Kernel:
        """The rewritten kernel; the argument stays as it is."""


def run(
    kernel: Kernel, passes: Iterable[Pass], observe: Callable[[str, Kernel], None] | None = None
) -> Kernel:
    """Applies ``passes`` in order; ``observe`` sees the kernel after each."""
    for p in passes:
        kernel = p.apply(kernel)
        if observe is not None:
            observe(p.name, kernel)
    return kernel
