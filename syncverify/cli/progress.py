"""How far a run is, on a terminal's stderr: a line that is written over, and one for what is not proved."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

from syncverify.base.diagnostics import KernelReport, Verdict

_CLEAR = "\r\x1b[K"
_WIDTH = 100


class Progress:
    """Tells of each input of a run as soon as it is done; nothing where nobody looks, or for a single one."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.done = 0
        self.on = inputs > 1 and sys.stderr is not None and sys.stderr.isatty()

    def input_done(self, path: str, reports: Iterable[KernelReport]) -> None:
        """An input is done."""
        self.done += 1
        if not self.on:
            return
        lines = [f"{path}: {r.name}: {r.verdict}" for r in reports if r.verdict is not Verdict.PROVED]
        now = f"[{self.done}/{self.inputs}] {path}"
        self._write(_CLEAR + "".join(f"{x[:_WIDTH]}\n" for x in lines) + now[:_WIDTH])

    def over(self) -> None:
        """Takes the line away."""
        if self.on:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


__all__ = ["Progress"]
