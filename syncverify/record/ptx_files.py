"""The PTX that loaded code was made of."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from getpass import getuser
from pathlib import Path

from syncverify.record.launches import Image


def usual_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where Triton and torch.compile keep what they compile."""
    yield Path.home() / ".triton" / "cache"
    yield Path(tempfile.gettempdir(), f"torchinductor_{getuser()}")
    yield from (
        Path(environ[name]) for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR") if name in environ
    )


@dataclass(slots=True)
class PtxFiles:
    """PTX files in some folders, by the cubin beside them and by the entries they have."""

    folders: list[Path]
    _by_digest: dict[str, Path] | None = field(default=None)  # digest of a cubin -> the PTX of its name
    _all: list[Path] = field(default_factory=list)
    _texts: dict[Path, str] = field(default_factory=dict)

    def of(self, kernel: str, image: Image | None) -> tuple[str | None, str]:
        """The PTX of a kernel; or None and why. The code itself if it is PTX; else what lies beside a file
        with the same cubin; else the one text in the folders that has such an entry."""
        if image is not None and (text := image.ptx) is not None:
            return text, ""
        stored = self._read()
        if image is not None and (path := stored.get(_digest(image.data))) is not None:
            return self._text(path), ""
        texts = {t for path in self._all if has_entry(t := self._text(path), kernel)}
        if len(texts) == 1:
            return texts.pop(), ""
        if texts:
            return None, f"{len(texts)} different PTX files have an entry of that name"
        return None, "no PTX was found"

    def _read(self) -> dict[str, Path]:
        if self._by_digest is None:
            self._by_digest = {}
            for path in dict.fromkeys(_files(self.folders)):
                if path.suffix == ".ptx":
                    self._all.append(path)
                elif (ptx := path.with_suffix(".ptx")).exists():
                    self._by_digest[_digest(path.read_bytes())] = ptx
        return self._by_digest

    def _text(self, path: Path) -> str:
        if path not in self._texts:
            self._texts[path] = path.read_text(errors="replace")
        return self._texts[path]


def has_entry(text: str, kernel: str) -> bool:
    """Whether a PTX text has an entry of a name."""
    at = text.find(f".entry {kernel}")
    return at >= 0 and text[at + 7 + len(kernel) :].lstrip()[:1] in ("(", "{", ".")


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for root, _, names in os.walk(folder):
            yield from (Path(root, n) for n in names if n.endswith((".ptx", ".cubin")))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data.rstrip(b"\0")).hexdigest()


__all__ = ["PtxFiles", "has_entry", "usual_folders"]
