"""Statements that synchronize, in the words of a file's author.

A repair that adds a wait, an arrival or an announcement needs a statement for it. There are three sources:
a statement of the file that does the like, with the mbarrier and the parity exchanged; a call of a device
function of the file whose body holds the instruction; the instruction as inline assembly. The likeliest
come first. Each is a candidate: what does not compile, or does not mend the kernel, is not shown.

Worked example. ``wait(&full[s], (r / 3) & 1)`` is gone, and ``wait(&empty[s], (r / 3 + 1) & 1)`` stands
there. The candidates are ``wait(&full[s], (r / 3 + 1) & 1)`` and, with the other parity,
``wait(&full[s], (r / 3) & 1)``. Functions are those of the file and of its headers (``author_functions``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import EditHint, EditKind
from syncverify.driver.repairs.author_functions import AuthorFunction, barrier_calls, functions
from syncverify.driver.repairs.ptx_statements import ptx_statements

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_IS_CALL = re.compile(r"!?\s*\w[\w.:]*\(.*\)$")
_WAIT_CALL = re.compile(r"\b\w*wait\w*\s*\(", re.I)
_LAST_IN_ASM = re.compile(r"(?<=\], )\d+(?=;)")
_GUARD = re.compile(r"^\s*if\s*\(")
_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)*")
_LOOP_OF = re.compile(r"\bfor\s*\(\s*(?:[\w:]+\s+)+(?P<name>\w+)\s*=\s*0\s*;")
_MODULO = re.compile(r"^(?P<inner>.+?)\s*(?P<by>&\s*1|%\s*2)$")
#: Expressions of a kind that are tried.
_MOST = 3
_BARRIER_OF = re.compile(r"\b(?:bar|barrier)(?:\.\w+)*\s+(?P<id>[^\s,;]+)")
_CALL = re.compile(r"\b\w+\s*(?:<\s*(?P<id>[^<>,]+)[^<>]*>\s*(?:::\s*\w+\s*)?\(|\(\s*(?P<first>[^(),]+)[,)])")
_LOOPS = 2
#: A member of an object that holds several arrays of barriers.
_MEMBER = r"(?:\.\w+)?"
#: What stands in the brackets of an element, of an array of several dimensions too.
_INDICES = r"[^][]*(?:\]\s*\[[^][]*)*"
_DECLARED = re.compile(r"__shared__|^\s*(?:[\w:]+\s+)+[\w\[\]]+\s*;")
_ADDRESS = '"r"(static_cast<unsigned>(__cvta_generic_to_shared({at})))'
_ONE_OF_WARP = "__syncwarp();\nif (threadIdx.x % 32 == 0) "
_ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%0];"
_OF_COPIES = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
_HEAD_OF = re.compile(
    r"(?<!\w)(?!(?:if|for|while|switch|do|else)\b)(?P<name>\w+)\s*\([^(){};]*\)\s*(?:const\s*)?\{"
)
_CLUSTER_GROUP = re.compile(r"\b(?P<name>\w+)\s*=\s*(?:\w+::)*this_cluster\(\s*\)")
_EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a file, its kind (cu, ptx or syncir), and the texts of its author's headers."""

    lines: Sequence[str]
    kind: str
    headers: tuple[str, ...] = ()

    def functions(self) -> tuple[AuthorFunction, ...]:
        """The device functions of a file of CUDA and of its headers."""
        return functions(("\n".join(self.lines), *self.headers)) if self.kind == "cu" else ()

    def loop_counters(self, line: int) -> list[str]:
        """The variables of the loops around a line that begin at 0, innermost first."""
        heads = (_LOOP_OF.search(self.code(first)) for first, _ in self.blocks(line))
        return [m["name"] for m in heads if m is not None]

    def function_of(self, line: int) -> str:
        """The name of the device function that a line is in; empty: of none, or of a kernel."""
        for n in range(line, 0, -1):
            head = _HEAD_OF.search(self.code(n))
            if head is not None:
                return "" if "__global__" in self.code(n) else head["name"]
            if "__global__" in self.code(n) or (n < line and self.code(n).startswith("}")):
                return ""
        return ""

    def lines_of(self, name: str) -> range:
        """The lines of the body of a device function; none where the file has no such function."""
        for n in range(1, len(self.lines) + 1):
            head = _HEAD_OF.search(self.code(n))
            if head is not None and head["name"] == name and "__global__" not in self.code(n):
                end = indent_of(self.lines[n - 1]) + "}"
                last = (m for m in range(n + 1, len(self.lines) + 1) if self.code(m).startswith(end))
                return range(n, next(last, n) + 1)
        return range(0)

    def code(self, line: int) -> str:
        """A line (from 1) without its comment; ``//`` divides in the IR."""
        text = self.lines[line - 1]
        return (text if self.kind == "syncir" else text.split("//")[0]).rstrip()

    def blocks(self, line: int) -> list[tuple[int, int]]:
        """First and last lines of the blocks around a line, innermost first, without the function's own."""
        indent = len(indent_of(self.lines[line - 1]))
        found: list[tuple[int, int]] = []
        for n in range(line - 1, 0, -1):
            code = self.code(n)
            at = len(indent_of(code))
            if not code.strip() or at >= indent or not code.endswith("{"):
                continue
            closing = (
                m for m in range(line + 1, len(self.lines) + 1) if self.code(m)[: at + 1] == " " * at + "}"
            )
            last = next(closing, 0)
            if not last or not at:
                break
            found.append((n, last))
            indent = at
        return found


def indent_of(line: str) -> str:
    """The white space before a line's text."""
    return line[: len(line) - len(line.lstrip())]


def last_operand(code: str, kind: str) -> tuple[int, int] | None:
    """Where the last operand stands: of the last call in CUDA, else of the statement."""
    end = len(code.rstrip("; \t"))
    if kind == "cu":
        end = code.rfind(")", 0, end)
        if end < 0:
            return None
    depth = 0
    for i in range(end - 1, -1, -1):
        depth += (code[i] in ")]}") - (code[i] in "([{")
        if depth < 0 or (depth == 0 and code[i] == ","):
            start = i + 1 + len(code[i + 1 :]) - len(code[i + 1 :].lstrip())
            if kind == "cu" and _IS_CALL.match(code, start, end):  # of a condition
                return last_operand(code[:end], kind)
            return (start, end) if start < end else None
    return None


def flipped(operand: str, kind: str) -> Iterator[str]:
    """Expressions of the other parity."""
    if operand in ("0", "1"):
        yield "10"[int(operand)]
        return
    if kind == "ptx":  # a register: what it holds is made elsewhere
        return
    if operand.endswith(" ^ 1") and _wrapped(operand[:-4]):
        yield operand[1:-5]
    modulo = _MODULO.match(operand)
    if modulo is not None:
        inner, by = modulo["inner"], modulo["by"]
        bare = inner[1:-1] if _wrapped(inner) else inner
        if bare.endswith(("+ 1", "- 1")):
            less = bare[:-3].rstrip()
            yield f"{less} {by}" if _wrapped(less) else f"({less}) {by}"
        yield f"({bare} + 1) {by}"
    yield f"({operand} + 1) % 2" if kind == "syncir" else f"({operand}) ^ 1"


def _wrapped(text: str) -> bool:
    """Whether one pair of parentheses holds the whole text."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[0] == "(" and i == len(text) - 1
    return False


def unguarded(statement: str) -> str:
    """A statement without the ``if (...)`` around it."""
    guard = _GUARD.match(statement)
    if guard is None:
        return statement.strip()
    depth = 1
    for i in range(guard.end(), len(statement)):
        depth += (statement[i] == "(") - (statement[i] == ")")
        if depth == 0:
            return statement[i + 1 :].strip()
    return statement.strip()


def without_head(code: str) -> str:
    """A statement without the ``for (...)`` or ``if (...)`` before it on its line."""
    bare = code.strip()
    while (head := re.match(r"(?:for|if|while)\s*\(", bare)) is not None:
        depth, i = 1, head.end()
        while depth and i < len(bare):
            depth += (bare[i] == "(") - (bare[i] == ")")
            i += 1
        bare = bare[i:].strip()
    return bare


def named_in(hint: EditHint, code: str) -> str:
    """Which of a hint's mbarriers a statement names; empty: none."""
    words = _words(hint.names)
    found = words.search(code) if words is not None else None
    return "" if found is None else found[0]


def is_one_statement(code: str) -> bool:
    """Whether a line of CUDA or PTX holds one statement, and no block."""
    bare = _QUOTED.sub('""', code)
    return bare.count(";") == 1 and bare.rstrip().endswith(";") and not {*"{}"} & {*bare}


def statements(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """What may be put at ``line`` to wait, arrive, announce, initialize or meet, without indent."""
    if text.kind == "ptx":
        yield from ptx_statements(hint, text.lines, line)
    match hint.kind:
        case EditKind.WAIT:
            yield from _waits(hint, text, line)
        case EditKind.ARRIVE if hint.number and text.kind == "cu":
            yield from (f"{_ONE_OF_WARP}{x}" for x in _arrivals(hint, text, line))
        case EditKind.ARRIVE:
            yield from _arrivals(hint, text, line)
        case EditKind.ANNOUNCE:
            yield from _announcements(hint, text, line)
        case EditKind.INIT:
            for like in _like(hint, text, number=hint.number):
                yield re.sub(rf"(\b{re.escape(hint.name)}\s*\[)\d+\]", rf"\g<1>{hint.size}]", like)
        case EditKind.BARRIER:
            yield from _meetings(hint, text)


def parities(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Parities that other waits of the file ask for, and their opposites; then those of a loop's turns."""
    found: dict[str, None] = {}
    for model in hint.models:
        code = text.code(model)
        spot = last_operand(code, text.kind)
        if spot is not None:
            found[code[slice(*spot)]] = None
    yield from found
    for operand in found:
        yield from list(flipped(operand, text.kind))[:1]
    yield from _turns(hint, text, line)


def _turns(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Parities of the uses of a ring that the loops around a line count."""
    if text.kind != "cu" or not hint.size:
        return
    for name in text.loop_counters(line)[:_LOOPS]:
        use = name if hint.size == 1 else f"{name} / {hint.size}"
        yield f"({use}) & 1" if hint.size > 1 else f"{use} & 1"
        yield f"({use} + 1) & 1"


def _waits(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Waits of the file for this mbarrier; the first time at once (``number`` 1), or not."""
    same = list(_like(hint, text))
    if hint.size == 1 and not hint.number and text.kind == "cu":  # the only phase that is known
        same = [_with_last(x, "0") for x in same] + same
    other = [new for statement in same for new in _with_other_parity(statement, text.kind)]
    turns = list(_turns(hint, text, line))
    first = turns[1::2] if hint.number else turns[::2]
    if hint.size == 1 and not hint.number and text.kind == "cu":
        first = ["0", *first]
    calls = (
        call
        for at in list(_mbarriers(hint, text, line))[:1]
        for parity in first
        for call in barrier_calls(text.functions(), "try_wait", at, parity)
    )
    yield from dict.fromkeys((*same, *other, *calls, *_token_waits(hint, text, line)))


def _token_waits(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Waits by the token that an arrival on the mbarrier gave, for the slots that the line reads."""
    if text.kind != "cu" or not _NAME.fullmatch(hint.name):
        return
    tokens = re.compile(
        rf"(?P<token>\w+)(?P<index>\[[^][]*\])?\s*=\s*[^;=]*\b{re.escape(hint.name)}\s*[\[.,]"
    )
    given = (m for n in range(1, len(text.lines) + 1) for m in tokens.finditer(text.code(n)) if _gives(m))
    code = text.code(line)
    own = {*re.findall(r"\bfor\s*\(\s*(?:[\w:]+\s+)+(\w+)", code)}
    slots = [i for i in dict.fromkeys(re.findall(r"\[(\w+)\]", code)) if i not in own]
    own_move = not any("<cuda/" in x for x in text.lines)
    move = "std::move" if own_move else "cuda::std::move"
    for token, indexed in dict.fromkeys((m["token"], m["index"] is not None) for m in given):
        for slot in slots[:_MOST] if indexed else [""]:
            at = f"[{slot}]" if indexed else ""
            yield f"{hint.name}{at}.wait({move}({token}{at}));"


def _gives(assigned: re.Match[str]) -> bool:
    """Whether an assignment takes what an arrival gives."""
    rest = assigned.string[assigned.start() :]
    return "arrive" in rest.split(";")[0]


def handing_on(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Arrivals at the barrier behind the one that a line waits for."""
    here = re.search(rf"{re.escape(hint.name)}\s*\[(?P<index>{_INDICES})\]", text.code(line))
    if here is None:
        return
    index = here["index"]
    for other in (*([f"{index} ^ 1"] if hint.size == 2 else []), f"({index} + 1) % {hint.size}"):
        at = f"{hint.name}[{other}]"
        yield from barrier_calls(text.functions(), "mbarrier.arrive", at)
        yield f'asm volatile("{_ARRIVE}" ::{_ADDRESS.format(at="&" + at)} : "memory");'


def _with_last(statement: str, operand: str) -> str:
    """A statement with another last operand."""
    spot = last_operand(statement, "cu")
    return statement if spot is None else statement[: spot[0]] + operand + statement[spot[1] :]


def _with_other_parity(statement: str, kind: str) -> list[str]:
    spot = last_operand(statement, kind)
    if spot is None:
        return []
    start, end = spot
    return [
        statement[:start] + new + statement[end:] for new in list(flipped(statement[start:end], kind))[:1]
    ]


def _arrivals(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Arrivals without bytes."""
    if text.kind == "syncir":
        yield from (f"mbarrier.arrive {at}" for at in _mbarriers(hint, text, line))
        return
    known = text.functions()
    for at in _mbarriers(hint, text, line):
        yield from barrier_calls(known, "mbarrier.arrive", at)
        if text.kind == "cu":
            yield f'asm volatile("{_ARRIVE}" ::{_ADDRESS.format(at="&" + at)} : "memory");'


def _announcements(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """Arrivals that announce bytes."""
    if text.kind == "syncir":
        yield from (f"mbarrier.arrive.expect_tx {at}, {hint.number}" for at in _mbarriers(hint, text, line))
        return
    yield from _like(hint, text, number=hint.number)
    known = text.functions()
    for at in _mbarriers(hint, text, line):
        yield from barrier_calls(known, "arrive.expect_tx", at, str(hint.number))
        if text.kind == "cu":
            place = _ADDRESS.format(at="&" + at)
            yield f'asm volatile("{_EXPECT}" ::{place}, "r"({hint.number}) : "memory");'


def _meetings(hint: EditHint, text: Lines) -> Iterator[str]:
    """Barriers of the block (``number`` 0), or like others of the same warps."""
    if not hint.number:
        yield {"cu": "__syncthreads();", "ptx": "bar.sync 0;", "syncir": "bar.sync 0"}[text.kind]
        return
    own = (text.code(model).strip() for model in hint.models)
    yield from dict.fromkeys(x for x in own if text.kind == "syncir" or is_one_statement(x))
    if hint.name and text.kind == "cu":
        yield f'asm volatile("bar.sync %0, {hint.number};" ::"r"({hint.name}) : "memory");'
    bare = f"bar.sync 15, {hint.number}"
    yield {"cu": f'asm volatile("{bare};" ::: "memory");', "ptx": f"{bare};", "syncir": bare}[text.kind]


def _like(hint: EditHint, text: Lines, number: int | None = None) -> Iterator[str]:
    """The statements of a hint's models for its mbarrier, with a number as their last operand."""
    words = _words(hint.names)
    if words is None or not _NAME.fullmatch(hint.name):
        return
    found: dict[str, None] = {}
    for model in hint.models or _written_waits(hint, text, words):
        code = text.code(model)
        if text.kind != "syncir" and not is_one_statement(code):
            continue
        statement = words.sub(hint.name, unguarded(code))
        if hint.kind is EditKind.WAIT and hint.size == 1:  # no array
            statement = re.sub(rf"({re.escape(hint.name)})\s*\[{_INDICES}\]", r"\g<1>", statement)
        spot = last_operand(statement, text.kind)
        if number is not None and statement.startswith("asm"):
            statement = _LAST_IN_ASM.sub(str(number), statement, count=1)
        elif number is not None and spot is not None:
            statement = statement[: spot[0]] + str(number) + statement[spot[1] :]
        found[statement] = None
    yield from list(found)[:_MOST]


def _written_waits(hint: EditHint, text: Lines, words: re.Pattern[str]) -> Iterator[int]:
    """Lines of CUDA that wait for an mbarrier, though no thread came to one before the kernel was refuted."""
    for n in range(1, len(text.lines) + 1) if text.kind == "cu" and hint.kind is EditKind.WAIT else ():
        if _WAIT_CALL.search(text.code(n)) and words.search(text.code(n)):
            yield n


def _words(names: Iterable[str]) -> re.Pattern[str] | None:
    """What finds the names of mbarriers in a line."""
    known = [re.escape(name) for name in sorted(names, key=len, reverse=True) if _NAME.fullmatch(name)]
    return re.compile(rf"(?<![\w.>])(?:{'|'.join(known)})\b") if known else None


def _mbarriers(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """How the file writes its mbarrier, or would by the place of others, the nearest to ``line`` first."""
    words = _words(hint.names)
    if words is None or not _NAME.fullmatch(hint.name):
        return
    spelled = re.compile(rf"{words.pattern}(?:\s*\[[^][]*\])?")
    found: dict[str, None] = {}
    for n in sorted(range(1, len(text.lines) + 1), key=lambda n: (abs(n - line), n)):
        if _DECLARED.search(text.code(n)):
            continue
        for m in spelled.finditer(text.code(n)):
            found[words.sub(hint.name, m[0])] = None
        if len(found) >= _MOST:
            break
    yield from list(found)[:_MOST]


def cluster_barriers(text: Lines) -> Iterator[str]:
    """Statements by which all threads of a cluster meet, in the words of the file."""
    groups = (m for n in range(1, len(text.lines) + 1) for m in _CLUSTER_GROUP.finditer(text.code(n)))
    yield from (f"{m['name']}.sync();" for m in groups)
    for f in text.functions():
        both = "barrier.cluster.arrive" in f.body and "barrier.cluster.wait" in f.body
        if both and not f.parameters and not f.method and not f.template:
            yield f"{f.scope}{f.name}();"


def waiting_where_others_arrive(hint: EditHint, text: Lines) -> Iterator[str]:
    """Meetings at a barrier of threads, from calls that arrive there: by the function that waits."""
    whole = "\n".join((*text.lines, *text.headers))
    for model in hint.models if hint.name.startswith("bar.sync") else ():
        bare = unguarded(text.code(model))
        call = re.match(r"(?:\w+::)*(?P<name>\w*arrive\w*)\b", bare)
        waits = call["name"].replace("arrive", "sync") if call is not None else ""
        if call is not None and re.search(rf"\b{waits}\s*\(", whole):
            yield bare[: call.start("name")] + waits + bare[call.end("name") :]


def last_member(name: str) -> str:
    """What a method of the object calls a member: ``turn`` of ``s.order.turn``."""
    return re.split(r"\.|->", name)[-1]


def other_slots(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """The line with another index of the barriers that it names, or (``number`` 1) the name of others.

    In a method of the object that has the barriers their last names stand alone.
    """
    whole = list(_other_slots(hint, text, line))
    yield from whole
    if not whole and last_member(hint.name) != hint.name:
        inner = replace(hint, name=last_member(hint.name), names=tuple(map(last_member, hint.names)))
        yield from _other_slots(inner, text, line)


def _other_slots(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    code, words = text.code(line), _words(hint.names if hint.number else (hint.name,))
    if words is None or not _NAME.fullmatch(hint.name):
        return
    if hint.number:
        yield words.sub(hint.name, code)
        return
    here = re.search(rf"{words.pattern}{_MEMBER}\s*\[(?P<index>{_INDICES})\]", code)
    every = _words(hint.names)
    if here is None or every is None:
        return
    indexed = re.compile(rf"{every.pattern}{_MEMBER}\s*\[({_INDICES})\]")
    near = sorted(hint.models, key=lambda n: (abs(n - line), n))
    others = dict.fromkeys(m[1] for n in near for m in indexed.finditer(text.code(n)))
    own = [x for x in others if x != here["index"]][:_MOST]
    if hint.size > 1 and hint.ahead:
        own.insert(0, f"({here['index']} + 1) % {hint.size}")
    elif hint.size > 1:  # what came before, or what comes next
        own += [f"({here['index']} + {n}) % {hint.size}" for n in dict.fromkeys((hint.size - 1, 1))]
    if hint.size == 2:
        own.insert(0, f"({here['index']}) ^ 1" if " " in here["index"] else f"{here['index']} ^ 1")
    for index in own:
        yield code[: here.start("index")] + index + code[here.end("index") :]


def other_ids(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """The line with the id of another barrier of threads, as other lines write it."""
    code = text.code(line)
    here = first_operand(code, text.kind)
    if here is None:
        return
    spots = ((text.code(model), first_operand(text.code(model), text.kind)) for model in hint.models)
    written = [hint.name] if hint.name else [c[slice(*spot)] for c, spot in spots if spot is not None]
    own = code[slice(*here)]
    swapped = [_of_two(own, hint.size + hint.number)] if hint.size and hint.number is not None else []
    every = (*swapped, *written, *([] if hint.name else [*_alike(text, code, here), str(hint.number)]))
    neighbours = [str(int(own) + by) for by in (1, -1) if int(own) + by >= 0] if own.isdecimal() else []
    for new in dict.fromkeys(x for x in (*every, *neighbours) if x != own):
        yield code[: here[0]] + new + code[here[1] :]


def _of_two(own: str, both: int) -> str:
    """The other one of two ids with a sum, for all who work theirs out: ``5 - g`` of ``4 + g``."""
    plain = re.fullmatch(r"(?P<number>\d+)\s*(?P<sign>[-+])\s*(?P<name>\w+)", own)
    turned = re.fullmatch(r"(?P<name>\w+)\s*(?P<sign>\+)\s*(?P<number>\d+)", own)
    for m in (plain, turned):
        if m is not None:
            return f"{both - int(m['number'])} {'-' if m['sign'] == '+' else '+'} {m['name']}"
    return str(both - int(own)) if own.isdecimal() else f"{both} - ({own})"


def _alike(text: Lines, code: str, spot: tuple[int, int]) -> Iterator[str]:
    """What other lines that hold the same statement have in the place of an operand."""
    before, behind = re.escape(code[: spot[0]].strip()), re.escape(code[spot[1] :].strip())
    alike = re.compile(rf"(?<!\w){before}(?P<operand>[^<>(),]+){behind}")
    for n in range(1, len(text.lines) + 1):
        yield from (m["operand"].strip() for m in alike.finditer(text.code(n)))


def exchanged(hint: EditHint, text: Lines, line: int) -> Iterator[str]:
    """The line with another operation on its barrier: an arrival of copies, or a repeated poll."""
    code = text.code(line)
    if text.kind != "cu" or not is_one_statement(code):
        return
    bare = code.strip()
    if hint.kind is EditKind.UNTIL_TRUE:
        call = re.fullmatch(r"(?P<name>(?:[\w:]|\.|->|\[[^\[\]]*\])+)(?P<rest>\(.*\));", bare)
        if call is None:
            return
        name = re.split(r"\W+", call["name"])[-1]
        for f in text.functions():
            if re.search(rf"\b(?:while|for)\b[^;{{}}]*\b{re.escape(name)}\s*\(", f.body) and f.name != name:
                yield f"{indent_of(code)}{call['name'].removesuffix(name)}{f.name}{call['rest']};"
        yield f"{indent_of(code)}while (!{bare[:-1]}) {{}}"
        return
    words = _words(hint.names)
    at = re.search(rf"{words.pattern}{_MEMBER}(?:\s*\[{_INDICES}\])?", code) if words is not None else None
    if at is not None:
        for call_ in barrier_calls(text.functions(), "cp.async.mbarrier.arrive.noinc", at[0]):
            yield indent_of(code) + call_
        place = _ADDRESS.format(at="&" + at[0])
        yield f'{indent_of(code)}asm volatile("{_OF_COPIES}" ::{place} : "memory");'


def first_operand(code: str, kind: str) -> tuple[int, int] | None:
    """Where the first operand of the last call stands, or the first of its template; else of a barrier."""
    found = _BARRIER_OF.search(code)
    if found is None and kind == "cu":
        calls = list(_CALL.finditer(code))
        found = calls[-1] if calls else None
    if found is None:
        return None
    group = "first" if found.groupdict().get("first") else "id"
    return found.start(group), found.start(group) + len(found[group].rstrip())


__all__ = [
    "Lines",
    "cluster_barriers",
    "exchanged",
    "first_operand",
    "handing_on",
    "flipped",
    "indent_of",
    "is_one_statement",
    "last_member",
    "last_operand",
    "named_in",
    "other_ids",
    "other_slots",
    "parities",
    "statements",
    "unguarded",
    "without_head",
]
