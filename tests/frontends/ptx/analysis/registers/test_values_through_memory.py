"""What values vary with, against executing small programs: loops, branches and guards around memory.

Programs are drawn, and executed thread by thread from barrier to barrier. One in which threads race, or do
not meet at a barrier, is passed over: nothing is said of it. Only the text is shared with the analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from random import Random

import pytest

from syncverify.frontends.ptx.analysis.registers.uniformity import THREADS, TIME, Uniformity
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse

_REGISTERS = "abcdefijz"
_HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{
.reg .pred %p, %q;
.reg .b32 %a, %b, %c, %d, %e, %f, %i, %j, %z;
.shared .align 16 .b8 s[512];
"""
#: ``a`` is the thread's number, ``e`` its warp's, ``f`` one bit of its lane's; ``z`` places accesses.
_START = ["mov a tid", "shr e a 5", "and f a 1", *(f"mov {r} {n}" for n, r in enumerate("bcdij")),
          "lt p b 0", "lt q b 1"]  # fmt: skip
_FORMS = {
    "mov": "mov.u32 %{0}, {1};",
    "copy": "mov.u32 %{0}, %{1};",
    "add": "add.u32 %{0}, %{1}, {2};",
    "sum": "add.u32 %{0}, %{1}, %{2};",
    "and": "and.b32 %{0}, %{1}, {2};",
    "xor": "xor.b32 %{0}, %{1}, {2};",
    "shr": "shr.u32 %{0}, %{1}, {2};",
    "lt": "setp.lt.u32 %{0}, %{1}, {2};",
    "eq": "setp.eq.u32 %{0}, %{1}, {2};",
    "same": "setp.eq.u32 %{0}, %{1}, %{2};",
    "bra": "bra {0};",
    "bar": "bar.sync 0;",
    "st": "st.shared.u32 [%z], %{0};",
    "ld": "ld.shared.u32 %{0}, [%z];",
}


class _Drawn:
    """A program: lines such as ``@p add b b 1``, ``L1:``."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.code = list(_START)
        self.labels = 0
        self.some(0, meets=True)
        for x in "bc":
            self.place(("a",))
            self.add(f"st {x}")

    def add(self, *lines: str) -> None:
        self.code += lines

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def some(self, depth: int, *, meets: bool) -> None:
        for _ in range(self.rng.randint(2, 4)):
            kind = self.rng.choice(
                ["set", "move", "move", "if", "loop", "loop", "store", "own", "load", "exchange"]
            )
            if kind in ("if", "loop") and depth < 2:
                (self.choice if kind == "if" else self.loop)(depth, meets=meets)
            elif kind == "exchange" and meets:
                self.exchange()
            elif kind == "store" and meets:
                self.add("bar")
                self.store()
                self.add("bar")
            elif kind == "own":
                self.own()
            elif kind == "load":
                self.load()
            elif kind == "set":
                self.compare()
            else:
                self.move()

    def compare(self) -> None:
        p, x = self.rng.choice("pq"), self.rng.choice("abcdefij")
        kind = self.rng.choice(["lt", "eq", "same"])
        y = self.rng.choice("abcdefij") if kind == "same" else str(self.rng.randrange(4))
        self.add(f"{kind} {p} {x} {y}")

    def guard(self) -> str:
        return self.rng.choice(["", "", "@p ", "@q ", "@!p "])

    def move(self) -> None:
        x, y = self.rng.choice("bcd"), self.rng.choice("abcdefij")
        text = self.rng.choice([f"mov {x} {self.rng.randrange(4)}", f"add {x} {y} 1", f"sum {x} {x} {y}",
                                f"copy {x} {y}", f"and {x} {y} 3"])  # fmt: skip
        self.add(self.guard() + text)

    def choice(self, depth: int, *, meets: bool) -> None:
        end = self.label()
        self.compare()
        self.add(f"@{self.rng.choice(['p', 'q', '!p'])} bra {end}")
        self.some(depth + 1, meets=False)
        self.add(f"{end}:")

    def loop(self, depth: int, *, meets: bool) -> None:
        start, i = self.label(), "ij"[depth]
        bound = self.rng.choice(["2", "3", "3", "e", "f"])
        self.add(f"mov {i} 0", f"{start}:")
        self.some(depth + 1, meets=meets and bound.isdigit())
        if bound.isdigit():
            self.add(f"add {i} {i} 1", f"lt p {i} {bound}")
        else:
            self.add(f"same p {i} {bound}", f"add {i} {i} 1", f"@p bra {start}X", f"lt p {i} 3")
        self.add(f"@p bra {start}", f"{start}X:")

    def place(self, words: tuple[str, ...]) -> None:
        x = self.rng.choice(words)
        if x in "ax":
            self.add("add z a 64" if x == "a" else "xor z a 1", *(["add z z 64"] if x == "x" else []))
        else:
            self.add(f"and z {x} 3")

    def store(self) -> None:
        """By each thread to its own word, or by those of a guard to one."""
        if self.rng.random() < 0.5:
            self.place(("a",))
            self.add(self.guard() + f"st {self.rng.choice('bcdefij')}")
        else:
            self.compare()
            if self.rng.random() < 0.5:
                self.add(f"eq p {self.rng.choice('aaef')} {self.rng.randrange(3)}")
            self.place(("b", "c", "e", "i", "j"))
            self.add(self.rng.choice(["@p ", "@p ", "@q ", ""]) + f"st {self.rng.choice('bcdefij')}")

    def own(self) -> None:
        """By some, in some iterations, to words of their own."""
        self.add(f"same {self.rng.choice('pq')} {self.rng.choice('ij')} {self.rng.choice('aefbc')}")
        self.place(("a",))
        self.add(f"{self.guard()}st {self.rng.choice('bcdij')}")

    def load(self) -> None:
        self.place(("a", "x", "b", "c", "e", "i", "j"))
        self.add(self.guard() + f"ld {self.rng.choice('bcd')}")

    def exchange(self) -> None:
        self.add("bar")
        self.store()
        self.add("bar")
        self.load()


def _text(code: list[str]) -> tuple[str, dict[int, int]]:
    """The text, and by line of the program the number of its instruction."""
    out, numbers, n = [_HEAD, "mov.u32 %z, %tid.x;"], {}, 1
    for at, line in enumerate(code):
        if line.endswith(":"):
            out.append(line)
            continue
        guard, rest = (line.split(" ", 1)) if line.startswith("@") else ("", line)
        op, *args = rest.split()
        if op in ("st", "ld"):
            out += ["shl.b32 %z, %z, 2;"]
            n += 1
        if args[1:] == ["tid"]:
            args = ["a", "%tid.x"]
        numbers[at] = n
        n += 1
        out.append(guard.replace("@!", "@!%") if "!" in guard else guard.replace("@", "@%"))
        out.append(_FORMS[op].format(*args))
    return "\n".join([*out, "ret;", "}"]), numbers


class _PassedOverError(Exception):
    """A program of which nothing is said."""


@dataclass
class _Thread:
    number: int
    held: dict[str, int] = field(default_factory=lambda: dict.fromkeys([*_REGISTERS, "p", "q"], 0))
    at: int = 0
    #: By line, what its registers held each time that it came to it; and whether its guard held.
    seen: dict[int, list[tuple[dict[str, int], bool]]] = field(default_factory=dict)
    path: list[tuple[int, dict[str, int]]] = field(default_factory=list)


class _Machine:
    """Threads that go on from barrier to barrier, and the words that they share."""

    def __init__(self, code: list[str], threads: int) -> None:
        self.code = code
        self.labels = {line[:-1]: n for n, line in enumerate(code) if line.endswith(":")}
        self.words: dict[int, int] = {}
        self.touched: dict[int, set[tuple[int, int, int]]] = {}  # thread, line of a store or -1, value
        self.threads = [_Thread(n) for n in range(threads)]

    def run(self) -> list[_Thread]:
        for _ in range(60):
            stops = {self.go_on(t) for t in self.threads}
            if len(stops) > 1:
                raise _PassedOverError("not all meet")
            self.touched.clear()
            if stops == {len(self.code)}:
                return self.threads
        raise _PassedOverError("too long")

    def go_on(self, t: _Thread) -> int:
        """Executes up to the next barrier, and says which it is."""
        for _ in range(400):
            if t.at == len(self.code):
                return t.at
            line, at = self.code[t.at], t.at
            t.at += 1
            if line.endswith(":"):
                continue
            guard, rest = line.split(" ", 1) if line.startswith("@") else ("", line)
            on = not guard or bool(t.held[guard[-1]]) != ("!" in guard)
            t.path.append((at, dict(t.held)))
            t.seen.setdefault(at, []).append((t.path[-1][1], on))
            if on and rest == "bar":
                return at
            if on:
                self.execute(t, at, rest.split())
        raise _PassedOverError("too long")

    def execute(self, t: _Thread, at: int, words: list[str]) -> None:
        op, x, *args = words
        held = t.held
        y = held.get(args[0], 0) if args else 0
        n = int(args[-1]) if args and args[-1].isdigit() else held.get(args[-1], 0) if args else 0
        match op:
            case "mov":
                held[x] = t.number if args == ["tid"] else n
            case "bra":
                t.at = self.labels[x]
            case "st" | "ld":
                self.access(t, at, op, x)
            case _:
                made = {"copy": y, "add": y + n, "sum": y + n, "and": y & n, "xor": y ^ n, "shr": y >> n,
                        "lt": int(y < n), "eq": int(y == n), "same": int(y == n)}  # fmt: skip
                held[x] = made[op] & 0xFFFFFFFF

    def access(self, t: _Thread, at: int, op: str, x: str) -> None:
        place = t.held["z"]
        touched = self.touched.setdefault(place, set())
        mine = (t.number, at if op == "st" else -1, t.held[x] if op == "st" else 0)
        for other, line, value in touched:
            alike = line == mine[1] and value == mine[2]
            if other != t.number and not alike and (line >= 0 or mine[1] >= 0):
                raise _PassedOverError("a race")
        touched.add(mine)
        if op == "st":
            self.words[place] = t.held[x]
        else:
            t.held[x] = self.words.get(place, 0)


def _read(line: str) -> list[str]:
    """The registers that a line reads."""
    guard, rest = line.split(" ", 1) if line.startswith("@") else ("", line)
    op, *args = rest.split()
    read = ([args[0]] if op == "st" else []) + (["z"] if op in ("st", "ld") else [])
    read += [x for x in args[1:] if x in _REGISTERS] if op not in ("st", "ld", "bra", "bar") else []
    return read + ([guard[-1]] if guard else [])


def _differs(rows: list[list[int]], mask: int) -> str | None:
    """Threads, among those that agree in a mask, that do not hold the same the n-th time."""
    groups: dict[int, list[int]] = {}
    for n in range(len(rows)):
        groups.setdefault(n & mask & THREADS, []).append(n)
    for some in groups.values():
        longest = max((rows[n] for n in some), key=len)
        for n in some:
            if rows[n] != longest[: len(rows[n])]:
                return f"thread {n}: {rows[n]}, another {longest}"
    if not mask & TIME:
        return next((f"thread {n}: {row}" for n, row in enumerate(rows) if len(set(row)) > 1), None)
    return None


def _defects(seed: int, threads: int = 64) -> Iterator[str]:
    """What is said of a drawn program and is not so."""
    rng = Random(seed)
    code = _Drawn(rng).code
    text, numbers = _text(code)
    runs = _Machine(code, threads).run()
    flow = Flow(parse(text, "k.ptx").entries[0])
    found = Uniformity(flow, (threads, 1, 1))
    for at, k in numbers.items():
        if flow.block_of[k] not in flow.reached:
            continue
        line = code[at]
        for name in _read(line):
            scale = 4 if name == "z" else 1
            rows = [[h[name] * scale for h, _ in t.seen.get(at, ())] for t in runs]
            why = _differs(rows, found.read_at(k, [f"%{name}"]))
            if why is not None:
                yield f"seed {seed}: {line!r} ({at}) reads {name}: {why}"
        if " st " in f" {line}":
            rows = [[h[line.split()[-1]] for h, on in t.seen.get(at, ()) if on] for t in runs]
            why = _differs(rows, found.stored(k))
            if why is not None:
                yield f"seed {seed}: {line!r} ({at}) stores: {why}"
        if line.split()[-2:-1] in (["st"], ["ld"]):
            rows = [[4 * h["z"] for h, on in t.seen.get(at, ()) if on] for t in runs]
            why = _differs(rows, found.placed(k))
            if why is not None:
                yield f"seed {seed}: {line!r} ({at}) accesses: {why}"


def _after(t: _Thread, at: int) -> list[list[tuple[int, dict[str, int]]]]:
    """What a thread does each time from a line on, until it comes there again."""
    starts = [n for n, (line, _) in enumerate(t.path) if line == at]
    return [t.path[a:b] for a, b in pairwise([*starts, len(t.path)])]


def _parted(seed: int, threads: int = 64) -> Iterator[str]:
    """The same of threads that come to a barrier or a comparison together, and go on alike."""
    code = _Drawn(Random(seed)).code
    text, numbers = _text(code)
    runs = _Machine(code, threads).run()
    found = Uniformity(Flow(parse(text, "k.ptx").entries[0]), (threads, 1, 1))
    for at, k in numbers.items():
        if code[at].split()[0] not in ("bar", "lt", "eq", "same") or at < len(_START):
            continue
        after = [_after(t, at) for t in runs]
        masks = {name: found.since(k, [f"%{name}"]) & THREADS for name in "bcdijpq"}
        for one, other in combinations([0, 1, 2, 3, 31, 32, 33, 34, 63], 2):
            alike = [name for name, mask in masks.items() if not (one ^ other) & mask]
            for a, b in zip(after[one], after[other], strict=False):
                for (line, x), (there, y) in zip(a, b, strict=False):
                    if line != there:
                        break
                    for name in set(alike).intersection(_read(code[line])):
                        if x[name] != y[name]:
                            yield f"seed {seed}: {name} at {line} since {at}: threads {one}, {other}"


def _of_some(seeds: range) -> tuple[int, list[str]]:
    """How many drawn programs are judged, and what is said of them that is not so."""
    judged, defects = 0, list[str]()
    for seed in seeds:
        with suppress(_PassedOverError):
            defects += [*_defects(seed), *_parted(seed)]
            judged += 1
    return judged, defects


@pytest.mark.parametrize("first", [0, 5000])
def test_threads_that_agree_in_a_mask_read_store_and_access_the_same(first: int) -> None:
    judged, defects = _of_some(range(first, first + 40))
    assert judged > 25
    assert not defects


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 12_000, 500))
def test_many_drawn_programs(first: int) -> None:
    judged, defects = _of_some(range(first, first + 500))
    assert judged > 300
    assert not defects


@pytest.mark.parametrize(
    ("left_out", "nothing"),
    [
        ("_own_guard", lambda self, k: 0),
        ("_times", lambda self, k: 0),
        ("_left_by", lambda self, v, block: []),
        ("_brings_several", lambda self, *where: False),
    ],
)
def test_the_judge_sees_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, left_out: str, nothing: Callable[..., object]
) -> None:
    monkeypatch.setattr(Uniformity, left_out, nothing)
    assert _of_some(range(5, 8))[1] or _of_some(range(23, 30))[1]
