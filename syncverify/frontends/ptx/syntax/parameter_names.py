"""What people call a kernel's parameters: the name in the source where it is known, else their number.

``Variable.source_name`` has the former, from a CUDA source or from debug information.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from syncverify.frontends.ptx.syntax.nodes import Variable

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.A)
#: Words of the launch file's expressions.
_RESERVED = frozenset("and or not if else min max cdiv abs true false grid".split())
#: ``param2``, or ``param0[8]``: how a size of a parameter without a name is called.
_NUMBERED = re.compile(r"param(\d+)(\[[^\]]*\])?", re.A)


def parameter_name(params: Sequence[Variable], index: int) -> str:
    """The parameter's name in the source, empty if it is not known, or if another one has the same."""
    found = _given(params[index])
    return found if all(found != _given(p) for i, p in enumerate(params) if i != index) else ""


def parameter_text(params: Sequence[Variable], index: int, offset: int = 0) -> str:
    """A parameter, or what lies at ``offset`` of it: ``rows``, ``param 2+8``, ``param 2 (scales)``. A
    name that says the number again, as compilers make it (``ring_param_2``), is left out."""
    own = params[index].name
    numbered = own.endswith(f"_param_{index}")
    name = parameter_name(params, index) or f"param {index}" + ("" if numbered else f" ({own})")
    return name + (f"+{offset}" if offset else "")


def parameter_key(params: Sequence[Variable], index: int) -> str:
    """How a launch file may call the parameter under ``params``."""
    return parameter_name(params, index) or str(index)


def place_names(params: Sequence[Variable], places: Sequence[str]) -> dict[str, str]:
    """Names for places such as ``params.2`` and ``params.0+8``; other places are left out."""
    found: dict[str, str] = {}
    for place in places:
        head, _, rest = place.partition(".")
        number, _, offset = rest.partition("+")
        if head == "params" and number.isdecimal() and int(number) < len(params):
            found[place] = parameter_text(params, int(number), int(offset or 0))
    return found


def unnumbered(symbol: str, called: Sequence[str]) -> str:
    """``rows`` for ``param2``, where the sizes of parameter 2 are ``called`` so; any other name as it is."""
    match = _NUMBERED.fullmatch(symbol)
    if match is None or int(match[1]) >= len(called):
        return symbol
    return called[int(match[1])] + (match[2] or "")


def _given(p: Variable) -> str:
    name = p.source_name
    usable = _IDENTIFIER.fullmatch(name) and name not in _RESERVED and not _NUMBERED.fullmatch(name)
    return name if usable else ""
