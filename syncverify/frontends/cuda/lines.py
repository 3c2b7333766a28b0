"""The line table of compiled CUDA, reduced to places in the author's files.

NVRTC writes a ``.loc`` for each inlined call, from the outside in::

    .loc 1 10 5
    .loc 2 4 33, function_name $L__info_string2, inlined_at 1 10 5

Where the inner place lies in a header that is not the author's, an instruction belongs to the innermost call
that is. Calls between the author's own functions stay: reports show them as the call chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_FILE = re.compile(r'^[ \t]*\.file[ \t]+(\d+)[ \t]+"([^"]*)"', re.M)
_LOC = re.compile(
    r"^(?P<indent>[ \t]*)\.loc[ \t]+(\d+) (\d+) (\d+)"
    r"(?:,[ \t]*function_name[ \t]*(?P<function>[^,\n]*),[ \t]*inlined_at[ \t]+(\d+) (\d+) (\d+))?[^\n]*\n",
    re.M,
)
_DEBUG = re.compile(r"^[ \t]*\.section[ \t]+\.debug_str\n[ \t]*\{.*?^[ \t]*\}\n?", re.M | re.S)

_Place = tuple[int, int, int]  # file, line, column


def author_lines(ptx: str, file: str, foreign: Sequence[str]) -> str:
    """``ptx`` with ``.loc`` directives that name only files whose path holds none of ``foreign``.

    ``file``: the path of the source as the caller names it, which the PTX may hold as an absolute one.
    """
    names = {int(i): name for i, name in _FILE.findall(ptx)}
    folder = _folder(names.values(), file)
    theirs = {i for i, name in names.items() if any(part in name for part in foreign)}
    parents: dict[_Place, tuple[str, _Place] | None] = {}

    def authors(at: _Place | None) -> _Place | None:
        """``at``, or the innermost call around it that the author wrote."""
        for _ in range(len(parents)):
            if at is None or at[0] not in theirs:
                break
            parent = parents.get(at)
            at = None if parent is None else parent[1]
        return at

    def place(match: re.Match[str]) -> str:
        numbers = [int(g) if g else 0 for g in match.group(2, 3, 4, 6, 7, 8)]
        at: _Place = (numbers[0], numbers[1], numbers[2])
        parent: _Place = (numbers[3], numbers[4], numbers[5])
        parents[at] = (match["function"].strip(), parent) if parent[1] else None
        shown = authors(at)
        # line 0 represents code that no line asked for: it stays with the line before
        if shown is None or shown[1] == 0:
            return ""
        text = f"{match['indent']}.loc {shown[0]} {shown[1]} {shown[2]}"
        inlined = parents.get(shown)
        caller = authors(inlined[1]) if inlined is not None else None
        if inlined is not None and caller is not None:
            text += f", function_name {inlined[0]}, inlined_at {caller[0]} {caller[1]} {caller[2]}"
        return text + "\n"

    def listed(match: re.Match[str]) -> str:
        if int(match[1]) in theirs and f".loc {match[1]} " not in ptx:
            return ""
        return f'\t.file {match[1]} "{_shown(match[2], file, folder)}"'

    ptx = _LOC.sub(place, _DEBUG.sub("", ptx))
    return _FILE.sub(listed, ptx)


def _folder(names: Iterable[str], file: str) -> str:
    """The folder, with its slash, that the caller's name of the source starts from; empty if it has none."""
    end = file.removeprefix("./")
    return next(
        (n.removesuffix(end) for n in names if not file.startswith("/") and n.endswith("/" + end)), ""
    )


def _shown(name: str, file: str, folder: str) -> str:
    """The caller's name of the source where ``name`` is its absolute path; that of a header of the author,
    as the caller would name it."""
    if name == file or name.endswith("/" + file.removeprefix("./")):
        return file
    return name.removeprefix(folder)
