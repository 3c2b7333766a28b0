"""Edits of PTX for which the events show no repair: semantics, scopes, and the words of an instruction.

A synchronizing instruction that says too little (``.relaxed``, ``.cta`` for two blocks, ``.read`` before a
flag) gives the same events in the same order as the right one. Each edit is tried; it counts if the kernel is
proved with it.

Worked example. ``mbarrier.try_wait.parity.relaxed.cluster`` before the reads of what a peer wrote: the wait
passes at the right time and receives nothing. With ``.acquire`` in the place of ``.relaxed`` it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from syncverify.base.diagnostics import Diagnostic, Mistake, Repair, TextEdit
from syncverify.base.source import Span
from syncverify.driver.repairs.author_statements import Lines, indent_of
from syncverify.driver.repairs.guessed_lines import guess, nearest

#: Instructions that hand on or receive, with what they say too little of, and what is meant.
_WEAK = (
    (re.compile(r"(mbarrier\.(?:try|test)_wait\S*?|\bld)\.relaxed\b"), r"\1.acquire", "receive here"),
    (re.compile(r"(mbarrier\.arrive\S*?|barrier\.cluster\.arrive|\bst|\bred)\.relaxed\b"),
     r"\1.release", "hand on here"),
    (re.compile(r"(\batom)\.relaxed\b"), r"\1.acq_rel", "hand on and receive here"),
)  # fmt: skip
_NARROW = (
    (re.compile(r"(\.(?:release|acquire|acq_rel|sc))\.cta\b"), r"\1.cluster"),
    (re.compile(r"(\.(?:release|acquire|acq_rel|sc))\.(?:cta|cluster)\b"), r"\1.gpu"),
)
_OF_READS = re.compile(r"(cp\.async\.bulk\.wait_group)\.read\b")
_PDL = re.compile(r"griddepcontrol\.wait\b|cudaGridDependencySynchronize\s*\(")
_PREINCREMENTS = re.compile(r"(cp\.async\.mbarrier\.arrive)(?!\.noinc)(?=[.\s])")
_POLL = re.compile(r"^\s*mbarrier\.(?:try|test)_wait[\w.:]*\s+(?P<p>%\w+)\s*,[^;]*;\s*$")
_COUNTED = re.compile(r"\bbar(?:rier)?[\w.]*\.(?:sync|arrive|red)\S*\s[^;]*?\b(?P<id>\d+)\s*,\s*(?P<n>\d+)\b")
_SIGNAL = re.compile(r"^\s*(?:@!?%\w+\s+)?(?:atom|red)\b\S*global\S*\s")
_COUNT = re.compile(r"^\s*(?:@!?%\w+\s+)?atom\b\S*global\S*\.(?:inc|add)\b")
_COUNT_IN_CUDA = re.compile(r"=[^;=]*\batomic(?:Inc|Add)\s*\(")
_FENCE = "fence.acq_rel.gpu;"
_BARRIER_NAMED = re.compile(
    r"^\s*mbarrier\.(?!init|inval)\S+\s[^;\[]*(?P<at>\[(?P<base>%\w+)(?:\+(?P<n>\d+))?\])"
)
_LABEL = re.compile(r"^\s*[\w$]+:\s*$")
_PARTS = re.compile(r"^\s*@!?%\w+\s+bra\b")
_MEET = "bar.sync 0;"
#: Rules of what is in no order, of what stays open, and guesses of a kind.
_OF_ORDER = frozenset({"SV110", "SV111", "SV112", "SV115", "SV204", "SV211", "SV501"})
_OF_ARRIVALS = frozenset({"SV202", "SV210"})
_OF_LIVES = frozenset({"SV204", "SV205"})
_OF_SLOTS = frozenset({"SV110", "SV201", "SV202", "SV203", "SV210", "SV212"})
_MOST_WEAK, _MOST_SIGNALS, _MOST_SLOTS, _MOST_COUNTS = 3, 5, 4, 2
#: Lines of a text that takes long to check.
_LONG = 500
#: Lines from a place that a wait or an arrival of the same threads is looked for.
_BEFORE = 4


def words_of_order(found: Diagnostic, file: str, text: Lines) -> Iterator[Repair]:
    """Semantics and scopes of the lines nearest to a race: said too weakly, they are the mistake.

    Of a long text none, but where a scope is the finding: each costs a check of the kernel.
    """
    if text.kind != "ptx" or found.rule not in _OF_ORDER:
        return
    places = _places(found, file)
    if found.rule == "SV115":
        yield from islice(_narrow(file, text, places), _MOST_WEAK)
    elif len(text.lines) <= _LONG:
        yield from islice(_weak(file, text, places), _MOST_WEAK)


def ptx_guesses(found: Diagnostic, file: str, text: Lines) -> Iterator[Repair]:
    """Repairs, with their edits of the text, that may mend a finding in a file of PTX."""
    if found.rule == "SV503" and text.kind in ("ptx", "cu"):
        yield from _waits_first(found, file, text)
    if found.rule == "SV110" and text.kind == "cu":
        yield from islice(_counts_in_cuda(file, text, _places(found, file)), _MOST_COUNTS)
    if text.kind != "ptx":
        return
    places = _places(found, file)
    if found.rule in ("SV501", "SV110"):
        yield from _whole_operations(file, text, places)
    if found.rule == "SV209":
        yield from _loops(found, file, text)
    if found.rule in _OF_ARRIVALS:
        yield from _counted_copies(file, text, places)
    if found.rule == "SV301":
        yield from _same_counts(file, text, places)
    if found.rule in _OF_LIVES:
        yield from _meetings(file, text, places)
    if found.rule in _OF_SLOTS:
        yield from islice(_other_barriers(file, text, places), _MOST_SLOTS)
    if found.rule == "SV110":
        yield from islice(_fences(file, text, places), _MOST_SIGNALS)


def _places(found: Diagnostic, file: str) -> list[int]:
    return [span.line for span in (found.span, *(x.span for x in found.related)) if span.file == file]


def _weak(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    for n in nearest(text, places):
        for weak, strong, said in _WEAK:
            if weak.search(text.code(n)):
                yield guess(Mistake.SCOPE, Span(file, n), said, text, weak.sub(strong, text.lines[n - 1]))


def _narrow(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    said = "name a scope that holds both threads"
    for n in nearest(text, places):
        for narrow, wide in _NARROW:
            if narrow.search(text.code(n)):
                yield guess(Mistake.SCOPE, Span(file, n), said, text, narrow.sub(wide, text.lines[n - 1]))


def _whole_operations(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Waits for the reads of bulk copies: for the copies."""
    said = "wait until the writes are done, too: .read tells of the source alone"
    for n in nearest(text, places):
        if _OF_READS.search(text.code(n)):
            yield guess(Mistake.LAX_WAIT, Span(file, n), said, text, _OF_READS.sub(r"\1", text.lines[n - 1]))


def _waits_first(found: Diagnostic, file: str, text: Lines) -> Iterator[Repair]:
    """The wait for the grid before, moved in front of the access; in PTX, one added there."""
    n = found.span.line
    if found.span.file != file or not 0 < n <= len(text.lines):
        return
    said = "wait for the grid before first"
    later = next((m for m in range(n + 1, len(text.lines) + 1) if _PDL.search(text.code(m))), None)
    if later is not None:
        stay = tuple(text.lines[n - 1 : later - 1])
        wait = text.lines[later - 1]
        edit = TextEdit(file, n, (*stay, wait), (wait, *stay))
        yield Repair(Mistake.MISPLACED_WAIT, Span(file, later), said, edit=edit)
    if text.kind == "ptx":
        edit = TextEdit(file, n, (), (indent_of(text.lines[n - 1]) + "griddepcontrol.wait;",))
        yield Repair(Mistake.MISSING_WAIT, Span(file, n), said, edit=edit)


def _loops(found: Diagnostic, file: str, text: Lines) -> Iterator[Repair]:
    """A poll whose answer nobody asks: asked until it is yes."""
    n = found.span.line
    poll = _POLL.match(text.code(n)) if found.span.file == file and 0 < n <= len(text.lines) else None
    if poll is not None:
        line, label = text.lines[n - 1], f"WAIT_{n}"
        gap = indent_of(line)
        new = (f"{gap}{label}:", line, f"{gap}@!{poll['p']} bra {label};")
        said = "repeat this until it is true"
        yield Repair(Mistake.MISSING_WAIT, Span(file, n), said, edit=TextEdit(file, n, (line,), new))


def _counted_copies(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Arrivals of copies that add one to the count before they take one."""
    said = "let it take one of the arrivals that the init counts: .noinc"
    for n in nearest(text, places):
        if _PREINCREMENTS.search(text.code(n)):
            new = _PREINCREMENTS.sub(r"\1.noinc", text.lines[n - 1])
            yield guess(Mistake.MISSING_ARRIVE, Span(file, n), said, text, new)


def _same_counts(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Barriers of threads: with the count that other lines give the same barrier."""
    met = [(n, m) for n in nearest(text, places) if (m := _COUNTED.search(text.code(n))) is not None]
    for n, m in met:
        for count in dict.fromkeys(other["n"] for _, other in met if other["id"] == m["id"]):
            if count != m["n"]:
                line = text.lines[n - 1]
                new = line[: m.start("n")] + count + line[m.end("n") :]
                yield guess(Mistake.COUNT, Span(file, n), f"{count} threads come here", text, new)


def _fences(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Fences around what tells other blocks that something is done: before it, behind an atomic that counts
    blocks, and on both sides of that."""
    before = "a fence before this: it tells other blocks of what was written"
    behind = "a fence behind this: a count acquires nothing of what other blocks wrote before theirs"
    both = "a fence before this and one behind it: a count neither hands on nor receives"
    for n in nearest(text, places):
        line, signal = text.lines[n - 1], _SIGNAL.match(text.code(n))
        fence = indent_of(line) + _FENCE
        found = [(before, TextEdit(file, n, (), (fence,)))] if signal else []
        if signal and _COUNT.match(text.code(n)):
            found.append((behind, TextEdit(file, n + 1, (), (fence,))))
            found.append((both, TextEdit(file, n, (line,), (fence, line, fence))))
        for said, edit in found:
            yield Repair(Mistake.MISSING_FENCE, Span(file, n), said, edit=edit)


def _counts_in_cuda(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Fences behind atomics of CUDA by which blocks count themselves."""
    said = "a fence behind this: a count acquires nothing of what other blocks wrote before theirs"
    for n in nearest(text, places):
        if _COUNT_IN_CUDA.search(text.code(n)):
            edit = TextEdit(file, n + 1, (), (indent_of(text.lines[n - 1]) + "__threadfence();",))
            yield Repair(Mistake.MISSING_FENCE, Span(file, n), said, edit=edit)


def _meetings(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Barriers of the block around the life of an mbarrier: where its threads come together behind a place,
    and before they part in front of it."""
    last = len(text.lines)
    for n in dict.fromkeys(places):
        behind = next((m for m in range(n + 1, last + 1) if _LABEL.match(text.code(m))), last)
        before = next((m for m in range(n, 0, -1) if _PARTS.match(text.code(m))), 1)
        for at, said in (
            (behind + 1, "all threads meet here, behind this"),
            (before, "all threads meet first"),
        ):
            edit = TextEdit(file, at, (), (_MEET,))
            yield Repair(Mistake.MISSING_BARRIER, Span(file, min(at, last)), said, edit=edit)


def _other_barriers(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Operations on an mbarrier at a place, or just before it: on others of the same base."""
    named = {n: m for n in range(1, len(text.lines) + 1) if (m := _BARRIER_NAMED.search(text.code(n)))}
    for n in nearest(text, places):
        m = named.get(n)
        if m is None or not any(0 <= p - n <= _BEFORE for p in places):
            continue
        line, base = text.lines[n - 1], m["base"]
        for other in sorted({x["n"] or "0" for x in named.values() if x["base"] == base}, key=int):
            if int(other) != int(m["n"] or 0):
                there = f"[{base}+{other}]" if int(other) else f"[{base}]"
                new = line[: m.start("at")] + there + line[m.end("at") :]
                said = f"the mbarrier at {there} is meant here"
                yield guess(Mistake.OTHER_BARRIER, Span(file, n), said, text, new)


__all__ = ["ptx_guesses", "words_of_order"]
