"""Proofs that come with the package: kernels of common models, compiled and proved when it was built.

``shipped.zip`` beside this module, or ``$SYNCVERIFY_SHIPPED``, holds files of a cache directory
(``cache.py``) and ``manifest.json``: the fingerprint of the sources that proved them, the version of NVRTC
that compiled them, and the SHA-256 of each file. Of other sources, or with another hash, a file is not there:
the kernel is proved again. ``gate/shipping.py`` makes such an archive. A checkout has none.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from syncverify.codegen.fingerprint import tool_fingerprint

MANIFEST = "manifest.json"
PLACE = Path(__file__).with_name("shipped.zip")
#: What reading an archive raises whose bytes are not those that were written.
_DAMAGED = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, lzma.LZMAError)


@dataclass(frozen=True)
class Shipped:
    """The files of one archive, by their names; ``compiler`` is the version of NVRTC that they are of.

    ``archive`` stays open: to open it reads the names of all its files, and a kernel asks for several.
    """

    place: Path
    compiler: str
    hashes: Mapping[str, str]
    archive: zipfile.ZipFile = field(compare=False, repr=False)

    def __contains__(self, name: str) -> bool:
        return name in self.hashes

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is none, or if it is not the one that was packed."""
        if name not in self.hashes:
            return None
        try:
            data = self.archive.read(name)
        except _DAMAGED:
            return None
        return data if hashlib.sha256(data).hexdigest() == self.hashes[name] else None


def shipped() -> Shipped | None:
    """What came with this package, where these sources proved it."""
    return _opened(Path(os.environ.get("SYNCVERIFY_SHIPPED") or PLACE))


@lru_cache(maxsize=4)
def _opened(place: Path) -> Shipped | None:
    try:
        archive = zipfile.ZipFile(place)
        found = json.loads(archive.read(MANIFEST))
        hashes = {str(name): str(code) for name, code in found["files"].items()}
        made = Shipped(place, str(found["compiler"]), hashes, archive)
    except (*_DAMAGED, TypeError, AttributeError):
        return None
    return made if found["sources"] == tool_fingerprint() else None


if hasattr(os, "register_at_fork"):  # two processes would read at one place of one open file
    os.register_at_fork(after_in_child=_opened.cache_clear)


def from_package(name: str) -> bytes | None:
    """A file that came with the package, or None."""
    found = shipped()
    return None if found is None else found.read(name)


def pack(files: Iterable[Path], place: Path, compiler: str) -> int:
    """Writes an archive of files that these sources made; how many there are."""
    contents = {file.name: file.read_bytes() for file in sorted(files)}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    about = {"sources": tool_fingerprint(), "compiler": compiler, "files": hashes}
    with zipfile.ZipFile(place, "w", zipfile.ZIP_LZMA) as archive:
        for name, data in {MANIFEST: json.dumps(about).encode(), **contents}.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_LZMA)
    return len(contents)


__all__ = ["MANIFEST", "PLACE", "Shipped", "from_package", "pack", "shipped"]
