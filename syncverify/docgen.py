"""The generated parts of the documentation: docs/rules.md, docs/ptx_instructions.md, the tables of
docs/model.md and docs/ptx.md, the worked example of docs/guide/syncir.md.

``python -m syncverify.docgen docs`` writes them; a test fails when they differ from what the data says.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import chdir
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory

from syncverify.base.contested import CONTESTED
from syncverify.base.explanations import explanation
from syncverify.base.rules import RULES
from syncverify.frontends.ptx.isa.rows import Role, Row, table
from syncverify.frontends.ptx.isa.targets import needed
from syncverify.frontends.ptx.isa.words import HARMLESS
from syncverify.model.ordering import ORDERINGS, Need
from syncverify.model.proxies import Access

BEGIN, END = "<!-- generated: {} -->", "<!-- end of generated: {} -->"

#: The rule whose example docs/guide/syncir.md works through.
WORKED_EXAMPLE = "SV210"

_SHORT = {
    Access.GENERIC_READ: "generic read",
    Access.GENERIC_WRITE: "generic write",
    Access.ASYNC_READ: "bulk read",
    Access.ASYNC_WRITE: "bulk write",
    Access.MMA_READ: "wgmma read",
    Access.CPASYNC_WRITE: "cp.async write",
    Access.STASYNC_WRITE: "st.async write",
}


def rules_page(root: Path) -> str:
    """docs/rules.md: every rule with its reason, its examples and its fix. ``root``: of the repository."""
    return "\n".join(_rules(cuda_examples(root))) + "\n"


def _rules(cuda: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    yield "# Rules"
    yield ""
    yield "Generated from `syncverify/base/rules.py`, `syncverify/base/explanations.py` and"
    yield "`syncverify/examples/rules` by `make docs`."
    yield "`syncverify explain RULE` prints the same. The tests refute every bad kernel below"
    yield "and prove every good one; a rule of SV6xx is a note on a proved kernel."
    yield ""
    yield "| id | name | what is wrong |"
    yield "|---|---|---|"
    for r in RULES.values():
        yield f"| [{r.id}](#{r.id.lower()}-{r.name}) | {r.name} | {r.summary} |"
    for r in RULES.values():
        e = explanation(r.id)
        yield ""
        yield f"## {r.id} {r.name}"
        yield ""
        yield f"{r.summary[0].upper()}{r.summary[1:]}."
        yield ""
        yield e.why
        for title, kernel in (("Bad", e.bad), ("Good", e.good)):
            if kernel is not None:
                yield ""
                yield f"{title}:"
                yield ""
                yield "```"
                yield kernel.rstrip("\n")
                yield "```"
        yield from _in_cuda(cuda.get(r.id))
        if r.id in WITHOUT_CUDA:
            yield from ("", f"In CUDA: {WITHOUT_CUDA[r.id]}")
        yield ""
        yield f"**Fix.** {e.fix}"


#: Rules that no kernel of CUDA breaks by itself, and why.
WITHOUT_CUDA = {
    "SV902": "any kernel may be undecided; the message names the launch value or the budget that is missing.",
    "SV903": "the comment stands behind `//` on a line of the source, as in the kernel above.",
    "SV906": "a fault of the tool, which no kernel should show.",
    "SV907": "any kernel may take more than `--timeout` or `--max-memory` allow.",
    "SV909": "any kernel whose block nothing gives: no `__launch_bounds__`, no `.reqntid`, no launch file.",
}


def _in_cuda(shown: tuple[str, str] | None) -> Iterator[str]:
    """A mistake in CUDA, as what changes against the right kernel."""
    if shown is None:
        return
    where, changed = shown
    yield from ("", f"In CUDA, right (`-`) and wrong (`+`), from `{where}`:", "", "```diff")
    yield from changed.splitlines()
    yield "```"


def cuda_examples(root: Path) -> dict[str, tuple[str, str]]:
    """By rule, where a CUDA kernel of the corpus breaks it, and its difference to the right one.

    The tests refute each by that rule: pairs of corpus/ptx by their ``expect`` line, and the gallery.
    """
    found: dict[str, tuple[str, str]] = {}
    for bad in sorted((root / "corpus" / "ptx").glob("*.bad.ptx")):
        name = bad.name.removesuffix(".bad.ptx")
        source = root / "corpus" / "ptx" / "sources" / f"{name}.cu"
        rule = re.search(r"expect: refuted (SV\d+)", bad.read_text("utf-8"))
        if rule is not None and source.exists():
            text = source.read_text("utf-8")
            changed = _difference(_chosen(text, False), _chosen(text, True))
            found.setdefault(rule[1], (f"corpus/ptx/sources/{name}.cu", changed))
    gallery = root / "corpus" / "gallery"
    ring = (gallery / "ring.cu").read_text("utf-8")
    for mistake in tomllib.loads((gallery / "mistakes.toml").read_text("utf-8"))["mistake"]:
        changed = _difference(ring, ring.replace(mistake["old"], mistake["new"]))
        found.setdefault(mistake["rule"], (f"corpus/gallery: {mistake['name']}", changed))
    text = (gallery / "rules.cu").read_text("utf-8")
    good, wrong = _kernels(_chosen(text, bad=False)), _kernels(_chosen(text, bad=True))
    for name in sorted(good.keys() - found.keys()):
        found[name] = ("corpus/gallery/rules.cu", _difference(good[name], wrong[name]))
    return found


def _kernels(text: str) -> dict[str, str]:
    """The kernels of a source by name: each ends with the first line that is a closing brace."""
    return {m[1]: m[0] for m in re.finditer(r"^extern \"C\" __global__ .*?(SV\d+)\(.*?^}", text, re.M | re.S)}


def _chosen(text: str, bad: bool) -> str:
    """A source as the compiler sees it with ``BAD`` defined, or without."""
    out: list[str] = []
    keeps = [True]
    for line in text.splitlines():
        word = line.split()[:2]
        if word[:1] in (["#ifdef"], ["#ifndef"]) and word[1:] == ["BAD"]:
            keeps.append((word[0] == "#ifdef") is bad)
        elif word[:1] == ["#else"] and len(keeps) > 1:
            keeps[-1] = not keeps[-1]
        elif word[:1] == ["#endif"] and len(keeps) > 1:
            keeps.pop()
        elif all(keeps) and not line.startswith("// BAD:"):
            out.append(line)
    return "\n".join(out)


def _difference(right: str, wrong: str) -> str:
    """The lines that differ, each with the one before and behind it."""
    lines = list(unified_diff(right.splitlines(), wrong.splitlines(), n=1, lineterm=""))[2:]
    return "\n".join("  ..." if line.startswith("@@") else line for line in lines).removeprefix("  ...\n")


def hazards() -> str:
    """The hazard matrix and what each of its rows says, from the ordering table."""
    return "\n".join(_hazards()) + "\n"


def _hazards() -> Iterator[str]:
    kinds = list(_SHORT)
    yield "| first, then | " + " | ".join(_SHORT[s] for s in kinds) + " |"
    yield "|---" * (len(kinds) + 1) + "|"
    for f in kinds:
        yield f"| **{_SHORT[f]}** | " + " | ".join(_cell(f, s) for s in kinds) + " |"
    yield ""
    yield "| recipe | what the second access needs of the first | source |"
    yield "|---|---|---|"
    seen: dict[tuple[str, str, str], None] = {}
    for row in ORDERINGS.values():
        seen.setdefault((row.recipe, row.need.value, row.cite))
    for recipe, need, cite in sorted(seen):
        yield f"| {recipe} | {need} | {cite} |"


def _cell(first: Access, second: Access) -> str:
    row = ORDERINGS[first, second]
    if row.need is Need.NOTHING:
        return "none"
    rules = "/".join(r for r in (row.unordered, row.unbridged) if r)
    contested = f", {row.contested}" if row.contested else ""
    return f"{row.hazard.value} {row.recipe} ({rules}{contested})"


def contested() -> str:
    """The contested points and what each policy accepts."""
    rows = [f"| {c.id} | {c.question} | {c.practical} | {c.strict} |" for c in CONTESTED.values()]
    return "\n".join(["| id | question | practical | strict |", "|---|---|---|---|", *rows]) + "\n"


_INSTRUCTIONS = """# PTX instructions

What the PTX front end knows as an instruction. This page is generated from the table in
`syncverify/frontends/ptx/isa`; [ptx.md](ptx.md) says how it is used.

An instruction, a modifier or operands that no row has are an error with the line and exit status 2, also
in functions that a kernel calls. So is what the file's `.version` or `.target` lacks. Other kernels of the
file keep their verdicts. What a row does not model makes a kernel that may come to it `unknown`. Rules hold
for sm_70 and later: an older or unknown architecture is `unknown`.

In a form, `[x]` may be left out, `a/b` is a choice, a modifier in italics has no effect on synchronization,
one that is struck out is not modelled. Modifiers come in any order, but the words of the name, types and the
two spaces of a copy.
"""


def instructions_page() -> str:
    """docs/ptx_instructions.md: the rows of the table, and why modifiers do not matter."""
    return "\n".join(_instructions()) + "\n"


def _instructions() -> Iterator[str]:
    yield _INSTRUCTIONS
    chapters: dict[str, list[Row]] = {}
    for rows in table().values():
        for row in rows:
            chapters.setdefault(row.chapter, []).append(row)
    for chapter, some_rows in chapters.items():
        yield f"## {chapter}\n"
        yield "| form | since | architectures | together | effect |"
        yield "|---|---|---|---|---|"
        for row in some_rows:
            since = "" if row.since == (1, 0) else f"{row.since[0]}.{row.since[1]}"
            effect = f"not modelled: {row.unmodelled}" if row.unmodelled else row.effect
            yield f"| {_form(row)} | {since} | {needed(row.arch)} | {row.mask} | {effect} |"
        yield ""
    yield "## Modifiers without effect on synchronization\n"
    yield "| modifier | why |"
    yield "|---|---|"
    words: dict[str, set[str]] = {}
    for rows in table().values():
        for row in rows:
            for slot in row.slots:
                if slot.role is Role.HARMLESS:
                    words.setdefault(slot.reason, set()).update(slot.words)
    assert words.keys() <= set(HARMLESS.values())
    for reason in sorted(words):
        some = sorted(words[reason])
        more = f" and {len(some) - 12} more" if len(some) > 12 else ""
        yield f"| {', '.join(f'`.{w}`' for w in some[:12])}{more} | {reason} |"


def _form(row: Row) -> str:
    """A row's name and modifiers."""
    parts = [f"`{row.name}`"]
    for slot in row.slots:
        some = slot.words if len(slot.words) <= 8 else (*slot.words[:3], "...")
        text = "/".join(f"`.{w}`" if w != "..." else w for w in some)
        text = f"*{text}*" if slot.role is Role.HARMLESS else text
        text = f"~~{text}~~" if slot.role is Role.UNMODELLED else text
        parts.append(f"[{text}]" if slot.optional else text)
    return " ".join(parts)


def modules() -> str:
    """Tables of the modules of the PTX front end, package by package, and of the driver's that use them."""
    return "\n".join(_modules(Path(__file__).parent)) + "\n"


def _modules(package: Path) -> Iterator[str]:
    front_end = package / "frontends" / "ptx"
    found = {path: path.read_text("utf-8") for path in sorted(front_end.rglob("*.py"))}
    tables: dict[str, list[tuple[str, str]]] = {}
    for path, text in found.items():
        if path.name != "__init__.py":
            room = path.relative_to(front_end).parent.as_posix()
            tables.setdefault(f"frontends/ptx/{room}", []).append((path.name, text))
    for path in sorted((package / "driver").rglob("*.py"), key=lambda p: (p.parent, p)):
        text = path.read_text("utf-8")
        if path.name != "__init__.py" and "syncverify.frontends.ptx" in text:
            tables.setdefault(path.relative_to(package).parent.as_posix(), []).append((path.name, text))
    for where, rows in tables.items():
        yield from (f"| `syncverify/{where}` | what it does |", "|---|---|")
        yield from (f"| `{name}` | {summary(text)} |" for name, text in rows)
        yield ""


def summary(module: str) -> str:
    """The first paragraph of a module's docstring as a cell of a table, without its full stop."""
    said = (ast.get_docstring(ast.parse(module)) or "").partition("\n\n")[0]
    return " ".join(said.replace("``", "`").replace("|", "\\|").split()).removesuffix(".")


def replace_section(page: str, name: str, content: str) -> str:
    """The page with what stands between the markers of ``name`` replaced."""
    begin, end = BEGIN.format(name), END.format(name)
    head, _, rest = page.partition(begin)
    old, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no section {name!r}: {old[:40]!r}")
    return f"{head}{begin}\n\n{content}\n{end}{tail}"


def pages(docs: Path) -> dict[Path, str]:
    """Every generated page as it should be, by path."""
    path = docs / "model.md"
    model = replace_section(path.read_text("utf-8"), "hazards", hazards())
    ptx = docs / "ptx.md"
    return {
        docs / "rules.md": rules_page(docs.parent),
        docs / "ptx_instructions.md": instructions_page(),
        path: replace_section(model, "contested", contested()),
        ptx: replace_section(ptx.read_text("utf-8"), "modules", modules()),
    }


def worked_example(page: str) -> str:
    """docs/guide/syncir.md with its example as the tool sees it now."""
    e = explanation(WORKED_EXAMPLE)
    bad, good = e.bad or "", e.good or ""
    changed = list(unified_diff(bad.splitlines(), good.splitlines(), n=0, lineterm=""))[3:]
    for name, text in (("kernel", bad), ("report", worked_report(bad)), ("fix", "\n".join(changed))):
        fence = "diff" if name == "fix" else ""
        page = replace_section(page, name, f"```{fence}\n{text.rstrip()}\n```\n")
    return page


def untimed(page: str) -> str:
    """The page without the seconds a check took, which differ from run to run."""
    return re.sub(r"\d+\.\d+ s\b", "", page)


def worked_report(kernel: str) -> str:
    """What ``check`` prints of a kernel in ``ring.syncir``."""
    from syncverify.base.diagnostics import ScopeKind
    from syncverify.driver.files import check_source, read_source
    from syncverify.report.base import Report
    from syncverify.report.text import render

    with TemporaryDirectory() as directory, chdir(directory):
        Path("ring.syncir").write_text(kernel, "utf-8")
        reports = check_source(read_source("ring.syncir"), advice=True, scope=ScopeKind.ALL)
        return render(Report(reports[0].policy, tuple(reports)))


if __name__ == "__main__":
    root = Path(sys.argv[1])
    guide = root / "guide" / "syncir.md"
    for path, text in {**pages(root), guide: worked_example(guide.read_text("utf-8"))}.items():
        if untimed(text) != untimed(path.read_text("utf-8")):
            path.write_text(text, "utf-8")
