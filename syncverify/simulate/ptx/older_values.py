"""Strong loads that read an older value than the last one (PTX ISA, memory consistency model).

A strong store is seen at once by nobody. A strong load in no order with it may bring what stood there before,
as far as coherence allows:

- of what the thread knows (happens-before), the last write and all later ones;
- nothing older than a read that the thread knows of, its own among them.

Writes of a word stand in the order in which they are executed, and an atomic reads the last one. So reads
may be late, and stores are not: what only a load before its time can bring is not seen.

Example: a thread stores ``data`` and then ``flag``, both relaxed. Another sees ``flag`` and still the old
``data``. With a release and an acquire it knows of the store to ``data``, and reads nothing older.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from syncverify.simulate.ptx.ordering import key_of
from syncverify.simulate.ptx.types import Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.addressing import Part
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.ordering import Release
    from syncverify.simulate.ptx.state import Fragment

#: Writes of a word that are kept, and older values that a thread reads at one line.
KEPT, EACH = 6, 3
_LOW = 0xFFFFFFFF


@dataclass(slots=True)
class Write:
    """``stamp``: agent << 32 | epoch, as in the shadow. ``left``: what releases left with it."""

    value: int
    stamp: int
    left: tuple[Release, ...] = ()
    readers: dict[int, int] = field(default_factory=dict)  # agent -> epoch of its first read


class OlderValues:
    """The writes of words by strong accesses, of which loads may read an older one with a ``chance``."""

    def __init__(self, chance: float) -> None:
        self.chance = chance
        self.words: dict[tuple[int, int], list[Write]] = {}  # (key of the place, bits) -> the last writes
        self.spent: dict[tuple[int, int], int] = {}  # (thread, line) -> older values read
        self.found: dict[int, Write] = {}  # by lane, what the load that is executed now reads
        self.writers: list[tuple[int, int]] = []  # threads and epochs of the write that is made now

    def before(self, m: Machine, f: Fragment, part: Part, bits: int) -> None:
        """Ahead of a strong write: what stands there is the first of the values that may be read."""
        shadow = part.arena.shadow
        if shadow is None or bits > 64:
            return
        threads = f.warp.threads[part.lanes]
        self.writers = list(zip(threads.tolist(), m.clocks.epoch[threads].tolist(), strict=True))
        now = part.arena.load(part.at, bits)
        for at, value in zip(part.at.tolist(), now.tolist(), strict=True):
            key, stamp = (key_of(part, at), bits), int(shadow.wrote[at // shadow.granule])
            known = self.words.get(key)
            if not known or known[-1].stamp != stamp or known[-1].value != value:
                self.words[key] = [Write(value, stamp)]

    def after(self, m: Machine, part: Part, bits: int) -> None:
        """After a strong write, and what it released: it is the last one."""
        shadow = part.arena.shadow
        if shadow is None or bits > 64:
            return
        now = part.arena.load(part.at, bits)
        made: dict[int, Write] = {}
        for at, value, (thread, epoch) in zip(part.at.tolist(), now.tolist(), self.writers, strict=True):
            place = key_of(part, at)
            if place not in made:
                stamp = int(shadow.wrote[at // shadow.granule])
                made[place] = Write(value, stamp, m.flags.get(place, ()))
                writes = self.words.setdefault((place, bits), [])
                writes.append(made[place])
                del writes[:-KEPT]
            made[place].readers.setdefault(thread, epoch)  # of several lanes one is the last

    def read(self, m: Machine, f: Fragment, part: Part, value: Lanes, elements: int) -> None:
        """A strong load: of lanes that read an older value, ``value`` (one element for each lane of ``part``)
        changes, and ``found`` says which it is. ``elements`` of a vector are the last ones."""
        bits = 8 * value.itemsize
        for n, (lane, at) in enumerate(zip(part.lanes.tolist(), part.at.tolist(), strict=True)):
            writes = self.words.get((key_of(part, at), bits)) if elements == 1 else None
            if writes and self._is_last(part, at, writes[-1]):
                chosen = self._choose(m, f, int(f.warp.threads[lane]), writes)
                if chosen is not writes[-1]:
                    value[n], self.found[lane] = chosen.value, chosen
        if self.found:
            m.version += 1  # who polls reads the last one in time

    def _is_last(self, part: Part, at: int, write: Write) -> bool:
        shadow = part.arena.shadow
        return shadow is not None and int(shadow.wrote[at // shadow.granule]) == write.stamp

    def _choose(self, m: Machine, f: Fragment, thread: int, writes: list[Write]) -> Write:
        known = m.clocks.know[0, thread]
        first = len(writes) - 1
        while first and not self._seen(known, writes[first]):
            first -= 1
        place = (thread, m.line(f))
        number = len(writes) - 1
        may = first < number and self.spent.get(place, 0) < EACH
        if may and m.draw.random() < self.chance:
            number = int(m.draw.integers(first, number))
            self.spent[place] = self.spent.get(place, 0) + 1
        found = writes[number]
        found.readers.setdefault(thread, int(m.clocks.epoch[thread]))
        return found

    def _seen(self, known: Lanes, write: Write) -> bool:
        """Whether a thread knows of a write, or of a read of it."""
        agent, epoch = write.stamp >> 32, write.stamp & _LOW
        return bool(known[agent] >= epoch) or any(known[a] >= e for a, e in write.readers.items())


__all__ = ["EACH", "KEPT", "OlderValues", "Write"]
