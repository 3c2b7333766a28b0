"""Rings of tensor copies: their boxes are in the launch file, or follow from what phases expect.

Blocks of a cluster fill each other's slots by multicast. Either one block copies for all, or each copies its
part for all, or each for itself; one map or two. A slot is free once the readers of every block that a copy
reaches have released it to the block that copies. Without the box the checker has to find the one for which
phases end. The executions have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.system.random_ptx.families import keep
from tests.system.random_ptx.writer import Program, Writer


@dataclass
class Shape:
    """``copies``: each block alone, one for all ``blocks``, or a part each. ``box``: bytes of each map."""

    blocks: int
    copies: str
    maps: int
    box: int
    stages: int
    rounds: int

    @property
    def senders(self) -> int:
        """Blocks whose copies come to one slot."""
        return self.blocks if self.copies == "part" else 1

    @property
    def slot(self) -> int:
        return self.senders * self.maps * self.box

    @property
    def reached(self) -> int:
        """Blocks that one copy comes to."""
        return 1 if self.copies == "alone" else self.blocks


def boxes(w: Writer) -> Program:
    """One thread of a block copies, a warp reads and releases."""
    draw = w.draw
    blocks = draw.choice([1, 2, 2, 2])
    copies = draw.choice(["alone", "all", "part", "part"]) if blocks > 1 else "alone"
    shape = Shape(
        blocks,
        copies,
        draw.choice([1, 1, 2]),
        draw.choice([256, 512]),
        draw.choice([1, 2]),
        draw.randint(1, 5),
    )
    w.room("tiles", shape.stages * shape.slot, 128)
    w.room("bars", 16 * shape.stages, 16)
    maps = [w.tensor_map(shape.box) for _ in range(shape.maps)]
    rank, p, first = w.fresh("r"), w.fresh("p"), w.label("I")
    w.emit(f"mov.u32 {rank}, %cluster_ctarank;", f"setp.ne.u32 {p}, %thr, 0;", f"@{p} bra {first};")
    count = w.off("count of empty", shape.reached, shape.reached + 1, max(shape.reached - 1, 1))
    for s in range(shape.stages):
        w.emit(f"mbarrier.init.shared::cta.b64 [bars+{8 * s}], 1;")
        w.emit(f"mbarrier.init.shared::cta.b64 [bars+{8 * (shape.stages + s)}], {count};")
    w.emit("fence.mbarrier_init.release.cluster;", f"{first}:")
    _meet(w, blocks)
    reader, end, warp = w.label("R"), w.label("E"), w.fresh("p")
    w.emit(f"setp.ne.u32 {warp}, %warp, 0;", f"@{warp} bra {reader};", f"@{p} bra {end};")
    for turn in range(shape.rounds):
        _fill(w, shape, turn, maps, rank)
    w.emit(f"bra {end};", f"{reader}:")
    for turn in range(shape.rounds):
        _take(w, shape, turn)
    w.emit(f"{end}:")
    _meet(w, blocks)
    return w.finished("boxes", 64, blocks)


def _meet(w: Writer, blocks: int) -> None:
    if blocks > 1:
        w.emit("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
    else:
        w.emit("bar.sync 0;")


def _wait(w: Writer, bar: int, parity: int, wide: bool = False) -> None:
    """``wide``: for what threads of other blocks release, which the default scope does not bring."""
    p, top = w.fresh("p"), w.label("W")
    scope = ".acquire.cluster" if wide or w.chance(0.5) else ""
    w.emit(f"{top}:", f"mbarrier.try_wait.parity{scope}.shared::cta.b64 {p}, [bars+{bar}], {parity};")
    w.emit(f"@!{p} bra {top};")


def _fill(w: Writer, shape: Shape, turn: int, maps: list[str], rank: str) -> None:
    """The slot's bytes are announced by each block that they come to; the copies by those that copy."""
    slot = turn % shape.stages
    full, empty = 8 * slot, 8 * (shape.stages + slot)
    alone, over = w.fresh("p"), w.label("N")
    again = turn >= shape.stages
    before = (turn // shape.stages - 1) % 2
    expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars+{full}], {shape.slot};"
    if again and not w.wrong(f"no wait for a free slot, turn {turn}"):
        _wait(w, full, before)  # what was announced before has come
    if shape.copies == "all":
        w.emit(expect)
        other = w.off("the block that copies", 0, 1) if turn == 0 else 0
        w.emit(f"setp.ne.u32 {alone}, {rank}, {other};", f"@{alone} bra {over};")
    if again and not w.wrong(f"no wait for the readers, turn {turn}"):
        _wait(w, empty, before, not w.wrong("a wait of the block's scope"))
    if shape.copies != "all":
        w.emit(expect)
    to, part = w.fresh("r"), shape.maps * shape.box
    w.emit(f"mov.u32 {to}, tiles;", f"add.u32 {to}, {to}, {slot * shape.slot};")
    if shape.copies == "part":
        w.emit(f"mad.lo.u32 {to}, {rank}, {part}, {to};")
    zero = w.constant(0)
    for n, m in enumerate(maps):
        copy = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        mask = ""
        if shape.copies != "alone":
            copy += ".multicast::cluster"
            mask = f", {_half(w, w.off('a mask of one block', (1 << shape.blocks) - 1, 1))}"
        w.emit(f"{copy} [{to}], [{m}, {{{zero}}}], [bars+{full}]{mask};")
        if n + 1 < len(maps):
            w.emit(f"add.u32 {to}, {to}, {shape.box};")
    if shape.copies == "all":
        w.emit(f"{over}:")


def _half(w: Writer, value: int) -> str:
    h = w.fresh("h")
    w.emit(f"mov.u16 {h}, {value};")
    return h


def _take(w: Writer, shape: Shape, turn: int) -> None:
    """The readers wait for the slot, read a word each, and release it to every block that copies into it."""
    slot = turn % shape.stages
    parity = w.off("parity of a reader", turn // shape.stages % 2, 1 - turn // shape.stages % 2)
    _wait(w, 8 * slot, parity)
    a, at = w.fresh("r"), w.fresh("r")
    w.emit(f"mov.u32 {at}, tiles;", f"mad.lo.u32 {at}, %lane, 4, {at};")
    w.emit(f"ld.shared.u32 {a}, [{at}+{slot * shape.slot + 128 * w.draw.randrange(shape.slot // 128)}];")
    keep(w, a)
    w.emit("fence.proxy.async.shared::cta;")
    if not w.wrong("no meeting of the warp before the release"):
        w.emit("bar.warp.sync -1;")
    q, bar, there = w.fresh("p"), w.fresh("r"), w.fresh("r")
    w.emit(f"mov.u32 {bar}, bars;", f"add.u32 {bar}, {bar}, {8 * (shape.stages + slot)};")
    w.emit(f"setp.ne.u32 {q}, %lane, 0;")
    if shape.copies == "alone":
        w.emit(f"@!{q} mbarrier.arrive.shared::cta.b64 _, [{bar}];")
        return
    targets = range(shape.blocks) if shape.copies == "part" else range(1)
    if w.wrong("releases one block alone"):
        targets = range(1)
    if w.wrong("releases its own block alone"):
        w.emit(f"@!{q} mbarrier.arrive.shared::cta.b64 _, [{bar}];")
        return
    for target in targets:
        w.emit(f"mapa.shared::cluster.u32 {there}, {bar}, {target};")
        w.emit(f"@!{q} mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{there}];")


BOX_FAMILIES: dict[str, Callable[[Writer], Program]] = {"boxes": boxes}
