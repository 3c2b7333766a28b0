"""Class names that several modules give, now or at a commit, and what they have become.

    python benchmarks/checker/homonyms.py [--of COMMIT]        names, and the modules that give them
    python benchmarks/checker/homonyms.py --became COMMIT      writes docs/decisions/homonyms.md

What a class has become is found by its text: the class of today whose words are most like it, if half are.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.checker.complexity import sources  # noqa: E402

PAGE = ROOT / "docs" / "decisions" / "homonyms.md"
#: Shared words from which on two texts are one class.
ALIKE = 0.5
#: And what a name that was kept counts for.
KEPT_NAME = 0.2


@dataclass(frozen=True)
class Given:
    """A public class at the top of a module, and how often its text has each word."""

    module: str
    name: str
    words: Counter[str]

    def likeness(self, other: Given) -> float:
        """The share of words that both have."""
        both = (self.words & other.words).total()
        return both / max(1, self.words.total(), other.words.total())


def classes(commit: str | None) -> Iterator[Given]:
    """Public classes at the top of modules."""
    for module, text in sources(commit):
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                own = ast.get_source_segment(text, node) or ""
                place = module.removeprefix("syncverify/").removesuffix(".py")
                yield Given(place, node.name, Counter(re.findall(r"\w+", own)))


def homes(commit: str | None) -> dict[str, list[Given]]:
    """Class names of several modules, and the classes."""
    found: dict[str, list[Given]] = defaultdict(list)
    for given in classes(commit):
        found[given.name].append(given)
    return {name: given for name, given in found.items() if len(given) > 1}


def became(old: Given, now: list[Given]) -> Given | None:
    """The class of today that is most like a class of the past; None if none is like it."""
    best = max(now, key=lambda x: (old.likeness(x) + (x.name == old.name) * KEPT_NAME, x.module))
    least = ALIKE - KEPT_NAME if best.name == old.name else ALIKE
    return best if old.likeness(best) >= least else None


def page(commit: str) -> str:
    """The table of what homonyms have become."""
    now = list(classes(None))
    today = homes(None)
    lines = _HEAD.format(commit=commit, then=len(homes(commit)), now=len(today)).splitlines()
    for name, given in sorted(homes(commit).items()):
        for i, old in enumerate(given):
            new = became(old, now)
            shown = "gone" if new is None else f"`{new.module}`: `{new.name}`"
            lines.append(f"| {f'`{name}`' if i == 0 else ''} | `{old.module}` | {shown} |")
    lines += ["", "## Names in several modules today", "", "| name | modules |", "|---|---|"]
    for name, given in sorted(today.items()):
        lines.append(f"| `{name}` | {', '.join(f'`{g.module}`' for g in given)} |")
    return "\n".join(lines) + "\n"


_HEAD = """\
# Homonyms: what each has become

Class names that several modules gave at {commit}, and the class of today whose text is most like each.
Written by `python benchmarks/checker/homonyms.py --became {commit}`.

Then {then} names stood in several modules, now {now} do. Within one package there is none:
`tests/system/test_words.py` fails on it. Most names of today that stand in several modules mean the same in
another room. The trusted kernel, the second reader and the simulator share no code with the checker on
purpose. So each has its own step, ring or access.

| name | module then | class now |
|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--of", help="a commit; else the checkout")
    parser.add_argument("--became", metavar="COMMIT", help="write what the homonyms of a commit have become")
    given = parser.parse_args()
    if given.became is not None:
        PAGE.write_text(page(given.became), "utf-8")
        return
    found = homes(given.of)
    print(f"{len(found)} class names stand in several modules")
    for name, modules in sorted(found.items(), key=lambda x: (-len(x[1]), x[0])):
        print(f"| `{name}` | {len(modules)} | {', '.join(g.module for g in modules)} |")


if __name__ == "__main__":
    signal(SIGPIPE, SIG_DFL)  # `| head` closes the pipe
    main()
