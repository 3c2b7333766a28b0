"""Edits of a CUDA text for which the events show no repair: turns of loops, conditions, and who issues.

The events of one turn too many are those of a right turn, and those of a thread that a condition keeps away
are not there, so no edit of events mends them. What authors get wrong there is small: a bound that is off by
one, a condition that lets too few or too many come, a rank. Each such edit is tried; it counts if the kernel
is proved with it.

Worked example. ``if (t < n - 1) wait(&empty[s], p);`` skips the last wait. The guesses are the same without
``- 1``, and the statement without its condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

from syncverify.base.diagnostics import Diagnostic, Mistake, Repair, TextEdit
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import (
    Lines,
    flipped,
    indent_of,
    is_one_statement,
    last_operand,
    unguarded,
)
from syncverify.driver.repairs.guessed_clusters import MOST_RANKS, arrivals_elsewhere, meetings, ranks, scopes
from syncverify.driver.repairs.guessed_lines import guess, nearest
from syncverify.driver.repairs.guessed_states import state_guesses

_BOUND = re.compile(r"\bfor\s*\([^;]*;(?P<bound>[^;]*);")
_COUNTS = re.compile(
    r"\bfor\s*\(\s*(?:[\w:]+\s+)+(?P<name>\w+)\s*=\s*0\s*;\s*(?P=name)\s*<(?P<bound>[^;=]+);"
)
_LEAVES = re.compile(r"^\s*if\s*\(.*\)\s*(?:return|break)\s*;\s*$")
_CONDITION = re.compile(r"^\s*(?:\}\s*else\s+)?if\s*\(")
#: A statement that arrives at an mbarrier, and announces nothing.
_ARRIVES = re.compile(r"^\s*(?!.*expect)[\w:.\[\]]*arrive\w*\s*\(", re.I)
_BRANCH = re.compile(r"^\s*(?:\}\s*)?(?:else\s+)?(?:if\b|else\b)")
_IS_BARRIER = re.compile(r"^\s*(?:__syncthreads\w*|[\w.:()]*sync\w*)\s*\([^;]*\)\s*;\s*$")
#: Bounds that may be off by one, and what they may mean.
_OFF_BY_ONE = (
    (re.compile(r"<="), "<", "one turn fewer here"),
    (re.compile(r"\s*-\s*1\b"), "", "one turn more here"),
    (re.compile(r"\s*\+\s*1\b"), "", "one turn fewer here"),
)
_ONE_THREAD = re.compile(r"(?P<who>[\w.]+(?:\s*%\s*\w+)?)\s*==\s*(?P<number>\w+)")
_SYNCHRONIZES = re.compile(r"wait|arrive|release|commit|expect|sync|reg|fence|init|asm", re.I)
#: What too few or too many turns of one side break; many issuers; conditions; the ranks of a cluster.
_OF_TURNS = frozenset({"SV114", "SV207", "SV208", "SV210", "SV211", "SV212"})
_OF_ISSUERS = frozenset({"SV202", "SV203"})
_OF_CONDITIONS = frozenset(
    {"SV110", "SV111", "SV112", "SV201", "SV202", "SV203", "SV206", "SV207", "SV210", "SV211", "SV212",
     "SV301", "SV302", "SV303", "SV304"}
)  # fmt: skip
_OF_EXITS = frozenset({"SV210", "SV202", "SV301", "SV302"})
_OF_RANKS = frozenset({"SV112", "SV202", "SV203", "SV206", "SV210", "SV212"})
_OF_PARITIES = frozenset({"SV201", "SV210", "SV110", "SV112"})
_OF_SLOTS = frozenset({"SV110", "SV111", "SV112"})
_OF_MEETINGS = frozenset({"SV110", "SV111", "SV114"})
_OF_STATES = _OF_PARITIES | {"SV111", "SV202", "SV203", "SV206", "SV301"}
_MOST_PARITIES, _MOST_INDICES = 6, 5
#: Slots of a ring whose number is off by one, or that of a neighbour; what the author may have meant.
_MODULUS = re.compile(r"%\s*\(\s*(?P<n>\w+)\s*[-+]\s*1\s*\)")
_NEIGHBOUR = re.compile(r"\[\s*\(\s*(?P<i>\w+)\s*[-+]\s*\d+\s*\)\s*(?P<by>[%&]\s*\w+)\s*\]")
_OWN = re.compile(r"\[\s*(?P<i>\w+)\s*(?P<by>[%&]\s*\w+)\s*\]")
#: The bound of a loop that initializes, as a number.
_LITERAL_BOUND = re.compile(r"\bfor\s*\([^;]*;[^;]*<\s*(?P<n>\d+)[uUlL]*\s*;")
_INIT = re.compile(r"init\w*\s*\(", re.I)
_MOST_BODY = 4
#: Lines of a block whose condition is guessed at.
_MOST_BLOCK = 6
#: Rules of what threads execute together.
_TOGETHER = frozenset({"SV301", "SV302", "SV303", "SV304"})
#: What is lacking where a statement of that name is not executed.
_LACKING = (
    (r"expect", Mistake.BYTES),
    (r"arrive|release", Mistake.MISSING_ARRIVE),
    (r"commit", Mistake.MISSING_COMMIT),
    (r"wait", Mistake.MISSING_WAIT),
    (r"fence", Mistake.MISSING_FENCE),
    (r"init", Mistake.MISSING_INIT),
    (r"sync|\bbar\b", Mistake.MISSING_BARRIER),
)
_LANE_ZERO = "threadIdx.x % 32 == 0"
_ONE_LANE = f"if ({_LANE_ZERO}) "
_ONE_OF_WARP = "let one thread of the warp do this"
_LANES, _GROUP = 32, 128
#: Lines around those that a finding names, whose conditions are guessed at.
_AROUND = 3


def guesses(found: Diagnostic, file: str, text: Lines) -> Iterator[Repair]:
    """Repairs, with their edits of the text, that may mend a finding in a file of CUDA."""
    if text.kind != "cu":
        return
    places = [span.line for span in (found.span, *(x.span for x in found.related)) if span.file == file]
    tries: list[Iterator[Repair]] = [
        _met_before(found, file, text),
        _behind_branch(found, file, text, places),
    ]
    if found.rule in _OF_STATES:
        tries.append(state_guesses(file, text, places))
    if found.rule in _OF_PARITIES:
        tries.append(islice(_parities(file, text, places), _MOST_PARITIES))
    if found.rule in _OF_RANKS:
        tries.append(islice(ranks(file, text, places), MOST_RANKS))
    if found.rule == "SV115":
        tries.append(scopes(file, text))
    if found.rule == "SV204":
        tries.append(_more_inits(file, text))
        tries.append(_turns(file, text, places, Mistake.MISSING_INIT))
    if found.rule in _OF_MEETINGS:
        tries.append(meetings(file, text, places))
    if found.rule in _OF_SLOTS:
        tries.append(islice(_indices(file, text, places), _MOST_INDICES))
    if found.rule in _OF_CONDITIONS:
        tries.append(_conditions(found, file, text, places))
    if found.rule in _OF_EXITS:
        tries.append(_arriving_exits(file, text, places))
        tries.append(_exits(file, text, places))
        tries.append(_ends(found, file, text))
    if found.rule in _OF_TURNS or found.rule in _OF_CONDITIONS:
        tries.append(_turns(file, text, places))
    if found.rule in _OF_ISSUERS and found.span.file == file:
        tries.append(_one_issuer(found.span, text))
    if found.rule in _OF_RANKS:
        tries.append(arrivals_elsewhere(file, text, places))
    if found.rule in _OF_CONDITIONS:
        tries.append(_flips(file, text))
    yield from chain.from_iterable(tries)


def _met_before(found: Diagnostic, file: str, text: Lines) -> Iterator[Repair]:
    """A barrier of the block before a statement that some threads execute, ahead of their conditions.

    Where one lane of each warp writes and one thread reads, no place of the events is one of all threads.
    """
    n = found.span.line
    lacks = found.rule in _OF_SLOTS and found.cause is Mistake.MISSING_BARRIER
    if not lacks or found.span.file != file or not 0 < n <= len(text.lines) or text.function_of(n):
        return
    for first, _ in text.blocks(n):
        if _condition(text.code(first)) is None or text.code(first).lstrip().startswith("}"):
            break
        n = first
    said = "a barrier of the whole block before this: all threads come here"
    edit = TextEdit(file, n, (), (indent_of(text.lines[n - 1]) + "__syncthreads();",))
    yield Repair(Mistake.MISSING_BARRIER, Span(file, n), said, edit=edit)


def _behind_branch(found: Diagnostic, file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """A barrier that only some threads come to, behind the branch that it stands in."""
    for n in places if found.cause is Mistake.DIVERGENCE else ():
        line = text.lines[n - 1]
        if not _IS_BARRIER.match(text.code(n)):
            continue
        branch = next((b for b in text.blocks(n) if _BRANCH.match(text.code(b[0]))), None)
        if branch is None:
            return
        first, last = branch
        closing = indent_of(text.lines[first - 1]) + "}"
        while text.code(last).lstrip().startswith("} else"):
            later = (m for m in range(last + 1, len(text.lines) + 1) if text.code(m).startswith(closing))
            last = next(later, len(text.lines))
        stay = tuple(text.lines[n:last])
        moved = indent_of(text.lines[first - 1]) + line.strip()
        said = "this barrier belongs behind the branch: all threads come there"
        yield Repair(
            Mistake.DIVERGENCE, Span(file, n), said, edit=TextEdit(file, n, (line, *stay), (*stay, moved))
        )
        return


def _turns(file: str, text: Lines, places: list[int], mistake: Mistake = Mistake.TURNS) -> Iterator[Repair]:
    """Loops and conditions whose bound is off by one."""
    for n in nearest(text, places):
        line, code = text.lines[n - 1], text.code(n)
        header = _BOUND.search(code)
        span = header.span("bound") if header is not None else _condition(code)
        for wrong, right, said in _OFF_BY_ONE if span is not None else ():
            assert span is not None
            start, end = span
            bound = wrong.sub(right, line[start:end], count=1)
            if bound != line[start:end]:
                yield guess(mistake, Span(file, n), said, text, line[:start] + bound + line[end:])


def _more_inits(file: str, text: Lines) -> Iterator[Repair]:
    """Loops that initialize, for one turn more."""
    for n in range(1, len(text.lines) + 1):
        line, bound = text.lines[n - 1], _LITERAL_BOUND.search(text.code(n))
        body = (text.code(k) for k in range(n, min(n + _MOST_BODY, len(text.lines) + 1)))
        if bound is not None and any(_INIT.search(code) for code in body):
            start, end = bound.span("n")
            new = line[:start] + str(int(bound["n"]) + 1) + line[end:]
            yield guess(Mistake.MISSING_INIT, Span(file, n), "one turn more here", text, new)


def _indices(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Indices of a ring: another modulus anywhere, and at the places the slot of the turn or the next one."""
    said = "another slot is meant here"
    for n in nearest(text, places):
        for wrong, right in (
            (_MODULUS, r"% \g<n>"),
            (_NEIGHBOUR, r"[\g<i> \g<by>]"),
            (_OWN, r"[(\g<i> + 1) \g<by>]"),
        ):
            code = text.code(n)
            if wrong.search(code) and (wrong is _MODULUS or n in places):
                yield guess(Mistake.OTHER_BARRIER, Span(file, n), said, text, wrong.sub(right, code))


def _parities(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Waits that a finding names, for the parity that another wait asks for, or for its opposite."""
    waits = [n for n in range(1, len(text.lines) + 1) if _waits(text.code(n))]
    written: dict[str, None] = {}
    for n in sorted(waits, key=lambda n: min((abs(n - p) for p in places), default=0)):
        spot = last_operand(text.code(n), text.kind)
        if spot is not None:
            written[text.code(n)[slice(*spot)]] = None
    for n in dict.fromkeys(p for p in places if p in waits):
        code = text.code(n)
        spot = last_operand(code, text.kind)
        if spot is None:
            continue
        start, end = spot
        for other in (x for w in written for x in (w, *islice(flipped(w, text.kind), 1))):
            if other != code[start:end]:
                new = code[:start] + other + code[end:]
                yield guess(Mistake.LATER_PARITY, Span(file, n), "the parity of another wait", text, new)


def _waits(code: str) -> bool:
    """Whether a line is a call that waits for a parity."""
    return is_one_statement(code) and "wait" in code.lower() and "asm" not in code and '"' not in code


def _exits(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Threads that leave under a condition, near the places: they stay."""
    for n in nearest(text, places):
        if min((abs(n - p) for p in places), default=_AROUND + 1) > _AROUND:
            return
        if _LEAVES.match(text.code(n)):
            edit = TextEdit(file, n, (text.lines[n - 1],), ())
            yield Repair(Mistake.DIVERGENCE, Span(file, n), "do not leave before the others", edit=edit)


def _arriving_exits(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Threads that leave under a condition, near the places: they arrive first, as the others do there."""
    arrivals = [code for n in places if _ARRIVES.match(code := text.code(n)) and is_one_statement(code)]
    for n in nearest(text, places) if arrivals else ():
        if min((abs(n - p) for p in places), default=_AROUND + 1) > _AROUND:
            return
        leaves = _LEAVES.match(text.code(n))
        if leaves is None or "return" not in text.code(n):
            continue
        held = _condition(text.code(n))
        head = text.code(n)[: held[1] + 1] if held is not None else ""
        for arrive in dict.fromkeys(arrivals) if head else ():
            said = "threads that leave arrive first: the count is for them, too"
            new = f"{head} {{ {arrive.strip()} return; }}"
            yield guess(Mistake.MISSING_ARRIVE, Span(file, n), said, text, new)


def _ends(found: Diagnostic, file: str, text: Lines) -> Iterator[Repair]:
    """The statement that is found, without the first turn of its loop, or without the last."""
    n = found.span.line
    if found.span.file != file or not 0 < n <= len(text.lines):
        return
    code = text.code(n)
    heads = (_COUNTS.search(text.code(first)) for first, _ in text.blocks(n))
    loop = next((m for m in heads if m is not None), None)
    if loop is None or not is_one_statement(code) or code.lstrip().startswith(("if", "for", "while")):
        return
    bare, name = code.strip(), loop["name"]
    for condition, said in (
        (f"{name} > 0", "in the first turn nobody has come before"),
        (f"{name} + 1 < {loop['bound'].strip()}", "behind the last turn nobody comes any more"),
    ):
        yield guess(Mistake.TURNS, found.span, said, text, f"{indent_of(code)}if ({condition}) {bare}")


def _condition(code: str) -> tuple[int, int] | None:
    """Where the condition of an ``if`` stands that begins a line."""
    head = _CONDITION.match(code)
    if head is None:
        return None
    depth = 1
    for i in range(head.end(), len(code)):
        depth += (code[i] == "(") - (code[i] == ")")
        if depth == 0:
            return head.end(), i
    return None


def _conditions(found: Diagnostic, file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Statements near the places that synchronize, for other threads, or without their condition."""
    own = {f.name for f in text.functions() if "asm" in f.body}
    for n in nearest(text, places):
        if min((abs(n - p) for p in places), default=_AROUND + 1) > _AROUND:
            return
        code = text.code(n)
        span = _condition(code)
        if span is not None and not code[span[1] + 1 :].strip(" {"):
            yield from _whole_blocks(found.rule, Span(file, n), text, own)
            continue
        if span is None or not (is_one_statement(code) and _synchronizes(code[span[1] :], own)):
            continue
        mistake = _kept_away(found.rule, code[span[1] :])
        one = _ONE_THREAD.search(code, *span)
        for new in _other_threads(one) if one is not None else ():
            assert one is not None
            said = "other threads have to do this, too"
            yield guess(mistake, Span(file, n), said, text, code[: one.start()] + new + code[one.end() :])
        said = "do this whatever the condition says"
        yield guess(mistake, Span(file, n), said, text, indent_of(code) + unguarded(code))


def _whole_blocks(rule: str, head: Span, text: Lines, own: set[str]) -> Iterator[Repair]:
    """A condition before a small block that synchronizes: the block without it."""
    n = head.line
    code = text.code(n)
    block = next((b for b in text.blocks(n + 1) if b[0] == n), None) if n < len(text.lines) else None
    if block is None or block[1] - n > _MOST_BLOCK or code.lstrip().startswith("}"):
        return
    inside = [text.code(m) for m in range(n + 1, block[1])]
    held = next((x for x in inside if is_one_statement(x) and _synchronizes(x, own)), None)
    if held is not None and text.code(block[1]).strip() == "}":
        said = "do this whatever the condition says"
        yield guess(_kept_away(rule, held), head, said, text, indent_of(code) + "{")


def _synchronizes(statement: str, own: set[str]) -> bool:
    """Whether a statement may synchronize: by its words, or as a call of an author's function of assembly."""
    return bool(_SYNCHRONIZES.search(statement)) or any(w in own for w in re.findall(r"\w+", statement))


def _kept_away(rule: str, statement: str) -> Mistake:
    """The class of a condition that keeps threads away from a statement."""
    if rule in _OF_ISSUERS:
        return Mistake.COUNT
    if rule in _TOGETHER:
        return Mistake.DIVERGENCE
    return next(
        (mistake for word, mistake in _LACKING if re.search(word, statement, re.I)), Mistake.DIVERGENCE
    )


def _other_threads(one: re.Match[str]) -> Iterator[str]:
    """One thread of each warpgroup, and of each warp, in the place of one thread."""
    who = one["who"].split("%")[0].strip()
    for size in (_GROUP, _LANES):
        if one["who"] != f"{who} % {size}":
            yield f"{who} % {size} == {int(one['number']) % size if one['number'].isdecimal() else 0}"


def _one_issuer(at: Span, text: Lines) -> Iterator[Repair]:
    """The blocks around a statement, for one lane of each warp, the innermost first."""
    for first, _ in text.blocks(at.line):
        code = text.code(first).strip()
        line = text.lines[first - 1]
        held = _condition(line)
        if held is not None and not code.startswith("}"):
            start, end = held
            new = f"{line[:start]}({line[start:end]}) && {_LANE_ZERO}{line[end:]}"
            yield guess(Mistake.SECOND_PRODUCER, Span(at.file, first), _ONE_OF_WARP, text, new)
        if code == "{" or re.match(r"for\s*\(", code):
            new = indent_of(line) + _ONE_LANE + line.lstrip()
            yield guess(Mistake.SECOND_PRODUCER, Span(at.file, first), _ONE_OF_WARP, text, new)
    code = text.code(at.line)
    if is_one_statement(code) and not _CONDITION.match(code):
        new = indent_of(code) + _ONE_LANE + code.strip()
        yield guess(Mistake.SECOND_PRODUCER, at, _ONE_OF_WARP, text, new)


def _flips(file: str, text: Lines) -> Iterator[Repair]:
    """A parity that flips at each use, where the line before wraps the slot: flipped with it."""
    for n in range(2, len(text.lines) + 1):
        wrap, flip = text.code(n - 1), text.code(n)
        span = _condition(wrap)
        if span is None or not is_one_statement(wrap) or not re.match(r"\s*\w+\s*\^=\s*1\s*;$", flip):
            continue
        body = wrap[span[1] + 1 :].strip()
        new = (f"{wrap[: span[1] + 1]} {{", f"{indent_of(flip)}  {body}", f"  {flip}", f"{indent_of(flip)}}}")
        edit = TextEdit(file, n - 1, (text.lines[n - 2], text.lines[n - 1]), new)
        said = "the parity flips when the slot wraps, not at each use"
        yield Repair(Mistake.LATER_PARITY, Span(file, n), said, edit=edit)


__all__ = ["guesses"]
