"""What a CUDA source calls the mbarriers that it initializes.

PTX knows offsets in shared memory alone, and kernels mostly keep their barriers in one struct. So a barrier
gets its name from the call that initializes it: the first argument, or the object, of each call on the line
whose name holds ``init``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CALL = re.compile(r"(?P<object>[A-Za-z_][\w.\[\]+\- ]*?(?:\.|->))?(?P<name>(?:\w+::)*\w*[iI]nit\w*)\s*\(")
_ADDRESS = re.compile(r"^(?:&|\*|\((?:[\w: ]+\*)\)|reinterpret_cast<[^>]*>|static_cast<[^>]*>|\s)+")
_OBJECT = re.compile(r"^[A-Za-z_](?:\w|\.|->|::|\[[^\[\]]*\])*$")
_LONGEST = 60


def initialized(line: str) -> list[str]:
    """The barriers that the calls of a line initialize, in order; nothing where one cannot be told.

    >>> initialized("  for (int i = 0; i < N; ++i) { init(&s.full[i], 1); s.empty[i].init(128); }")
    ['s.full[i]', 's.empty[i]']
    """
    found = [_operand(line, m) for m in _CALL.finditer(line.split("//")[0])]
    return [] if None in found else [x for x in found if x]


def _operand(line: str, call: re.Match[str]) -> str | None:
    said = call["object"]
    if said is None:
        said = next(_arguments(line[call.end() :]), "")
    said = _ADDRESS.sub("", said.removesuffix("->").removesuffix(".").strip())
    return said if len(said) <= _LONGEST and _OBJECT.match(said) else None


def _arguments(text: str) -> Iterator[str]:
    """The arguments of a call, from behind its parenthesis on."""
    depth, start = 0, 0
    for i, c in enumerate(text):
        if depth == 0 and c in ",)":
            yield text[start:i]
            start = i + 1
            if c == ")":
                return
        depth += (c in "([{") - (c in ")]}")
