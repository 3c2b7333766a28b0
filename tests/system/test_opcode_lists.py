"""Lists of opcodes that access memory: the table of instructions has the one that counts.

An analysis that owns such a list passes over the opcode that nobody thought of; one that asks
``isa/accesses.py`` or ``isa/participants.py`` cannot. ``opcode_lists.toml`` says how many lists a module
has at most; a module not listed has none. ``python -m tests.system.test_opcode_lists`` writes lower numbers
down, and never raises one.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from syncverify.frontends.ptx.isa.rows import table

ROOT = Path(__file__).parents[2] / "syncverify"
BASELINE = Path(__file__).with_name("opcode_lists.toml")
#: Where instructions are looked for, and where the table is.
WHERE, TABLE = ("frontends", "checker"), "frontends/ptx/isa/"
#: Effects of what accesses no memory.
_ELSEWHERE = frozenset(
    {
        "register",
        "data",
        "control",
        "warp",
        "matrix registers",
        "hint",
        "barrier",
        "grid",
        "register pool",
        "fence",
    }
)

Numbers = dict[str, int]


def lists(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The lines with two words and more in a row, and these words."""
    for n in ast.walk(tree):
        match n:
            case ast.Set(elts=found) | ast.Tuple(elts=found) | ast.List(elts=found):
                words = [x.value for x in found if isinstance(x, ast.Constant) and isinstance(x.value, str)]
            case ast.Dict(keys=keys):
                words = [x.value for x in keys if isinstance(x, ast.Constant) and isinstance(x.value, str)]
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="split")):
                words = text.split()
            case _:
                continue
        if len(words) > 1:
            yield n.lineno, words


def names_accesses(words: list[str]) -> bool:
    """Whether all words are opcodes, one of which accesses memory."""
    rows = table()
    return all(w in rows for w in words) and any(
        row.effect not in _ELSEWHERE for w in words for row in rows[w]
    )


def found() -> Numbers:
    """By module how many such lists it has."""
    counts: Numbers = {}
    for where in WHERE:
        for path in sorted((ROOT / where).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            words = [w for _, w in lists(ast.parse(path.read_text("utf-8")))]
            if not name.startswith(TABLE) and (n := sum(map(names_accesses, words))):
                counts[name] = n
    return counts


def test_what_a_list_is() -> None:
    text = (
        '_A = {"ld", "st"}\n_B = ("add", "sub")\n_C = frozenset("atom red".split())\n_D = {"ld": 1, "ldu": 2}'
    )
    assert [w for _, w in lists(ast.parse(text)) if names_accesses(w)] != []
    assert sum(names_accesses(w) for _, w in lists(ast.parse(text))) == 3


def test_no_module_has_more_lists_than_before() -> None:
    most: Numbers = tomllib.loads(BASELINE.read_text("utf-8"))
    grown = {name: n for name, n in found().items() if n > most.get(name, 0)}
    assert not grown, f"ask isa/accesses.py what these do: {grown}"


if __name__ == "__main__":
    before: Numbers = tomllib.loads(BASELINE.read_text("utf-8")) if BASELINE.exists() else found()
    now = {name: min(n, before[name]) for name, n in found().items() if name in before}
    head = "# Lists of opcodes that access memory: see test_opcode_lists.py. The numbers may only fall."
    lines = [head, *(f'"{name}" = {n}' for name, n in now.items())]
    BASELINE.write_text("\n".join(lines) + "\n", "utf-8")
