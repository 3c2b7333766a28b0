"""The CUDA files of the corpus as data: what each one states in its header.

// prelude: nvfuser                        compiled with this prelude
// sizes: R = 5                            for the check of exact sizes; another is for all of them
// expect: refuted SV202@62 SV205@85       verdict, and the errors' rules and lines, the root cause first
// strict: refuted SV105@44                the same for the strict policy, where it differs
// notes: SV601@28                         advice on the proved kernel
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from syncverify.base.diagnostics import Policy, Verdict
from tests.corpus.entries import CORPUS, Expectation

_LINE = re.compile(r"^// (prelude|sizes|expect|strict|notes): (.*)$")
_VERDICT = re.compile(r"^(proved|refuted|unknown)((?: SV\d{3}@\d+)*)$")
_ERROR = re.compile(r"(SV\d{3})@(\d+)")


@dataclass(frozen=True, slots=True)
class CudaEntry:
    """One file."""

    path: Path
    title: str
    prelude: str | None
    sizes: Mapping[str, int]
    expected: Mapping[Policy, Expectation]
    notes: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return self.path.relative_to(CORPUS / "cuda").as_posix()


def read(path: Path) -> CudaEntry:
    """Reads one file; ValueError if its header is not as it should be."""
    header: dict[str, str] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    for line in lines:
        if not line.startswith("//"):
            break
        if match := _LINE.match(line):
            header[match[1]] = match[2]
    practical = _expectation(path, header["expect"])
    strict = _expectation(path, header["strict"]) if "strict" in header else practical
    sizes = dict(part.split(" = ") for part in header.get("sizes", "").split(", ") if part)
    return CudaEntry(
        path, lines[0].removeprefix("// "), header.get("prelude"), {k: int(v) for k, v in sizes.items()},
        {Policy.PRACTICAL: practical, Policy.STRICT: strict}, _errors(header.get("notes", "")),
    )  # fmt: skip


def _expectation(path: Path, text: str) -> Expectation:
    match = _VERDICT.match(text)
    if match is None:
        raise ValueError(f"{path}: cannot read {text!r}")
    return Expectation(Verdict(match[1]), _errors(match[2]))


def _errors(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((rule, int(line)) for rule, line in _ERROR.findall(text))


def entries() -> tuple[CudaEntry, ...]:
    """Every CUDA file of the corpus, by name."""
    return tuple(read(p) for p in sorted((CORPUS / "cuda").rglob("*.cu")))
