"""Compiled kernels on disk, each with the verdicts that allow its use."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Cache:
    """A directory of ``KEY.cubin`` and ``KEY.VALUES.json``; files appear whole, by renaming."""

    root: Path

    @staticmethod
    def default() -> Cache:
        """The user's cache directory, or ``$SYNCVERIFY_CACHE``."""
        given = os.environ.get("SYNCVERIFY_CACHE")
        if given:
            return Cache(Path(given))
        from platformdirs import user_cache_dir

        return Cache(Path(user_cache_dir("syncverify")))

    def cubin(self, key: str) -> bytes | None:
        return self._read(f"{key}.cubin")

    def store_cubin(self, key: str, code: bytes) -> None:
        self._write(f"{key}.cubin", code)

    def verdict(self, key: str, values: Mapping[str, int]) -> dict[str, Any] | None:
        """The stored verdict for exactly these launch values."""
        data = self._read(f"{key}.{digest(_canonical(values))[:16]}.json")
        if data is None:
            return None
        try:
            found = json.loads(data)
        except ValueError:
            return None
        return found if isinstance(found, dict) and found.get("values") == dict(values) else None

    def store_verdict(self, key: str, values: Mapping[str, int], verdict: Mapping[str, Any]) -> None:
        content = json.dumps({**verdict, "values": dict(values)}, sort_keys=True)
        self._write(f"{key}.{digest(_canonical(values))[:16]}.json", content.encode())

    def _read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except OSError:
            return None

    def _write(self, name: str, data: bytes) -> None:
        # a cache that cannot be written is a slow cache, not an error
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(dir=self.root)
            with os.fdopen(handle, "wb") as f:
                f.write(data)
            os.replace(path, self.root / name)
        except OSError:
            return


@lru_cache(maxsize=1)
def tool_fingerprint() -> str:
    """A hash of the tool's own sources: another checker, another verdict."""
    package = Path(__file__).resolve().parent.parent
    hasher = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".lark", ".cuh"):
            hasher.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(values: Mapping[str, int]) -> str:
    return json.dumps(dict(values), sort_keys=True)
