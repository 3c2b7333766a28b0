"""Where the real kernels lie: outside the repository, made at test time and kept."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

VARIABLE = "SYNCVERIFY_REAL_CACHE"


def cache_dir() -> Path:
    given = os.environ.get(VARIABLE)
    return Path(given) if given else Path(platformdirs.user_cache_dir("syncverify")) / "real"


@dataclass(frozen=True)
class Kernel:
    """One PTX file of the cache and what its generator said of it."""

    name: str
    family: str
    generator: str
    lines: int
    covers: tuple[str, ...]
    ptx: Path

    @property
    def label(self) -> str:
        return f"{self.family}/{self.name}"

    def facts(self, scope: str) -> Path:
        """The launch file for `exact` sizes, for `all` sizes, or with the `block` and cluster alone."""
        suffix = {"exact": "ptx.launch", "all": "all", "block": "block"}[scope]
        return self.ptx.with_name(f"{self.name}.{suffix}.toml")


def kernels(root: Path | None = None) -> list[Kernel]:
    """Every kernel of the cache, by family and name."""
    found = []
    for index in sorted((root or cache_dir()).glob("*/index.json")):
        for row in json.loads(index.read_text()).get("kernels", []):
            found.append(
                Kernel(
                    name=row["kernel"],
                    family=row["family"],
                    generator=row["generator"],
                    lines=row["lines"],
                    covers=tuple(row["covers"]),
                    ptx=index.parent / f"{row['kernel']}.ptx",
                )
            )
    return sorted(found, key=lambda k: (k.family, k.name))
