"""Compiled kernels on disk, each with the proofs that allow its use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from syncverify.base.cache_dir import Store, default_root, digest
from syncverify.base.diagnostics import Diagnostic, KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.base.source import Span
from syncverify.codegen.fingerprint import tool_fingerprint as tool_fingerprint
from syncverify.codegen.shipped import from_package

#: What a report says of the seconds after which a proof was given up, and the end of the file of one that
#: found none.
GIVEN_UP, LATE = "given_up_after", ".late"


@dataclass(frozen=True, slots=True)
class Cache(Store):
    """A directory of ``KEY.cubin``, ``KEY.ptx`` and the proofs of both stages: ``KEY.STAGE.json`` for every
    launch, ``KEY.STAGE.VALUES.json`` for one. What is not there may have come with the package."""

    @staticmethod
    def default() -> Cache:
        """The user's cache directory."""
        return Cache(default_root())

    def read(self, name: str) -> bytes | None:
        found = Store.read(self, name)
        return from_package(name) if found is None else found

    def code(self, key: str) -> tuple[str, bytes] | None:
        """The stored PTX and cubin."""
        ptx, cubin = self.read(f"{key}.ptx"), self.read(f"{key}.cubin")
        return None if ptx is None or cubin is None else (ptx.decode(), cubin)

    def store_code(self, key: str, ptx: str, cubin: bytes) -> None:
        self.write(f"{key}.ptx", ptx.encode())
        self.write(f"{key}.cubin", cubin)

    def proof(self, key: str, stage: str, values: Mapping[str, int] | None) -> KernelReport | None:
        """The stored proof for exactly these launch values (None: for every launch), if there is one."""
        data = self.read(_proof_name(key, stage, values))
        if data is None:
            return None
        try:
            report = _restored(json.loads(data))
        except (ValueError, KeyError, TypeError):
            return None
        meant = values is None or report.scope == Scope(ScopeKind.EXACT, dict(values), report.scope.assume)
        return report if report.verdict is Verdict.PROVED and meant else None

    def tried(self, key: str, stage: str, values: Mapping[str, int] | None) -> float:
        """The seconds within which no proof was found for exactly these launch values; else 0."""
        try:
            return float(self.read(_proof_name(key, stage, values) + LATE) or 0)
        except ValueError:
            return 0.0

    def store_proof(
        self, key: str, stage: str, values: Mapping[str, int] | None, report: KernelReport
    ) -> None:
        """Remembers a verdict of ``proved``, without what it was found by, or for how long none was found;
        nothing else is stored."""
        if report.verdict is Verdict.UNKNOWN and GIVEN_UP in report.stats:
            self.write(_proof_name(key, stage, values) + LATE, str(report.stats[GIVEN_UP]).encode())
        if report.verdict is Verdict.PROVED:
            data = json.dumps(asdict(replace(report, proof=None)), sort_keys=True).encode()
            self.write(_proof_name(key, stage, values), data)


def _proof_name(key: str, stage: str, values: Mapping[str, int] | None) -> str:
    if values is None:
        return f"{key}.{stage}.json"
    return f"{key}.{stage}.{digest(json.dumps(dict(values), sort_keys=True))[:16]}.json"


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
