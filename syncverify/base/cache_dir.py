"""The user's cache directory: files that appear whole, by renaming."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from syncverify.base.cache_root import cache_root


@dataclass(frozen=True, slots=True)
class Store:
    """A directory of files; one that cannot be written is a slow cache, not an error."""

    root: Path

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""
        try:
            return (self.root / name).read_bytes()
        except OSError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, for readers at once as a whole."""
        try:
            import tempfile  # only who writes needs it

            self.root.mkdir(parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(dir=self.root)
            with os.fdopen(handle, "wb") as f:
                f.write(data)
            os.replace(path, self.root / name)
        except OSError:
            return


def default_root() -> Path:
    """The user's cache directory, or ``$SYNCVERIFY_CACHE``."""
    return Path(cache_root())


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
