"""corpus/README.md, generated from the files' headers: ``python -m tests.corpus.index`` writes it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from syncverify.base.diagnostics import Policy
from tests.corpus.entries import CORPUS, Entry, entries

FAMILIES = {
    "depth": "Bugs that show only in a later lap of the ring, in an odd tail or in a later tile.",
    "hardware": "Kernels that drive the memory system hard, for `benchmarks/hardware/corpus_on_gpu.py`.",
    "idioms": "Good kernels: the common idioms of Hopper kernels (D1 to D15 of the rulebook, and more).",
    "large": "Whole kernels: a persistent GEMM, an attention mainloop, a chain of three roles.",
    "matmul": "Good kernels: matrix products as the compiler writes them (docs/matmul.md).",
    "more": "What the catalogues leave out.",
    "nvfuser": "Bugs that nvFuser had, and weaknesses found by reading it; the number is that of the issue.",
    "rulebook": "The bug catalogue of the rulebook, E1 to E74 (E75 to E77 cannot be written in the IR).",
    "sizes": "Bugs that show for some sizes only; a bad file's defaults are the smallest that do.",
    "theory": "The programs that every implementation of the theory must get right.",
    "two_async_warps": "A kernel with two loading warps, as a generator emitted it, and mended step by step.",
}

HEAD = """# The corpus

Small kernels with known verdicts. A `.bad.syncir` holds one bug, its `.good.syncir` is the same kernel
without it; files of neither kind stand alone. The first comment lines of a file say what the bug is and
what happens; `// expect:` gives the verdict, the rule and the line of the first error (further errors
follow), `// strict:` the same for the strict policy where it differs, `// smallest:` the smallest sizes
that refute the kernel. `tests/corpus` holds the checker and the simulator to them,
`tests/checker/prover/parametric` the verdicts for every size;
`benchmarks/hardware/corpus_on_gpu.py` runs those on a GPU that the code generator supports.

This page is generated from the headers: `python -m tests.corpus.index`.
"""


def page(files: Iterable[Entry]) -> str:
    """The text of corpus/README.md."""
    parts = [HEAD]
    for family, group in groupby(files, key=lambda e: e.family):
        rows = list(group)
        parts.append(f"## {family}\n\n{FAMILIES[family]}\n")
        parts.append("| file | what | practical | strict |\n|---|---|---|---|\n" + "".join(map(_row, rows)))
    return "\n".join(parts)


def _row(entry: Entry) -> str:
    practical, strict = entry.expected[Policy.PRACTICAL], entry.expected[Policy.STRICT]
    link = f"[{entry.path.name.removesuffix('.syncir')}]({entry.name})"
    title = entry.title.replace("|", "\\|")
    return f"| {link} | {title} | {practical} | {'' if strict == practical else strict} |\n"


def main() -> None:
    (CORPUS / "README.md").write_text(page(entries()), encoding="utf-8")


if __name__ == "__main__":
    main()
