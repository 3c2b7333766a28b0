"""What a CUDA source calls the mbarriers that it initializes.

PTX knows offsets in shared memory alone, and kernels mostly keep their barriers in one struct. So a barrier
gets its name from the call that initializes it: the first argument, or the object, of each call on the line
whose name holds ``init``. Where a method initializes the members of an object, both names are joined.

Worked example. ``pipe.init(4)`` calls a method with ``asm("mbarrier.init... [%0]" :: "r"(addr(&full[i])))``:
the barriers are ``pipe.full[i]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_CALL = re.compile(r"(?P<object>[A-Za-z_][\w.\[\]+\- ]*?(?:\.|->))?(?P<name>(?:\w+::)*\w*[iI]nit\w*)\s*\(")
_ADDRESS = re.compile(r"^(?:&|\*|\((?:[\w: ]+\*)\)|reinterpret_cast<[^>]*>|static_cast<[^>]*>|\s)+")
_OBJECT = re.compile(r"^[A-Za-z_](?:\w|\.|->|::|\[[^\[\]]*\])*$")
_WRAPPED = re.compile(r"(?:(?:\w+::)*\w+)?\((?P<inner>[^(),]+|\([^(),]+\))\)")
_LONGEST = 60
_METHOD = re.compile(r"(?<![\w.>])(?P<object>[A-Za-z_][\w.\[\]+\- ]*?)(?:\.|->)[A-Za-z_]\w*\s*\(")
_BY_ADDRESS = re.compile(r"\b\w+\s*\(\s*&\s*(?P<first>[A-Za-z_](?:\w|\.|->|\[[^\[\]]*\])*)\s*[,)]")
_PLAIN = re.compile(r"\b(?P<name>\w+)\s*\(\s*(?P<first>[A-Za-z_](?:\w|\.|->|\[[^\[\]]*\])*)\s*[,)]")
_OF_ASM = re.compile(r'mbarrier\.init[^"]*"\s*:[^:]*:\s*"[rl]"\s*\((?P<rest>.*)')
_INNERMOST = re.compile(r"&?\s*(?P<path>(?:this->)?[A-Za-z_](?:\w|\.|->|\[[^\[\]()]*\])*)\s*\)")
_HEAD = re.compile(r"\b\w+\s*\((?P<parameters>[^(){};]*)\)\s*(?:const\s*)?(?:noexcept\s*)?\{")
_KEYWORDS = frozenset({"if", "for", "while", "switch"})


def initialized(line: str) -> list[str]:
    """The barriers that the calls of a line initialize, in order; nothing where one cannot be told.

    >>> initialized("  for (int i = 0; i < N; ++i) { init(&s.full[i], 1); s.empty[i].init(128); }")
    ['s.full[i]', 's.empty[i]']
    >>> initialized("mbarrier::init(toSmem((&T3[i2])), 1U);")
    ['T3[i2]']
    """
    found = [_operand(line, m) for m in _CALL.finditer(line.split("//")[0])]
    return [] if None in found else [x for x in found if x]


def joined(calls: list[str], of: str | None, *, several: bool) -> list[str]:
    """Names with the member that the called method initializes, where one call is on the line.

    ``of``: that member. ``several``: whether the call initializes several kinds of members; a member that is
    the only one says nothing.
    """
    if len(calls) != 1 or of is None or not (several or of.endswith("]")):
        return calls
    whole = f"{calls[0]}.{of}"
    return [whole] if len(whole) <= _LONGEST else calls


def member(lines: Sequence[str], line: int, turn: int = 0) -> str | None:
    """What a line (from 1) of a method initializes, if that is no parameter of the function around it.

    ``turn``: by which of its calls, in turn, the first being 0.
    """
    if not 0 < line <= len(lines):
        return None
    code = lines[line - 1].split("//")[0]
    within = _OF_ASM.search(code)
    path = _INNERMOST.search(within["rest"]) if within is not None else None
    calls = initialized(code) or ([] if within is not None else _objects(code))
    said = path["path"] if path is not None else calls[turn % len(calls)] if calls else ""
    said = said.removeprefix("this->")
    if not _OBJECT.match(said) or said == "this":
        return None
    root = re.split(r"\W", said)[0]
    return None if root in _parameters(lines, line) else said


def _objects(code: str) -> list[str]:
    """The objects whose method of one name a line calls several times: known to initialize, whatever its
    name.

    >>> _objects("for (int i = 0; i < N; ++i) { full[i].setup(1); empty[i].setup(readers); }")
    ['full[i]', 'empty[i]']
    """
    calls = [(m["object"].strip(), m[0]) for m in _METHOD.finditer(code)]
    methods = {re.split(r"\.|->", call)[-1] for _, call in calls}
    known = all(_OBJECT.match(said) for said, _ in calls)
    return [said for said, _ in calls] if len(calls) > 1 and len(methods) == 1 and known else []


def passed(line: str) -> str | None:
    """The object of the only method that a line calls, or what it passes first to its only function: the
    barrier of a line that is known to initialize one."""
    code = line.split("//")[0]
    found = {m["object"].strip() for m in _METHOD.finditer(code)}
    found |= {m["first"].strip() for m in _BY_ADDRESS.finditer(code)}
    if not found:
        found = {m["first"].strip() for m in _PLAIN.finditer(code) if m["name"] not in _KEYWORDS}
    said = found.pop() if len(found) == 1 else ""
    return said if len(said) <= _LONGEST and _OBJECT.match(said) else None


def _parameters(lines: Sequence[str], line: int) -> frozenset[str]:
    """The words in the parameter list of the function that a line is in."""
    for n in range(line, 0, -1):
        heads = [m for m in _HEAD.finditer(lines[n - 1]) if m[0].split("(")[0].strip() not in _KEYWORDS]
        if heads:
            return frozenset(re.findall(r"\w+", heads[-1]["parameters"]))
    return frozenset()


def _operand(line: str, call: re.Match[str]) -> str | None:
    said = call["object"]
    if said is None:
        said = next(_arguments(line[call.end() :]), "")
    said = _ADDRESS.sub("", said.removesuffix("->").removesuffix(".").strip())
    while (inner := _WRAPPED.fullmatch(said)) is not None:  # by its address: init(smem_address(&full[i]), 1)
        said = _ADDRESS.sub("", inner["inner"])
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
