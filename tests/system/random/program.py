"""Kernel text under construction: a tree of lines that mutations can edit."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Block:
    """``head { body }``; without a head its lines stand in the surrounding block."""

    head: str
    body: list[Item] = field(default_factory=list)


Item = str | Block


def block(head: str, *items: Item | Sequence[Item]) -> Block:
    """A block of lines; lists are spliced and empty lines dropped."""
    return Block(head, lines(*items))


def lines(*items: Item | Sequence[Item]) -> list[Item]:
    """Items and lists of items as one list, without empty lines."""
    out: list[Item] = []
    for item in items:
        out += [item] if isinstance(item, (str, Block)) else item
    return [x for x in out if x != ""]


@dataclass
class Program:
    """One kernel: its header lines and its body, where it came from and what was done to it."""

    family: str
    header: list[str]
    body: list[Item]
    bug: str = "none"
    edits: list[str] = field(default_factory=list)

    def text(self, name: str = "random") -> str:
        """The kernel as ``.syncir``."""
        out = [f"kernel {name} {{", *(f"  {h}" for h in self.header), ""]
        _render(self.body, "  ", out)
        return "\n".join([*out, "}", ""])


def _render(items: list[Item], pad: str, out: list[str]) -> None:
    for item in items:
        if isinstance(item, str):
            out.append(pad + item)
        elif item.body:
            out.append(f"{pad}{item.head} {{")
            _render(item.body, pad + "  ", out)
            out.append(pad + "}")


def places(items: list[Item]) -> Iterator[tuple[list[Item], int]]:
    """Every line, as the list that holds it and its index there; not what a poll's result guards."""
    for i, item in enumerate(items):
        if isinstance(item, str):
            yield items, i
        elif item.head != "if p == 0":
            yield from places(item.body)


#: Lines that set what later lines name: without them, or in another place, a kernel cannot be read.
_FIXED = re.compile(r"^(let |elect |ld\.|ldmatrix |frag\.read |compute )")


def mutate(rng: random.Random, program: Program) -> None:
    """One random edit of a line or of the launch; notes what it did."""
    spots = [(where, i) for where, i in places(program.body) if not _FIXED.match(str(where[i]))]
    if not spots:
        return
    where, i = rng.choice(spots)
    line = str(where[i])
    edit = rng.choice(_EDITS)
    note = edit(rng, where, i, line)
    if note:
        program.edits.append(note)


def add_noise(rng: random.Random, program: Program) -> None:
    """Operations beside the protocol: fences, accesses of a lane's own bytes."""
    own = "scratch[][tid : 1]"
    noise = ["fence.acq_rel.cta", "fence.acq_rel.gpu", "fence.proxy.async.global"]
    noise += [f"st.shared {own}, 1.0", f"ld.shared own, {own}", f"atom.shared.add {own}, 1.0"]
    if rng.random() < 0.15:
        noise += ["fence.proxy.async.shared_cta", "fence.proxy.async"]
    spots = list(places(program.body))
    for where, i in rng.sample(spots, min(len(spots), rng.choice([1, 1, 2, 3]))):
        where.insert(i, rng.choice(noise))
    program.header.append("shared scratch : f32[512] align 128 offset 8192")


def _delete(rng: random.Random, where: list[Item], i: int, line: str) -> str:
    del where[i]
    return f"delete {line}"


def _duplicate(rng: random.Random, where: list[Item], i: int, line: str) -> str:
    where.insert(i, line)
    return f"duplicate {line}"


def _swap(rng: random.Random, where: list[Item], i: int, line: str) -> str:
    if i + 1 >= len(where):
        return ""
    other = where[i + 1]
    where[i], where[i + 1] = other, line
    return f"swap {line}"


def _number(rng: random.Random, where: list[Item], i: int, line: str) -> str:
    """Changes the last number of a line: a parity, a count, a number of bytes, a group."""
    m = re.match(r"^((?:mbarrier|bar|bulk\.wait|cp\.async\.wait|wgmma\.wait|setmaxnreg)\b.*?)(\d+)$", line)
    if m is None:
        return ""
    old = int(m[2])
    new = old + rng.choice([-1, 1]) * (
        16 if "expect" in line else 32 if "," in line and line[:4] == "bar." else 1
    )
    if line.startswith("setmaxnreg"):
        new = old + rng.choice([-8, 8])
    counts = "init" in line or line.startswith("bar.")  # of nobody: no program
    if new < 0 or (counts and new < 1) or re.search(r"% $", m[1]):
        return ""
    where[i] = m[1] + str(new)
    return f"{line}: {old} -> {new}"


def _flip(rng: random.Random, where: list[Item], i: int, line: str) -> str:
    m = re.match(r"^(mbarrier\.(?:wait|test|try)\b[^,]*, )(.*)$", line)
    if m is None:
        return ""
    where[i] = f"{m[1]}({m[2]} + 1) % 2"
    return f"flip the parity of {line}"


def _weaken(rng: random.Random, where: list[Item], i: int, line: str) -> str:
    for old, new in (
        ("mbarrier.arrive ", "mbarrier.arrive.relaxed "),
        ("mbarrier.wait ", "mbarrier.wait.relaxed "),
        ("fence.proxy.async.shared_cta", "fence.proxy.async.global"),
        ("fence.proxy.async.shared_cta", "fence.acq_rel.cta"),
        ("cluster.arrive", "cluster.arrive.relaxed"),
    ):
        if line.startswith(old) and ".relaxed" not in line and rng.random() < 0.7:
            where[i] = new + line[len(old) :]
            return f"weaken {line}"
    return ""


def _guard(rng: random.Random, where: list[Item], i: int, line: str) -> str:
    where[i] = Block("if lane != 0", [line])
    return f"guard {line}"


_EDITS: tuple[Callable[[random.Random, list[Item], int, str], str], ...] = (
    _delete, _delete, _duplicate, _swap, _number, _number, _flip, _weaken, _weaken, _guard,
)  # fmt: skip
