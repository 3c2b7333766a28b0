"""Caught kernels as inputs of ``check``: a file and its launch file for each, in one folder.

Several processes write there at once: files appear whole, and equal kernels have equal names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from syncverify.watch.caught import Caught, launch_file


@dataclass(frozen=True, slots=True)
class Folder:
    """Writes what is caught. Raises OSError where that is not possible."""

    path: Path

    def __call__(self, caught: Caught) -> None:
        file = self.path / f"{caught.stem}.{caught.kind}"
        if file.exists():
            return
        self._write(self.path / f"{file.name}.launch.toml", launch_file(caught))
        if caught.options:
            self._write(self.path / f"{file.name}.options", "\n".join(caught.options) + "\n")
        self._write(file, caught.text)  # last: a file that is there has its facts

    def _write(self, file: Path, text: str) -> None:
        made = file.with_name(f".{file.name}.{os.getpid()}")
        made.write_text(text, "utf-8")
        made.replace(file)
