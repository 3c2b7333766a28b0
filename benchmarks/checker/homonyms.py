"""Class names that several modules give, now or at a commit: for docs/decisions/names-and-shapes.md.

python benchmarks/checker/homonyms.py [--of COMMIT]
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.checker.complexity import sources


def homes(commit: str | None) -> dict[str, list[str]]:
    """Public class names of several modules, and these modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, text in sources(commit):
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module.removeprefix("syncverify/").removesuffix(".py"))
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--of", help="a commit; else the checkout")
    found = homes(parser.parse_args().of)
    print(f"{len(found)} class names stand in several modules")
    for name, modules in sorted(found.items(), key=lambda x: (-len(x[1]), x[0])):
        print(f"| `{name}` | {len(modules)} | {', '.join(modules)} |")


if __name__ == "__main__":
    signal(SIGPIPE, SIG_DFL)  # `| head` closes the pipe
    main()
