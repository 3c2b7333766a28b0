"""The corpus files as data: what each one states in its header (docs/syncir.md, last paragraph)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from syncverify.base.diagnostics import Policy, Verdict

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "corpus"

_EXPECT = re.compile(r"^// (expect|strict): (proved|refuted|unknown)((?: SV\d{3}@\d+)*)$")
_ERROR = re.compile(r"(SV\d{3})@(\d+)")
_SMALLEST = re.compile(r"^// smallest:((?: [A-Za-z_]\w*=-?\d+)+)$")


def wrong_ptx() -> list[Path]:
    """Kernels of PTX that are wrong and refuted; one that is wrong and undecided has no witness."""
    files = sorted((CORPUS / "ptx").glob("*.bad.ptx"))
    return [p for p in files if "\n// expect: unknown\n" not in p.read_text("utf-8")]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A verdict and its errors, each ``(rule, line)``, the root cause first."""

    verdict: Verdict
    errors: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return " ".join([str(self.verdict), *(rule for rule, _ in self.errors)])


@dataclass(frozen=True, slots=True)
class Entry:
    """One corpus file."""

    path: Path
    title: str
    text: str
    expected: Mapping[Policy, Expectation]
    #: The least sizes, by the sum of their magnitudes, that refute the kernel; empty where it states none.
    smallest: Mapping[str, int]

    @property
    def name(self) -> str:
        return self.path.relative_to(CORPUS).as_posix()

    @property
    def family(self) -> str:
        return self.path.parent.name

    @property
    def stem(self) -> str:
        """The name without ``.bad.syncir`` or ``.good.syncir``."""
        return self.path.name.split(".", 1)[0]

    @property
    def kind(self) -> str:
        """``bad``, ``good``, or nothing for a file that stands alone."""
        parts = self.path.name.split(".")
        return parts[1] if len(parts) == 3 else ""


def read(path: Path) -> Entry:
    """Reads one file; ValueError if its header is not as it should be."""
    text = path.read_text(encoding="utf-8")
    header = [line for line in text.splitlines() if line.startswith("//")]
    if not header:
        raise ValueError(f"{path}: no header")
    found: dict[str, Expectation] = {}
    smallest: dict[str, int] = {}
    for line in header:
        if line.startswith("// smallest:"):
            match = _SMALLEST.match(line)
            if match is None or smallest:
                raise ValueError(f"{path}: cannot read {line!r}")
            smallest = {k: int(v) for k, v in (pair.split("=") for pair in match[1].split())}
        if re.match(r"// (expect|strict)\b", line):
            match = _EXPECT.match(line)
            if match is None or match[1] in found:
                raise ValueError(f"{path}: cannot read {line!r}")
            errors = tuple((rule, int(at)) for rule, at in _ERROR.findall(match[3]))
            found[match[1]] = Expectation(Verdict(match[2]), errors)
    if "expect" not in found:
        raise ValueError(f"{path}: no `// expect:` line")
    practical = found["expect"]
    expected = {Policy.PRACTICAL: practical, Policy.STRICT: found.get("strict", practical)}
    return Entry(path, header[0].removeprefix("// "), text, expected, smallest)


def entries() -> tuple[Entry, ...]:
    """Every file of the corpus, by name."""
    return tuple(read(p) for p in sorted(CORPUS.rglob("*.syncir")))
