"""wgmma: products of a warpgroup; an engine reads their operands from shared memory (PTX ISA, 9.7.15).

Each warp issues a product by itself; its four parts end when a wait covers it. ``ProductForm`` is what the
text says, ``Product`` what the warps of the warpgroup have issued of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx import fragments
from syncverify.simulate.ptx.addressing import Part, granules
from syncverify.simulate.ptx.clocks import Stamp
from syncverify.simulate.ptx.copies import mark, new_agent
from syncverify.simulate.ptx.engines import Operation
from syncverify.simulate.ptx.matrix import full_warp
from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Imm, Instr, Operand, Reg, Vector
from syncverify.simulate.ptx.types import Lanes, types_of
from syncverify.simulate.ptx.variable_bounds import inside

if TYPE_CHECKING:
    from syncverify.simulate.ptx.machine import Machine
    from syncverify.simulate.ptx.state import Fragment, Next, Step

_SECTION = "wgmma"


@dataclass(eq=False, slots=True)
class Product:
    """One wgmma of a warpgroup: who has issued it, and what its parts have brought."""

    line: int
    descriptors: tuple[int, int]
    agent: int
    stamp: Stamp
    adds: bool  # scale-d
    issued: set[int] = field(default_factory=set)
    handed: dict[int, Any] = field(default_factory=dict)  # by warp: what it had read when it issued this
    parts: dict[int, Operation] = field(default_factory=dict)  # by warp
    results: dict[int, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Warpgroup:
    """Four warps and the wgmma that they have issued, by number."""

    products: list[Product] = field(default_factory=list)


@builder("wgmma", together=True)
def _wgmma(c: Context, i: Instr) -> Step:
    match i.mods[0]:
        case "fence":
            then: Callable[[Fragment], Next] = _fence
        case "commit_group":
            then = _commit
        case "wait_group":
            operand = i.operands[0]
            if not isinstance(operand, Imm):
                raise c.fail("the number of groups is no constant")
            left = operand.value

            def wait(f: Fragment) -> Next:
                return _wait(f, left)

            then = wait
        case "mma_async":
            then = _multiply(_form(c, i))
        case _:
            raise c.fail()
    return lambda f: f.warp.machine.whole_warp(f, then, f"{i.name} by a part of the warp")


def _fence(f: Fragment) -> Next:
    f.warp.touched.clear()
    f.warp.taken.clear()
    f.warp.fenced = True
    return None


def _commit(f: Fragment) -> Next:
    f.warp.matrix_groups.append(f.warp.matrix_open)
    f.warp.matrix_open = []
    return None


def _group(f: Fragment) -> Warpgroup:
    return f.warp.block.warpgroups.setdefault(f.warp.number // 4, Warpgroup())


def _team(f: Fragment) -> list[Any]:
    return [w for w in f.warp.block.warps if w.number // 4 == f.warp.number // 4]


def _wait(f: Fragment, left: int) -> Next:
    m, warp, group = f.warp.machine, f.warp, _group(f)
    groups = warp.matrix_groups
    done = groups[: max(len(groups) - left, 0)]
    numbers = [n for g in done for n in g]
    team = {w.number for w in _team(f)}

    def ready() -> bool:
        return all(group.products[n].issued >= team for n in numbers)

    def resume() -> Next:
        for n in numbers:
            product = group.products[n]
            for op in product.parts.values():
                op.run_all()
            apply = product.results.pop(warp.number)
            apply(f)
            rows = slice(warp.first_thread, warp.first_thread + warp.count)
            m.clocks.learn(rows, *product.stamp)
            for reads in product.handed.values():
                m.clocks.know_reads(rows, reads)
            if m.clocks.epoch[product.agent] == product.stamp[1]:
                m.clocks.done[product.agent] = True
        del groups[: len(done)]
        _in_flight(f)
        m.version += 1
        return f.pc + 1

    if ready():
        return resume()
    return f.block(ready, resume)


def _in_flight(f: Fragment) -> None:
    warp = f.warp
    numbers = {n for g in (*warp.matrix_groups, warp.matrix_open) for n in g}
    warp.accumulators = {
        r: key for r, key in warp.accumulators.items() if numbers & set(warp.flights.get(key, ()))
    }
    warp.operands = {r: n for r, n in warp.operands.items() if n in numbers}
    warp.in_flight = frozenset(warp.accumulators) | frozenset(warp.operands)


_SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}


@lru_cache(maxsize=4096)
def operand_bytes(descriptor: int, rows: int, columns: int, width: int, transposed: bool) -> Lanes:
    """Shared byte of each element of a matrix (rows are M or N, columns K), before the block's base.

    ``width``: bytes of an element. ``transposed``: rows follow each other in memory (MN-major).
    """
    start = (descriptor & 0x3FFF) << 4
    leading = ((descriptor >> 16) & 0x3FFF) << 4
    stride = ((descriptor >> 32) & 0x3FFF) << 4
    swizzle = _SWIZZLE[(descriptor >> 62) & 3]
    r, k = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    if not transposed:
        at = k * width
        if swizzle:
            out = start + (r // 8) * stride + (r % 8) * swizzle + at
        else:
            out = start + (r // 8) * stride + (at // 16) * leading + (r % 8) * 16 + at % 16
    else:
        at = r * width
        if swizzle:
            out = start + (at // swizzle) * leading + (k // 8) * stride + (k % 8) * swizzle + at % swizzle
        else:
            out = start + (at // 16) * stride + (k // 8) * leading + (k % 8) * 16 + at % 16
    if swizzle:
        bits = {32: 1, 64: 3, 128: 7}[swizzle]
        out = out ^ (((out >> 7) & bits) << 4)
    return out


_WIDTH = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "e4m3": 1, "e5m2": 1, "b1": 1}


@dataclass(frozen=True, slots=True)
class ProductForm:
    """What the text of one ``wgmma.mma_async`` says. Registers are slots of the register file."""

    name: str
    columns: int  # N
    depth: int  # K
    kinds: tuple[str, str, str]  # types of D, A and B
    slots: tuple[int, ...]  # registers of D
    a_slots: tuple[int, ...]  # registers of A; none where A lies in shared memory
    a_descriptor: int | None
    b_descriptor: int
    scale_of: Callable[[list[Lanes]], Lanes] | None  # scale-d, where a predicate says it
    scale: bool  # scale-d, where it is a constant
    signs: tuple[int, int]  # factors of A and B: 1 or -1
    transposed: tuple[bool, bool]  # whether A and B are MN-major

    @property
    def shape(self) -> str:
        return f"n{self.columns}k{self.depth}"

    @property
    def width(self) -> int:
        """Bytes of an element of A and B; of single bits those of eight."""
        return _WIDTH[self.kinds[1]]

    @property
    def deep(self) -> int:
        """Elements along K as they lie in memory: bytes of single bits."""
        return self.depth // 8 if self.kinds[1] == "b1" else self.depth


def _form(c: Context, i: Instr) -> ProductForm:
    shape = next(w for w in i.mods if w.startswith("m64n"))
    columns, depth = (int(x) for x in shape[4:].split("k"))
    kinds = [w for w in i.mods if w == "b1" or w in types_of(i.mods)]
    d_kind, a_kind, b_kind = kinds
    bits = ("and", "popc") if a_kind == "b1" else ()  # what a product of single bits is: 1 where both are
    for w in i.mods:
        if w not in ("mma_async", "sync", "aligned", "satfinite", shape, *bits) and w not in kinds:
            raise c.fail(f"the modifier .{w}")
    d, a, b, scale, *rest = i.operands
    if not isinstance(d, Vector) or a_kind not in _WIDTH or b_kind not in _WIDTH:
        raise c.fail()
    a_slots = tuple(c.source(x, 32) for x in a.items) if isinstance(a, Vector) else ()
    signs, transposed = _factors(c, rest, in_registers=bool(a_slots))
    return ProductForm(
        name=i.name,
        columns=columns,
        depth=depth,
        kinds=(d_kind, a_kind, b_kind),
        slots=tuple(c.source(x, 32) for x in d.items),
        a_slots=a_slots,
        a_descriptor=None if a_slots else c.source(a, 64),
        b_descriptor=c.source(b, 64),
        scale_of=c.predicate(scale) if isinstance(scale, Reg) else None,
        scale=isinstance(scale, Imm) and scale.value != 0,
        signs=signs,
        transposed=transposed,
    )


def _factors(
    c: Context, operands: Sequence[Operand], *, in_registers: bool
) -> tuple[tuple[int, int], tuple[bool, bool]]:
    """The factors of A and B, and whether each is MN-major. A in registers has no major-ness."""
    values = [x.value for x in operands if isinstance(x, Imm)]
    if len(values) != len(operands):
        raise c.fail("a factor or a major-ness that is no constant")
    signs = (values[0], values[1]) if len(values) >= 2 else (1, 1)
    majors = values[2:]
    a_transposed = bool(majors[0]) if majors and not in_registers else False
    return signs, (a_transposed, bool(majors[-1]) if majors else False)


def _multiply(form: ProductForm) -> Callable[[Fragment], Next]:
    def issue(f: Fragment) -> Next:
        m, warp = f.warp.machine, f.warp
        full_warp(m, f, form.name)
        _registers_free(m, f, form)
        a_at, R = form.a_descriptor, f.R
        descriptors = (_same(m, f, R[a_at]) if a_at is not None else 0, _same(m, f, R[form.b_descriptor]))
        scales = form.scale_of(R) if form.scale_of is not None else np.full(32, form.scale)
        if scales.any() != scales.all():
            raise m.undefined(f, "lanes give different values of scale-d", _SECTION)
        adds = bool(scales[0])
        number = warp.matrix_count
        warp.matrix_count += 1
        product = _joined(m, f, number, descriptors, adds)
        _start(f, form, product, ProductInputs(m, f, form, descriptors, product.agent), adds)
        _fly(f, form, number)
        m.version += 1
        return None

    return issue


def _registers_free(m: Machine, f: Fragment, form: ProductForm) -> None:
    """Undefined behaviour where a register of this product is in use, or was written since the fence."""
    warp, key = f.warp, form.slots
    if len(_team(f)) < 4:
        raise m.undefined(f, "a warpgroup of fewer than four warps", _SECTION)
    if not warp.fenced:
        raise m.undefined(f, "a wgmma with no wgmma.fence before it", "wgmma.fence")
    if warp.touched & {*form.slots, *form.a_slots}:
        raise m.undefined(f, "registers of this wgmma were written since the last wgmma.fence", "wgmma.fence")
    for slots, how in ((form.slots, form.shape), (form.a_slots, "A")):
        if any(warp.taken.get(s, how) != how for s in slots):
            text = (
                "registers of this wgmma were those of one of another shape, or its operand, since the last "
            )
            raise m.undefined(f, f"{text}wgmma.fence", "wgmma.fence")
    for s in form.slots:
        if warp.accumulators.get(s, key) != key or s in warp.operands:
            raise m.undefined(f, "accumulators of two wgmma in flight share a register", "wgmma.wait_group")
    if any(s in warp.accumulators for s in form.a_slots):
        raise m.undefined(f, "an accumulator in flight is an operand", "wgmma.wait_group")


def _joined(m: Machine, f: Fragment, number: int, descriptors: tuple[int, int], adds: bool) -> Product:
    """The warpgroup's product of this number, which this warp issues too; all warps must mean the same."""
    warp, group = f.warp, _group(f)
    if number == len(group.products):
        agent = new_agent(m, f, 0, "a wgmma's")
        group.products.append(Product(m.line(f), descriptors, agent, m.clocks.stamp(agent), adds))
    product = group.products[number]
    if product.line != m.line(f):
        raise m.undefined(
            f, f"warps of one warpgroup execute different wgmma (line {product.line})", _SECTION
        )
    if product.descriptors != descriptors:
        raise m.undefined(f, "warps of one warpgroup give different descriptors", _SECTION)
    if product.adds != adds:
        raise m.undefined(f, "warps of one warpgroup give different values of scale-d", _SECTION)
    product.issued.add(warp.number)
    own = slice(warp.first_thread, warp.first_thread + warp.count)
    product.handed[warp.number] = m.clocks.handed(own)
    return product


class ProductInputs:
    """The factors of one product as one warp needs them: 16 rows of A, all of B."""

    def __init__(
        self, m: Machine, f: Fragment, form: ProductForm, descriptors: tuple[int, int], agent: int
    ) -> None:
        warp, width = f.warp, form.width
        know = m.clocks.know[:, warp.first_thread : warp.first_thread + warp.count].max(axis=1)
        self.machine, self.form = m, form
        b_layout = (descriptors[1], form.columns, form.deep, width, form.transposed[1])
        self.b_bytes = _placed(m, f, operand_bytes(*b_layout), width)
        mark_matrix(m, f, self.b_bytes, width, agent, know, (*b_layout, -1))
        if form.a_slots:
            held = fragments.rows_of_a([f.R[s] for s in form.a_slots], form.kinds[1])
            self.left: Callable[[], Lanes] = lambda: held
            return
        row = 16 * (warp.number % 4)
        a_layout = (descriptors[0], 64, form.deep, width, form.transposed[0])
        a_bytes = _placed(m, f, operand_bytes(*a_layout)[row : row + 16], width)
        mark_matrix(m, f, a_bytes, width, agent, know, (*a_layout, row))
        self.left = lambda: _read(m, a_bytes, form.kinds[1])

    def product(self) -> Lanes:
        """A times B with their signs, of what memory holds now."""
        right = _read(self.machine, self.b_bytes, self.form.kinds[2])
        return (self.form.signs[0] * self.left()) @ (self.form.signs[1] * right).T


def _start(f: Fragment, form: ProductForm, product: Product, inputs: ProductInputs, adds: bool) -> None:
    m, warp, d_kind = f.warp.machine, f.warp, form.kinds[0]
    out: list[Lanes] = []

    def read() -> None:
        out.append(inputs.product())

    def apply(now: Fragment) -> None:
        total = out[0]
        if adds:
            total = total + fragments.matrix_of([now.R[s] for s in form.slots], d_kind)
        if d_kind == "s32":
            total = fragments.integers(total, clamps=".satfinite" in form.name)
        for s, value in zip(form.slots, fragments.registers_of(total, d_kind), strict=True):
            now.R[s] = value

    op = Operation(m, f"wgmma line {m.line(f)}", m.here(f), [[read]], [lambda: None])
    product.parts[warp.number] = op
    product.results[warp.number] = apply
    op.start()


def _fly(f: Fragment, form: ProductForm, number: int) -> None:
    """Notes which registers the product uses until a wait covers it."""
    warp = f.warp
    warp.taken.update(dict.fromkeys(form.a_slots, "A"))
    warp.taken.update(dict.fromkeys(form.slots, form.shape))
    warp.matrix_open.append(number)
    warp.accumulators.update(dict.fromkeys(form.slots, form.slots))
    warp.operands.update(dict.fromkeys(form.a_slots, number))
    warp.flights.setdefault(form.slots, []).append(number)
    warp.in_flight = frozenset(warp.accumulators) | frozenset(warp.operands)


def _same(m: Machine, f: Fragment, values: Lanes) -> int:
    if (values != values[0]).any():
        raise m.undefined(f, "lanes give different descriptors", _SECTION)
    return int(values[0])


def _placed(m: Machine, f: Fragment, at: Lanes, width: int) -> Lanes:
    """Bytes in the arena of elements of ``width`` bytes; outside of the block's memory is undefined."""
    block = f.warp.block
    here = at - (block.shared_base & 0x3FFFF)
    if int(here.min()) < 0 or int(here.max()) >= block.shared_size:
        raise m.undefined(f, "a wgmma operand lies outside of shared memory", "matrix descriptors")
    places = here.ravel()
    inside(m, f, Part("shared", m.shared.arena, places, np.zeros_like(places)), width)
    return here + block.arena


def mark_matrix(
    m: Machine, f: Fragment, at: Lanes, width: int, agent: int, know: Lanes, layout: tuple[int | bool, ...]
) -> None:
    """Notes the bytes of an operand as read by the async proxy: elements of ``width`` bytes. ``layout`` tells
    it from all others."""
    shadow = m.shared.arena.shadow
    assert shadow is not None
    index = _distinct(m, at, width, shadow.granule, (f.warp.block.arena, *layout))
    if m.shared.barrier[index * shadow.granule >> 3].any():
        raise m.undefined(f, "a wgmma operand covers a live mbarrier object", "mbarrier")
    mark(m, f, m.shared.arena, index, agent, False, "shared", know)


def _distinct(m: Machine, at: Lanes, width: int, granule: int, key: tuple[int | bool, ...]) -> Lanes:
    """The granules of an operand, remembered by its layout."""
    found = m.operands.get(key)
    if found is None:
        found = m.operands[key] = np.unique(granules(at.ravel(), width, granule))
    return found


def _read(m: Machine, at: Lanes, kind: str) -> Lanes:
    width = _WIDTH[kind]
    raw = m.shared.arena.load(at.ravel(), 8 * width)
    if kind == "b1":
        bits = np.unpackbits(raw.view(np.uint8).reshape(at.shape), axis=1, bitorder="little")
        return bits.astype(np.float64)
    if kind == "tf32":
        raw = raw & np.uint32(0xFFFFE000)
    return raw.view(fragments.ELEMENTS[kind][0]).astype(np.float64).reshape(at.shape)
