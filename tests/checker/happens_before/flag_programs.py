"""Random tiny programs with flags, for the brute force of ``flag_model``, and their PTX."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.checker.happens_before.flag_model import Op, Threads

#: Where the flags and the data are: one block's shared memory; global memory, threads of as many blocks;
#: flags in global memory between threads of one block, whose data is shared.
PLACES = ("shared", "blocks", "block")
#: Atomics that decide, and their PTX.
DECIDES = {"try": "cas.b32", "swap": "exch.b32", "count": "add.u32"}
_NOT = {">=": "lt", ">": "le", "<=": "gt", "<": "ge", "==": "ne", "!=": "eq"}


@dataclass(frozen=True)
class Program:
    threads: Threads
    place: str

    @property
    def meant(self) -> Threads:
        """The threads as the model takes them: of one block, the scope of a CTA is wide enough."""
        if self.place == "blocks":
            return self.threads
        return tuple(tuple(replace(op, narrow=False) for op in ops) for ops in self.threads)

    def __str__(self) -> str:
        rows = [f"T{n}: " + "; ".join(map(_shown, ops)) for n, ops in enumerate(self.threads)]
        return "\n".join([self.place, *rows])


def _shown(op: Op) -> str:
    marks = [m for m, on in (("rel", op.release), ("acq", op.acquire), ("cta", op.narrow)) if on]
    name = ".".join([op.kind, *marks])
    if op.kind in ("read", "write"):
        return f"{name} d{op.at}"
    if op.kind == "fence":
        return name
    if op.kind in DECIDES:
        return f"{name} f{op.at} {op.value}, if not {op.wanted} skip {op.skips}"
    shown = {"wait": f"{op.compare}{op.value}", "lock": ""}.get(op.kind, str(op.value))
    return f"{name} f{op.at} {shown}"


# ------------------------------------------------------------------ right programs


def _r(at: int = 0) -> Op:
    return Op("read", at)


def _w(at: int = 0) -> Op:
    return Op("write", at)


def _set(at: int, value: int) -> Op:
    return Op("store", at, value, release=True)


def _add(at: int = 0, value: int = 1) -> Op:
    return Op("add", at, value, release=True)


def _wait(at: int, value: int, compare: str = "==") -> Op:
    return Op("wait", at, value, compare, acquire=True)


Lists = list[list[Op]]


def _message(rng: random.Random) -> Lists:
    readers = rng.randint(1, 3)
    compare = rng.choice(["==", ">=", "!="])
    value = 0 if compare == "!=" else 1
    return [[_w(), _set(0, 1)], *([_wait(0, value, compare), _r()] for _ in range(readers))]


def _relay(rng: random.Random) -> Lists:
    other = rng.choice([0, 1])
    write = rng.choice([_set(other, 2), _add(other, 2 if other else 1)])
    return [
        [_w(0), _set(0, 1)],
        [_wait(0, 1, ">="), *rng.choice([[], [_w(1)]]), write],
        [_wait(other, 2, rng.choice(["==", ">="])), _r(rng.choice([0, 0, 1]) if other else 0)],
    ]


def _to_and_fro(rng: random.Random) -> Lists:
    a = [_w(), _set(0, 1), _wait(0, 0), _w(), *rng.choice([[], [_set(0, 1)]])]
    b = [_wait(0, 1), rng.choice([_r(), _w()]), _set(0, 0)]
    if len(a) == 5:
        b += [_wait(0, 1), _r()]
    return [a, b]


def _two_flags(rng: random.Random) -> Lists:
    a = [_w(), _set(0, 1), _wait(1, 1), _w(), _set(0, 2)]
    b = [_wait(0, 1), _r(), _set(1, 1), _wait(0, 2), _r()]
    return [a, b] if rng.random() < 0.5 else [a, b, [_wait(0, 2, ">="), _r()]]


def _counter(rng: random.Random) -> Lists:
    writers = rng.randint(1, 3)
    adders = [[*([_w(n)] if n < 2 else []), _add()] for n in range(writers)]
    return [*adders, [_wait(0, writers, rng.choice(["==", ">="])), _r(0), *([_r(1)] if writers > 1 else [])]]


def _reset(rng: random.Random) -> Lists:
    last = [_wait(1, 1), _r(), rng.choice([_add(), _set(0, 1)])]
    middle = [_wait(0, 2), _r(), _set(0, 0), _set(1, 1)]
    return [[_w(), _add()], [_add()], middle, last][: rng.choice([3, 4])]


def _both(rng: random.Random) -> Lists:
    return [[_w(0), _set(0, 1)], [_w(1), _set(1, 1)], [_wait(0, 1), _wait(1, 1), _r(0), _w(1)]]


def _steps(rng: random.Random) -> Lists:
    a = [_w(0), _set(0, 1), _w(1), _set(0, rng.choice([2, 1, 0]))]
    return [a, [_wait(0, rng.choice([1, 2]), rng.choice([">=", "==", "!="])), _r(rng.choice([0, 1]))]]


def _turns(rng: random.Random) -> Lists:
    """Threads take turns by a flag that says whose turn it is."""
    n = rng.randint(2, 4)
    step = [rng.choice([_add(0, 1), _set(0, k + 1)]) for k in range(n)]
    return [[*([_wait(0, k, rng.choice(["==", ">="]))] if k else []), _w(), step[k]] for k in range(n)]


def _any(rng: random.Random) -> Lists:
    return [[_random_op(rng) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(2, 3))]


def _random_op(rng: random.Random) -> Op:
    kind = rng.choice(["read", "write", "store", "store", "add", "exch", "wait", "wait", "fence"])
    strong = rng.random() < 0.7
    write = kind in ("store", "add", "exch")
    compare = rng.choice(list(_NOT))
    return Op(
        kind, rng.choice([0, 0, 1]), rng.randint(0, 2), compare, strong and write, strong and kind == "wait"
    )


_SHAPES: tuple[Callable[[random.Random], Lists], ...] = (
    _message, _relay, _to_and_fro, _two_flags, _counter, _reset, _both, _steps, _turns, _turns, _relay, _any,
)  # fmt: skip


# ------------------------------------------------------------------ edits


def _fenced(rng: random.Random, ops: list[Op]) -> list[Op]:
    """The same by fences: before a relaxed write, behind a relaxed wait."""
    found = []
    for op in ops:
        if op.release and rng.random() < 0.2:
            found += [Op("fence"), replace(op, release=False)]
        elif op.acquire and op.kind == "wait" and rng.random() < 0.2:
            found += [replace(op, acquire=False), Op("fence")]
        else:
            found.append(op)
    return found


def _edit(rng: random.Random, threads: Lists) -> None:
    ops = rng.choice([ops for ops in threads if ops] or [[Op("fence")]])
    i = rng.randrange(len(ops))
    op = ops[i]
    choice = rng.randrange(12)
    if choice == 0:
        ops.pop(i)
    elif choice == 1 and i:
        ops[i - 1], ops[i] = ops[i], ops[i - 1]
    elif choice in (2, 3):
        ops[i] = replace(op, release=False, acquire=False)
    elif choice == 4:
        ops[i] = replace(op, value=rng.choice([0, 1, 2, 3]))
    elif choice == 5:
        ops[i] = replace(op, compare=rng.choice(list(_NOT)))
    elif choice == 6:
        ops[i] = replace(op, at=1 - op.at)
    elif choice == 7 and op.kind in ("store", "add", "exch"):
        ops[i] = replace(op, kind=rng.choice(["store", "add", "exch", "plain"]), acquire=False)
    elif choice == 8:
        ops[i] = replace(op, narrow=op.kind not in ("read", "write", "plain"))
    elif choice == 9:
        other = rng.choice(threads)
        other.insert(rng.randint(0, len(other)), op)
    elif choice == 10 and op.kind in ("add", "exch"):
        ops[i] = replace(op, acquire=True)
    else:
        ops.insert(rng.randint(0, len(ops)), _random_op(rng))


def program(rng: random.Random) -> Program:
    threads = rng.choice(_SHAPES)(rng)
    threads = [_fenced(rng, ops) for ops in threads]
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])):
        _edit(rng, threads)
    rng.shuffle(threads)
    place = rng.choice(PLACES)
    if place == "blocks":
        if not any(op.kind == "wait" for ops in threads for op in ops):
            return program(rng)  # nothing is handed over: such kernels' global memory is not followed
        _read_too(threads)
    return Program(tuple(tuple(ops) for ops in threads if ops), place)


def _read_too(threads: Lists) -> None:
    """Lets a thread read what it writes, where none reads: memory that is only written is not followed."""
    if not any(op.kind == "read" for ops in threads for op in ops):
        for ops in threads:
            for i, op in enumerate(ops):
                if op.kind == "write":
                    ops.insert(i, _r(op.at))
                    return


# ------------------------------------------------------------------ a wider choice


def _rounds(rng: random.Random) -> Lists:
    """Two threads hand a buffer to and fro by one flag whose values rise, or come again."""
    a: list[Op] = []
    b: list[Op] = []
    rises, compare = rng.random() < 0.6, rng.choice(["==", ">="])
    for k in range(rng.randint(1, 3)):
        full, free = (2 * k + 1, 2 * k + 2) if rises else (1, 0)
        how = compare if rises else "=="
        a += [*([_wait(0, free - 2 if rises else 0, how)] if k else []), _w(), _step(rng, full, rises)]
        b += [_wait(0, full, how), rng.choice([_r(), _w()]), _step(rng, free, rises)]
    return [a, b] if rng.random() < 0.7 else [a, b, [_wait(0, rng.choice([1, 2, 3, 4]), ">="), _r()]]


def _step(rng: random.Random, value: int, rises: bool) -> Op:
    return _add() if rises and rng.random() < 0.4 else _set(0, value)


def _levels(rng: random.Random) -> Lists:
    """Several adders, of one and of more, and waits for some of their sum."""
    amounts = [rng.choice([1, 1, 2, 3, 0, -1]) for _ in range(rng.randint(1, 3))]
    lists = [[*([_w(n)] if n < 2 else []), _add(0, a)] for n, a in enumerate(amounts)]
    if rng.random() < 0.3:
        lists[0].insert(0, _set(0, rng.choice([0, 1, 2])))
    for _ in range(rng.randint(1, 2)):
        bound = sum(amounts) + rng.choice([0, 0, 0, -1, 1])
        lists.append([_wait(0, bound, rng.choice(["==", ">=", ">", "!=", "<="])), _r(rng.choice([0, 1]))])
    return lists


def _true_before(rng: random.Random) -> Lists:
    """Waits for what a flag holds at first, beside writes that keep or change it."""
    write = rng.choice([_set(0, 1), _add(), _set(0, 0), _add(0, 0), Op("exch", 0, 0, release=True)])
    wait = _wait(0, rng.choice([0, 0, 1]), rng.choice(["==", ">=", "<=", "!=", "<", ">"]))
    return [[*rng.choice([[], [_w()]]), write], [wait, rng.choice([_r(), _r(1)])]]


def _two_stores(rng: random.Random) -> Lists:
    """Two stores of a flag, ordered by another flag or by none, and a wait that one of them ends."""
    value = rng.choice([1, 2])
    second = [*rng.choice([[], [_wait(1, 1)], [_wait(0, 1)]]), *rng.choice([[], [_w(1)]]), _set(0, value)]
    first = [_w(), _set(0, 1), *rng.choice([[], [_set(1, 1)]])]
    wait = _wait(0, value, rng.choice(["==", ">=", "!="]))
    return [first, second, [*rng.choice([[], [], [_wait(1, 1)]]), wait, _r(rng.choice([0, 1]))]]


def _reset_chain(rng: random.Random) -> Lists:
    """A flag that is reset once it was seen, then used again, by others."""
    a = [_w(), _set(0, 1)]
    b = [_wait(0, 1), rng.choice([_r(), _w()]), rng.choice([_set(0, 0), _add(0, -1)]), _set(1, 1)]
    c = [_wait(1, 1), rng.choice([_r(), _w()]), rng.choice([_set(0, 1), _add(), _set(0, 2)])]
    d = [_wait(1, rng.choice([0, 1]), rng.choice(["==", ">="])), _wait(0, rng.choice([1, 2]), ">="), _r()]
    return [a, b, c, d][: rng.choice([3, 4])]


def _count_then_reset(rng: random.Random) -> Lists:
    """Arrivals of several threads, a reset by the last, arrivals again."""
    a = [_w(), _add(), _wait(1, 1), rng.choice([_w(), _r()]), _add()]
    b = [_w(1), _add(), *rng.choice([[], [_wait(1, 1), _add()]])]
    last = len(b) // 4 + 1
    reset = rng.choice([_set(0, 0), Op("exch", 0, 0, release=True), _add(0, -2)])
    c = [_wait(0, 2), _r(), reset, _set(1, 1), _wait(0, last), _r(rng.choice([0, 1]))]
    return [a, b, c]


def _barrier(rng: random.Random) -> Lists:
    """All threads add one and wait for the sum, once or twice: a barrier of threads."""
    n, turns = rng.choice([(2, 1), (2, 2), (3, 1)])
    lists: Lists = [[] for _ in range(n)]
    for k in range(turns):
        for i, ops in enumerate(lists):
            ops += [
                _w(i % 2),
                _add(0, 1),
                _wait(0, n * (k + 1), rng.choice([">=", ">=", "=="])),
                _r((i + 1) % 2),
            ]
            if rng.random() < 0.5:
                ops.pop(-4)
    return lists


def _plain_first(rng: random.Random) -> Lists:
    """A weak store of a flag that comes before, or beside, a wait for it."""
    plain = Op("plain", 0, rng.choice([0, 1, 2]))
    a = [plain, *rng.choice([[], [_w()]]), _set(1, 1)]
    b = [_wait(1, 1), *rng.choice([[], [_w(1)]]), _set(0, 1)]
    return [
        a,
        b,
        [*rng.choice([[], [_wait(1, 1)]]), _wait(0, rng.choice([1, 0]), rng.choice(["==", ">="])), _r()],
    ]


def _kept(rng: random.Random) -> Lists:
    """A thread whose later writes of a flag hand on what it released before, or what another one did."""
    later = rng.choice([Op("store", 0, 2), Op("add", 0, 1), Op("exch", 0, 2), _set(0, 2)])
    a = [_w(), _set(0, 1), *rng.choice([[], [later]])]
    b = [*rng.choice([[_wait(0, 1)], [Op("wait", 0, 1)], []]), *rng.choice([[], [_w(1)]]), later]
    return [a, b, [_wait(0, 2, rng.choice(["==", ">="])), _r(rng.choice([0, 0, 1]))]]


def _write(rng: random.Random, at: int = 0) -> Op:
    kind = rng.choice(["store", "store", "add", "add", "exch"])
    value = rng.choice([1, 1, 2, 0, -1] if kind == "add" else [1, 1, 2, 0])
    return Op(kind, at, value, release=rng.random() < 0.7)


def _ends(rng: random.Random) -> list[Op]:
    """A wait for one of the values that a flag may have, and what it is for."""
    compare = rng.choice(["==", "==", ">=", ">=", "!=", ">", "<=", "<"])
    return [_wait(0, rng.choice([0, 1, 1, 2, 3]), compare), *rng.choice([[], [_r(rng.choice([0, 1]))]])]


def _known_first(rng: random.Random) -> Lists:
    """Writes of one flag by two threads; who waits for it knows some of them by another flag."""
    a = [*rng.choice([[], [_w()]]), *(_write(rng) for _ in range(rng.choice([1, 1, 2]))), _set(1, 1)]
    b = [*rng.choice([[], [_w(1)], [_wait(1, 1)]]), *(_write(rng) for _ in range(rng.choice([1, 1, 2])))]
    return [a, b, [_wait(1, 1), *_ends(rng)], *rng.choice([[], [], [_ends(rng)]])]


def _known_by_a_wait(rng: random.Random) -> Lists:
    """A thread has seen a flag, and tells another one of it, which writes the flag, and tells a third."""
    a = [*rng.choice([[], [_w()]]), _write(rng)]
    seen = rng.choice([_wait(0, 0, ">="), _wait(0, 1, ">="), Op("wait", 0, 1), Op("wait", 0, 0, ">=")])
    b = [seen, _set(1, 1)]
    c = [_wait(1, 1), _write(rng), *rng.choice([[], [_write(rng)]]), _set(1, 2)]
    return [a, b, c, [*rng.choice([[_wait(1, 2)], []]), *_ends(rng)]]


def _sums(rng: random.Random) -> Lists:
    """Additions of any sign by up to three threads, and waits for values on their way."""
    lists: Lists = [
        [*rng.choice([[], [_w(n % 2)]]), _add(0, rng.choice([1, 1, 2, -1, -2, 0]))]
        for n in range(rng.randint(1, 3))
    ]
    return [*lists, _ends(rng)]


def _sums_on_a_store(rng: random.Random) -> Lists:
    """Writes behind a store that all who write know of, and perhaps who waits."""
    base = rng.choice([0, 1, 2])
    lists: Lists = [[*rng.choice([[], [_write(rng)]]), _set(0, base), _set(1, 1)]]
    for n in range(rng.randint(1, 2)):
        write = [_w(n), _add(0, rng.choice([1, 1, 2, -1]))] if rng.random() < 0.7 else [_write(rng)]
        lists.append([_wait(1, 1), *write, *rng.choice([[], [], [_write(rng)]])])
    wait = _wait(0, base + rng.choice([0, 1, 1, 2]), rng.choice([">=", ">=", "==", "!=", ">"]))
    first = rng.choice([[_wait(1, 1)], [_wait(1, 1)], []])
    return [*lists, [*first, wait, *rng.choice([[], [_r(rng.choice([0, 1]))]])]]


#: Where the order of writes and their sums decide.
_COUNTED: tuple[Callable[[random.Random], Lists], ...] = (
    _sums, _sums, _levels, _levels, _known_first, _known_first, _true_before, _known_by_a_wait, _two_stores,
    _rounds, _counter, _count_then_reset, _turns, _reset_chain, _sums_on_a_store, _sums_on_a_store,
)  # fmt: skip


def counted(rng: random.Random) -> Program:
    """A program in which the order of a flag's writes, or their sum, decides; with up to two edits."""
    return _finished(rng, rng.choice(_COUNTED)(rng), rng.choice(PLACES), rng.choice([0, 0, 1, 1, 2]))


_WIDE: tuple[Callable[[random.Random], Lists], ...] = (
    _rounds, _rounds, _levels, _levels, _true_before, _two_stores, _two_stores, _reset_chain,
    _count_then_reset, _barrier, _plain_first, _kept, _any,
    _sums_on_a_store, _known_first, _known_first, _known_by_a_wait, _known_by_a_wait, _sums, _sums,
)  # fmt: skip


def wide(rng: random.Random) -> Program:
    """A program as ``program`` draws them, or of further kinds, with up to five edits."""
    return _finished(
        rng, rng.choice(_SHAPES + _WIDE + _WIDE)(rng), rng.choice(PLACES), rng.choice([0, 1, 1, 2, 2, 3, 5])
    )


def edited(rng: random.Random, p: Program) -> Program:
    """A program with one to three edits, perhaps in another place."""
    place = p.place if rng.random() < 0.8 else rng.choice(PLACES)
    return _finished(rng, [list(ops) for ops in p.threads], place, rng.randint(1, 3))


def _finished(rng: random.Random, threads: Lists, place: str, edits: int) -> Program:
    threads = [_fenced(rng, ops) for ops in threads]
    for _ in range(edits):
        _edit(rng, threads)
    rng.shuffle(threads)
    return Program(tuple(tuple(ops[:8]) for ops in threads[:4] if ops), place)


# ------------------------------------------------------------------ locks


def _lock(at: int = 0) -> Op:
    return Op("lock", at, 1, acquire=True)


def _free(rng: random.Random, at: int = 0) -> Op:
    return Op(rng.choice(["store", "store", "exch"]), at, 0, release=True)


def _section(rng: random.Random, at: int = 0) -> list[Op]:
    """What a thread does while it holds a lock, and after it has let it go."""
    inside = [rng.choice([_r, _w])(rng.choice([0, 0, 1])) for _ in range(rng.randint(1, 2))]
    return [_lock(at), *inside, _free(rng, at)]


def _mutex(rng: random.Random) -> Lists:
    return [_section(rng) for _ in range(rng.randint(2, 3))]


def _two_turns(rng: random.Random) -> Lists:
    return [_section(rng) + _section(rng), _section(rng) + (_section(rng) if rng.random() < 0.3 else [])]


def _nested(rng: random.Random) -> Lists:
    found = []
    for _ in range(2):
        a = 0 if rng.random() < 0.7 else 1
        frees = [_free(rng, 1 - a), _free(rng, a)]
        if rng.random() < 0.3:
            frees.reverse()
        found.append([_lock(a), *rng.choice([[], [_w(a)]]), _lock(1 - a), rng.choice([_r(), _w()]), *frees])
    return found


def _locks_apart(rng: random.Random) -> Lists:
    return [_section(rng, rng.choice([0, 0, 1])) for _ in range(rng.randint(2, 3))]


def _lock_and_flag(rng: random.Random) -> Lists:
    """A lock, beside a flag that lets a thread come only after another one."""
    a = [*_section(rng), _set(1, 1)]
    b = [_wait(1, 1), *rng.choice([[], [_w()]]), *_section(rng)]
    if rng.random() < 0.4:
        a.insert(rng.randint(1, len(a) - 1), a.pop())
    return [a, b, *rng.choice([[], [_section(rng)]])]


_LOCKED = (_mutex, _mutex, _two_turns, _nested, _nested, _locks_apart, _lock_and_flag, _lock_and_flag)


def locked(rng: random.Random) -> Program:
    """A program whose threads take locks in shared memory, with up to three edits."""
    return _finished(rng, rng.choice(_LOCKED)(rng), "shared", rng.choice([0, 0, 1, 1, 2, 3]))


def _under(rng: random.Random, head: Op, ops: list[Op], behind: list[Op]) -> list[Op]:
    """Operations of who finds what an atomic wants, and what all do behind them."""
    ops = _fenced(rng, ops)
    return [replace(head, skips=len(ops)), *ops, *_fenced(rng, behind)]


def _tries(rng: random.Random) -> Lists:
    """Threads try one lock once; who takes it may let it go."""
    kind, frees = rng.choice(["try", "try", "swap"]), rng.random() < 0.6
    lists = []
    for _ in range(rng.randint(2, 3)):
        head = Op(kind, 0, 1, acquire=rng.random() < 0.8)
        inside = [*rng.choice([[], [_r()]]), _w(), *([_free(rng, 0)] if frees else [])]
        lists.append(_under(rng, head, inside, rng.choice([[], [], [_r(1)]])))
    return lists


def _first_tells(rng: random.Random) -> Lists:
    """Who comes first writes something, and tells the others of it."""
    lists: Lists = []
    for _ in range(rng.randint(2, 3)):
        head = Op(rng.choice(["try", "swap", "count"]) if not lists else lists[0][0].kind, 0, 1)
        lists.append(
            _under(rng, head, [_w(), _set(1, 1)], rng.choice([[], [_wait(1, 1), _r()], [_wait(1, 1)]]))
        )
    return lists


def _last(rng: random.Random) -> Lists:
    """Threads count; the last one, as a rule, looks at what all have done."""
    n = rng.randint(2, 4)
    wanted = rng.choice([n - 1, n - 1, n - 1, n - 1, n - 2, n])
    strong = rng.random() < 0.8
    lists = []
    for k in range(n):
        head = Op("count", 0, 1, release=True, acquire=strong, wanted=wanted)
        inside = [*rng.choice([[], [Op("fence")]]), _r(0), *rng.choice([[], [_r(1)], [_w(1)]])]
        lists.append([*([_w(k)] if k < 2 else []), *_under(rng, head, inside, [])])
    return lists


def _try_then_wait(rng: random.Random) -> Lists:
    """One lock that some try and others wait for."""
    tries = _tries(rng)[: rng.choice([1, 2])]
    return [*tries, _section(rng)]


_TURNS = (_tries, _tries, _tries, _first_tells, _last, _last, _last, _try_then_wait)


def turned(rng: random.Random) -> Program:
    """A program in which atomics in shared memory decide who does what, with up to three edits."""
    threads = rng.choice(_TURNS)(rng)
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        _edit(rng, threads)
    rng.shuffle(threads)
    return Program(tuple(tuple(ops[:8]) for ops in threads[:4] if ops), "shared")


# ------------------------------------------------------------------ PTX


def launch(p: Program) -> dict[str, Any]:
    n = len(p.threads)
    grid, block = ([n], [1]) if p.place == "blocks" else ([1], [32 * n])
    return {"grid": grid, "block": block, "params": {str(k): {"ptr": f"P{k}"} for k in range(3)}}


def ptx(p: Program) -> str:
    """The kernel ``k(flags, data, out)``; flags in shared memory are set to zero first."""
    blocks = p.place == "blocks"
    lines = [
        ".version 8.6", ".target sm_90a", ".address_size 64",
        ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)", "{",
        ".reg .pred %p<3>;", ".reg .b32 %r<6>;", ".reg .b32 %q<64>;", ".reg .b64 %rd<4>;",
        ".shared .align 4 .b8 flags[8];", ".shared .align 4 .b8 data[8];",
        *(f"ld.param.u64 %rd{k + 1}, [p{k}];" for k in range(3)),
        f"mov.u32 %r1, {'%ctaid.x' if blocks else '%tid.x'};",
    ]  # fmt: skip
    if p.place == "shared":
        stores = [f"st.shared.u32 [flags+{4 * k}], 0;" for k in (0, 1)]
        lines += ["setp.ne.s32 %p1, %r1, 0;", "@%p1 bra READY;", *stores, "READY:", "bar.sync 0;"]
    for n in range(len(p.threads)):
        lines += [f"setp.eq.s32 %p1, %r1, {n if blocks else 32 * n};", f"@%p1 bra T{n};"]
    lines.append("ret;")
    for n, ops in enumerate(p.threads):
        lines.append(f"T{n}:")
        for i, op in enumerate(ops):
            lines += [f"S{n}_{i}:", *_ptx(op, p.place, f"{n}_{i}", 4 * (8 * n + i))]
            if op.kind in DECIDES:
                lines += [
                    f"setp.ne.u32 %p2, %q{8 * n + i}, {op.wanted};",
                    f"@%p2 bra S{n}_{min(i + 1 + op.skips, len(ops))};",
                ]
        lines += [f"S{n}_{len(ops)}:", "ret;"]
    return "\n".join([*lines, "}", ""])


def _ptx(op: Op, place: str, label: str, out: int) -> list[str]:
    scope = "cta" if place == "shared" or op.narrow else "gpu"
    data = f"[{'%rd2' if place == 'blocks' else 'data'}+{4 * op.at}]"
    flag = f"[{'flags' if place == 'shared' else '%rd1'}+{4 * op.at}]"
    ds, fs = ("global" if place == "blocks" else "shared"), ("shared" if place == "shared" else "global")
    order = {(0, 0): "relaxed", (1, 0): "release", (0, 1): "acquire", (1, 1): "acq_rel"}
    sem = order[op.release, op.acquire]
    text = {
        "read": [f"ld.{ds}.u32 %r2, {data};", f"st.global.u32 [%rd3+{out}], %r2;"],
        "write": [f"st.{ds}.u32 {data}, {out + 7};"],
        "plain": [f"st.{fs}.u32 {flag}, {op.value};"],
        "store": [f"st.{sem}.{scope}.{fs}.u32 {flag}, {op.value};"],
        "add": [f"atom.{sem}.{scope}.{fs}.add.u32 %r3, {flag}, {op.value};"],
        "exch": [f"atom.{sem}.{scope}.{fs}.exch.b32 %r3, {flag}, {op.value};"],
        "lock": [
            f"W{label}:",
            f"atom.{sem}.{scope}.{fs}.cas.b32 %r4, {flag}, 0, {op.value};",
            "setp.ne.s32 %p2, %r4, 0;",
            f"@%p2 bra W{label};",
        ],
        **{
            kind: [
                f"atom.{sem}.{scope}.{fs}.{how} %q{out // 4}, {flag}, "
                f"{'0, ' if kind == 'try' else ''}{op.value};"
            ]
            for kind, how in DECIDES.items()
        },
        "fence": [f"fence.acq_rel.{scope};"],
        "wait": [
            f"W{label}:",
            f"ld.{sem}.{scope}.{fs}.u32 %r4, {flag};",
            f"setp.{_NOT[op.compare]}.s32 %p2, %r4, {op.value};",
            f"@%p2 bra W{label};",
        ],
    }
    return text[op.kind]
