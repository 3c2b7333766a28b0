"""Loops of a text that a counter ends, whatever data says: it goes up by one to a bound that stays."""

from __future__ import annotations

import re

_WORD = re.compile(r"%\w+")
_TEST = re.compile(r"setp\.lt\.u32 (%\w+), (%\w+), (%\w+|\d+);")
_BACK = re.compile(r"(?:@(%\w+) )?bra(?:\.uni)? (\w+);")
_LEAVES = re.compile(r"@!(%\w+) bra(?:\.uni)? (\w+);")
_OTHER_WAYS = ("call", "brx", "ret.uni")


def all_counted(text: str) -> bool:
    """Whether each loop of a kernel ends after so many turns as a number without a sign has at most.

    Each way back has its own label, and loops are nested or apart. In each turn the counter goes up right
    before the way back; a test at the head or there leaves the loop. Whether lanes wait is not asked.
    """
    lines = [x.split("//")[0].strip() for x in text.splitlines()]
    labels = {x[:-1]: n for n, x in enumerate(lines) if re.fullmatch(r"\$?\w+:", x)}
    if any(x.split()[0].lstrip("{ ").startswith(_OTHER_WAYS) for x in lines if x):
        return False
    loops: list[tuple[int, int]] = []
    for n, line in enumerate(lines):
        if "bra" not in re.split(r"[\s.]", line):
            continue
        target = re.search(r"bra(?:\.uni)? ([\w$]+);", line)
        if target is None or target[1] not in labels:
            return False
        if labels[target[1]] <= n:
            loops.append((labels[target[1]], n))
    heads = {head for head, _ in loops}
    apart = all(a == b or _apart(a, b) for a in loops for b in loops)
    return len(heads) == len(loops) and apart and all(_counted(lines, labels, *at) for at in loops)


def _apart(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two loops are nested or have nothing in common."""
    (_, last), (head, back) = sorted((a, b))
    return last < head or back < last


def _counted(lines: list[str], labels: dict[str, int], head: int, back: int) -> bool:
    way = _BACK.fullmatch(lines[back])
    if way is None:
        return False
    tail = _straight(lines, range(back - 1, head, -1))
    asked = tail if way[1] else _straight(lines, range(head + 1, back))
    for at in asked:
        test = _TEST.fullmatch(lines[at])
        if test is None:
            continue
        counter, bound = test[2], test[3]
        up = [n for n in tail if re.fullmatch(rf"add\.u32 {counter}, {counter}, 1;", lines[n])]
        written = [n for n in range(head, back) if counter in _written(lines[n])]
        stays = bound.isdigit() or not any(bound in _written(x) for x in lines[head:back])
        if len(up) != 1 or written != up or not stays:
            continue
        if way[1]:  # the test stands behind the step, and its answer leads back
            leaves = test[1] == way[1] and up[0] < at
            between = lines[at + 1 : back]
        else:
            out = next((n for n in range(at + 1, back) if _LEAVES.fullmatch(lines[n])), back)
            leaving = _LEAVES.fullmatch(lines[out])
            leaves = leaving is not None and leaving[1] == test[1]
            leaves = leaves and leaving is not None and not head <= labels[leaving[2]] <= back
            between = lines[at + 1 : out]
            leaves = leaves and not any(x.endswith(":") or " bra" in f" {x}" for x in between)
        if leaves and not any(test[1] in _written(x) for x in between):
            return True
    return False


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
