"""Makes the archive of proofs that comes with the package (``codegen/shipped.py``): proves, and packs.

The archive is made of the sources that are packed with it: with any other it is not read. Example: a release
proves the products of common models and packs some hundred files; whoever installs it proves none of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from syncverify.base.nvrtc import version as nvrtc_version
from syncverify.codegen.shipped import pack
from syncverify.gate.ahead import Ahead, prove_ahead

#: What an archive holds of a cache directory: code, proofs, kernels before they are compiled, and answers.
KINDS = (".ptx", ".cubin", ".json", ".kernel", ".ahead", ".late")


def ship(kernels: Sequence[Ahead], place: Path, jobs: int | None = None, seconds: float = 0.0) -> int:
    """Proves kernels in an empty cache directory, ``jobs`` at a time, and packs what that leaves.

    Returns the number of files. A kernel that is not proved is left out; the log says why. ``seconds``: what
    each proof may take here, where that is more than a compilation gives it. Example: a product with a gelu
    takes 20 s, and a compilation gives it 15; with the archive it is there at once.
    """
    with tempfile.TemporaryDirectory() as folder:
        with _caching(Path(folder), place.with_suffix(".none")):
            longer = [replace(one, proof_seconds=seconds) for one in kernels if seconds > one.proof_seconds]
            prove_ahead(longer, jobs)
            prove_ahead(kernels, jobs)  # what is proved by now is found, and answered as it will be asked for
        files = [f for f in Path(folder).iterdir() if f.is_file() and f.suffix in KINDS]
        return pack(files, place, nvrtc_version())


@contextmanager
def _caching(folder: Path, none: Path) -> Iterator[None]:
    """The cache directory of this process and of those that it begins; and no archive that was there."""
    wanted = {"SYNCVERIFY_CACHE": str(folder), "SYNCVERIFY_SHIPPED": str(none)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


__all__ = ["ship"]
