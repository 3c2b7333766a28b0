"""Counts the lines of code that must be right for a verdict, by room: no comments, docstrings or blank lines.

python -m benchmarks.checker.trusted_lines
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2] / "syncverify"
#: What a proof for every size that the kernel accepts rests on.
ROOMS = {
    "kernel, proofs of protocols": ["checker/kernel/*.py"],
    "agents as protocols": ["checker/induction/*.py"],
    "tables": ["model/ordering.py", "model/proxies.py"],
    "kernels of the IR as protocols": [
        f"checker/prover/rings/{x}.py"
        for x in (
            *("to_protocol", "cases", "extract", "operations", "counters", "expressions", "program"),
            "linear",
        )
    ],
    "layout and footprints": ["ir/layout.py", "ir/footprints.py"],
    "syntax of the IR": ["ir/text/*.py", "ir/nodes/*.py", "ir/expr.py", "ir/check/*.py"],
}
#: Files of these rooms on which no acceptance rests, and why.
BESIDES = {
    "ir/text/printer.py": "writes kernels, of whose text certificates keep a digest against accidents",
    "ir/text/serialize.py": "keeps kernels in a cache of the compiler",
    "ir/text/syntax_errors.py": "words of an error that the parser has found",
    "ir/check/path_facts.py": "notes; where no launch meets the facts, the reading refuses too",
    "ir/check/wait_cycles.py": "refuses kernels that evidently hang, as the kernel would",
}
_SILENT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
)  # fmt: skip


def code_lines(text: str) -> int:
    """Lines with code on them."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                documented |= set(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    lines: set[int] = set()
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type not in _SILENT:
            lines |= set(range(t.start[0], t.end[0] + 1))
    return len(lines - documented)


def count(patterns: list[str]) -> int:
    """The lines of code of the files that match."""
    files = {f for p in patterns for f in ROOT.glob(p)} - {ROOT / name for name in BESIDES}
    return sum(code_lines(f.read_text("utf-8")) for f in files)


def main() -> None:
    counts = {room: count(patterns) for room, patterns in ROOMS.items()}
    for room, n in counts.items():
        sys.stdout.write(f"{n:7,}  {room}\n")
    sys.stdout.write(f"{sum(counts.values()):7,}  in all\n")


if __name__ == "__main__":
    main()
