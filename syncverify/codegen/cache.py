"""Compiled kernels on disk, each with the proofs that allow its use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from syncverify.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.source import Span
from syncverify.store import Store, default_root, digest


@dataclass(frozen=True, slots=True)
class Cache(Store):
    """A directory of ``KEY.cubin`` and ``KEY.VALUES.json``."""

    @staticmethod
    def default() -> Cache:
        """The user's cache directory."""
        return Cache(default_root())

    def cubin(self, key: str) -> bytes | None:
        return self.read(f"{key}.cubin")

    def store_cubin(self, key: str, code: bytes) -> None:
        self.write(f"{key}.cubin", code)

    def proof(self, key: str, values: Mapping[str, int]) -> KernelReport | None:
        """The stored proof for exactly these launch values, if there is one."""
        data = self.read(_proof_name(key, values))
        if data is None:
            return None
        try:
            report = _restored(json.loads(data))
        except (ValueError, KeyError, TypeError):
            return None
        return report if report.verdict is Verdict.PROVED and report.scope.values == dict(values) else None

    def store_proof(self, key: str, values: Mapping[str, int], report: KernelReport) -> None:
        """Remembers a proof; anything but ``proved`` is not stored."""
        if report.verdict is Verdict.PROVED:
            self.write(_proof_name(key, values), json.dumps(asdict(report), sort_keys=True).encode())


@lru_cache(maxsize=1)
def tool_fingerprint() -> str:
    """A hash of the tool's own sources: another checker, another verdict."""
    package = Path(__file__).resolve().parent.parent
    hasher = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.suffix in (".py", ".lark", ".cuh"):
            hasher.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()


def _proof_name(key: str, values: Mapping[str, int]) -> str:
    return f"{key}.{digest(json.dumps(dict(values), sort_keys=True))[:16]}.json"


def _restored(stored: dict[str, Any]) -> KernelReport:
    """The report that ``asdict`` made ``stored`` of; a proof has no witness and no labels to restore."""
    diagnostics = tuple(
        Diagnostic(
            d["rule"], Severity(d["severity"]), d["message"], Span(**d["span"]), d["fix"], d["contested"]
        )
        for d in stored["diagnostics"]
    )
    scope = Scope(
        ScopeKind(stored["scope"]["kind"]), stored["scope"]["values"], tuple(stored["scope"]["assume"])
    )
    return KernelReport(
        stored["name"], stored["file"], Verdict(stored["verdict"]), Policy(stored["policy"]), scope,
        stored["arch"], stored["reason"], stored["seconds"], tuple(stored["assumptions"]), None, diagnostics,
        stored["stats"],
    )  # fmt: skip
