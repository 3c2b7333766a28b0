"""Loops of a text that a counter ends, whatever data says: it goes up by one to a bound that stays.

A comparison of the counter with the bound decides whether a turn follows. With ``c < b``, ``c > b`` and
``c != b`` the last turn comes at the latest when the counter has gone round once. With ``c <= b`` and
``c >= b`` there is a bound that all numbers meet, so that only a number in the text ends the loop.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"%\w+")
_TEST = re.compile(r"setp\.(lt|le|gt|ge|ne|eq)\.([us])32 (%\w+), (%\w+|-?\d+), (%\w+|-?\d+);")
_BRANCH = re.compile(r"(?:@(!?)(%\w+) )?bra(?:\.uni)? ([\w$]+);")
_OTHER_WAYS = ("call", "brx", "ret.uni")
_NOT = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq", "eq": "ne"}
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne", "eq": "eq"}
#: Bounds that each number meets.
_ALL = {("le", "u"): 2**32 - 1, ("le", "s"): 2**31 - 1, ("ge", "u"): 0, ("ge", "s"): -(2**31)}

#: The lines of a loop's head and of its way back, counted from 0.
Loop = tuple[int, int]


def all_counted(text: str) -> bool:
    """Whether each loop of a kernel ends after so many turns as there are numbers of 32 bits at most.

    Each way back has its own label, and loops are nested or apart. In each turn the counter goes up right
    before the way back; a test at the head or there leaves the loop. Whether lanes wait is not asked.
    """
    found = loops(text)
    return found is not None and all(counted(text, loop) for loop in found)


def loops(text: str) -> list[Loop] | None:
    """The loops of a kernel; None if it goes other ways than these."""
    lines, labels = _read(text)
    if any(x.split()[0].lstrip("{ ").startswith(_OTHER_WAYS) for x in lines if x):
        return None
    found: list[Loop] = []
    for n, line in enumerate(lines):
        if "bra" not in re.split(r"[\s.]", line):
            continue
        target = re.search(r"bra(?:\.uni)? ([\w$]+);", line)
        if target is None or target[1] not in labels:
            return None
        if labels[target[1]] <= n:
            found.append((labels[target[1]], n))
    heads = {head for head, _ in found}
    apart = all(a == b or _apart(a, b) for a in found for b in found)
    return found if len(heads) == len(found) and apart else None


def counted(text: str, loop: Loop) -> bool:
    """Whether a counter ends a loop."""
    return _counted(*_read(text), *loop)


def _read(text: str) -> tuple[list[str], dict[str, int]]:
    lines = [x.split("//")[0].strip() for x in text.splitlines()]
    return lines, {x[:-1]: n for n, x in enumerate(lines) if re.fullmatch(r"\$?\w+:", x)}


def _apart(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two loops are nested or have nothing in common."""
    (_, last), (head, back) = sorted((a, b))
    return last < head or back < last


def _counted(lines: list[str], labels: dict[str, int], head: int, back: int) -> bool:
    way = _BRANCH.fullmatch(lines[back])
    if way is None:
        return False
    tail = _straight(lines, range(back - 1, head, -1))
    asked = tail if way[2] else _straight(lines, range(head + 1, back))
    for at in asked:
        test = _TEST.fullmatch(lines[at])
        if test is None:
            continue
        predicate = test[3]
        if way[2]:  # the test stands behind the step, and its answer leads back
            goes_on = _NOT[test[1]] if way[1] else test[1]
            decides = predicate == way[2]
            between = lines[at + 1 : back]
        else:
            out = next((n for n in range(at + 1, back) if _leaves(lines[n], labels, head, back)), back)
            leaving = _BRANCH.fullmatch(lines[out])
            decides = out < back and leaving is not None and leaving[2] == predicate
            goes_on = test[1] if leaving is not None and leaving[1] else _NOT[test[1]]
            between = lines[at + 1 : out]
            decides = decides and not any(x.endswith(":") or " bra" in f" {x}" for x in between)
        if not decides or any(predicate in _written(x) for x in between):
            continue
        for counter, bound, how in ((test[4], test[5], goes_on), (test[5], test[4], _TURNED[goes_on])):
            up = [n for n in tail if re.fullmatch(rf"add\.[us]32 {counter}, {counter}, 1;", lines[n])]
            written = [n for n in range(head, back) if counter in _written(lines[n])]
            steps = len(up) == 1 and written == up and (not way[2] or up[0] < at)
            if steps and _ends(how, test[2], bound, lines[head:back]):
                return True
    return False


def _leaves(line: str, labels: dict[str, int], head: int, back: int) -> bool:
    """Whether a branch under a predicate leads out of a loop."""
    way = _BRANCH.fullmatch(line)
    return way is not None and bool(way[2]) and not head <= labels[way[3]] <= back


def _ends(goes_on: str, sign: str, bound: str, turn: list[str]) -> bool:
    """Whether a counter that goes up ends what goes on as long as it compares so with a bound."""
    every = _ALL.get((goes_on, sign))
    if bound.startswith("%"):
        return every is None and not any(bound in _written(x) for x in turn)
    return every is None or (int(bound) - every) % 2**32 != 0


def _straight(lines: list[str], places: range) -> list[int]:
    """The first of these places that all who come to one come to: up to a label or a branch."""
    found = []
    for n in places:
        if lines[n].endswith(":") or "bra" in re.split(r"[\s.]", lines[n]):
            break
        found.append(n)
    return found


def _written(line: str) -> set[str]:
    """The registers that an instruction may write; with what a store takes as its address."""
    operands = re.sub(r"^@!?%\w+\s+", "", line).split(" ", 1)
    if len(operands) < 2:
        return set()
    first = re.match(r"\s*(\{[^}]*\}|\[[^\]]*\]|[^,;]*)", operands[1])
    return set(_WORD.findall(first[1])) if first else set()
