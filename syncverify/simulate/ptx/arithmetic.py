"""Instructions that only compute: from opcodes to closures over slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from syncverify.simulate.ptx import conversions, floats, integers
from syncverify.simulate.ptx.memory import CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from syncverify.simulate.ptx.program import CARRY, Context, builder
from syncverify.simulate.ptx.syntax import Imm, Instr, Not, Pair, Reg, Sink, Special, Vector
from syncverify.simulate.ptx.types import BITS, FLOATS, LANES, UNSIGNED, Lanes, extend, is_signed, types_of

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Fragment, Next, Step

Operation = Callable[..., Lanes]


def known(c: Context, i: Instr, *words: str) -> None:
    """Every modifier has to be one of these or a type."""
    for m in i.mods:
        if m not in words and m not in BITS:
            raise c.fail(f"the modifier .{m}")


def _apply(c: Context, i: Instr, of: Operation, widths: list[int], result: int, sign: bool = False) -> Step:
    """``d = of(operands)``, each operand of its width."""
    slots = [c.source(x, w) for x, w in zip(i.operands[1:], widths, strict=True)]
    match slots:
        case [a]:
            return c.pure(i.operands[0], lambda R: of(R[a]), result, sign)
        case [a, b]:
            return c.pure(i.operands[0], lambda R: of(R[a], R[b]), result, sign)
        case [a, b, d]:
            return c.pure(i.operands[0], lambda R: of(R[a], R[b], R[d]), result, sign)
    return c.pure(i.operands[0], lambda R: of(*(R[s] for s in slots)), result, sign)


def _kind(c: Context, i: Instr) -> str:
    kinds = types_of(i.mods)
    if len(kinds) != 1:
        raise c.fail("expected one type")
    return kinds[0]


_FLOAT_MODIFIERS = ("rn", "rz", "rm", "rp", "ftz", "sat", "relu", "approx", "full", "NaN", "xorsign", "abs")


def _float(c: Context, i: Instr, kind: str, operands: int) -> Step:
    known(c, i, *_FLOAT_MODIFIERS)
    of = floats.arithmetic(i.op, kind, i.mods)
    if of is None:
        raise c.fail()
    return _apply(c, i, of, [BITS[kind]] * operands, BITS[kind])


def _packed_integer(kind: str, of: Operation) -> Operation:
    return integers.halves(of) if kind in ("u16x2", "s16x2") else of


@builder("add", "sub")
def _add(c: Context, i: Instr) -> Step:
    kind = types_of(i.mods)[-1] if types_of(i.mods) else ""
    if "cc" in i.mods:
        return _with_carry(c, i, kind, carry_in=False)
    if kind in FLOATS:
        return _float(c, i, _kind(c, i), 2)
    known(c, i, "sat")
    bits = BITS[_kind(c, i)]
    if "sat" in i.mods:
        if kind != "s32":
            raise c.fail(".sat is for s32")
        of = integers.add_saturated if i.op == "add" else integers.sub_saturated
        return _apply(c, i, of, [32, 32], 32)
    plain = integers.add if i.op == "add" else integers.sub
    return _apply(c, i, _packed_integer(kind, plain), [bits, bits], bits)


def _carry(c: Context) -> int:
    return c.slots[CARRY]


def _with_carry(c: Context, i: Instr, kind: str, carry_in: bool) -> Step:
    known(c, i, "cc")
    bits, flag = BITS[kind], _carry(c)
    slots = [c.source(x, bits) for x in i.operands[1:]]
    writes = "cc" in i.mods
    target = c.target(i.operands[0])
    guard = c.guard()
    adds = i.op in ("add", "addc")

    def run(f: Fragment) -> None:
        R = f.R
        a, b = R[slots[0]], R[slots[1]]
        carry = R[flag] if carry_in else np.zeros(LANES, bool)
        value, out = integers.add_carry(a, b, carry) if adds else integers.sub_borrow(a, b, carry)
        on = guard(R) if guard is not None else None
        if target is not None:
            R[target] = value if on is None else np.where(on, value, R[target])
        if writes:
            R[flag] = out if on is None else np.where(on, out, R[flag])

    return run


@builder("addc", "subc")
def _addc(c: Context, i: Instr) -> Step:
    return _with_carry(c, i, _kind(c, i), carry_in=True)


@builder("madc")
def _madc(c: Context, i: Instr) -> Step:
    return _mad_carry(c, i, carry_in=True)


def _mad_carry(c: Context, i: Instr, carry_in: bool) -> Step:
    known(c, i, "lo", "hi", "cc")
    kind = _kind(c, i)
    bits, flag = BITS[kind], _carry(c)
    product = integers.mul_hi(kind) if "hi" in i.mods else integers.mul_lo
    a, b, d = (c.source(x, bits) for x in i.operands[1:])
    target, guard, writes = c.target(i.operands[0]), c.guard(), "cc" in i.mods

    def run(f: Fragment) -> None:
        R = f.R
        carry = R[flag] if carry_in else np.zeros(LANES, bool)
        value, out = integers.add_carry(product(R[a], R[b]), R[d], carry)
        on = guard(R) if guard is not None else None
        if target is not None:
            R[target] = value if on is None else np.where(on, value, R[target])
        if writes:
            R[flag] = out if on is None else np.where(on, out, R[flag])

    return run


@builder("mul")
def _mul(c: Context, i: Instr) -> Step:
    kind = _kind(c, i)
    if kind in FLOATS:
        return _float(c, i, kind, 2)
    known(c, i, "lo", "hi", "wide")
    bits = BITS[kind]
    if "wide" in i.mods:
        return _apply(c, i, integers.mul_wide(kind), [bits, bits], 2 * bits)
    if "hi" in i.mods:
        return _apply(c, i, integers.mul_hi(kind), [bits, bits], bits)
    if "lo" not in i.mods:
        raise c.fail("expected .lo, .hi or .wide")
    return _apply(c, i, integers.mul_lo, [bits, bits], bits)


@builder("mad")
def _mad(c: Context, i: Instr) -> Step:
    kind = _kind(c, i)
    if kind in FLOATS:
        return _float(c, i, kind, 3)
    if "cc" in i.mods:
        return _mad_carry(c, i, carry_in=False)
    known(c, i, "lo", "hi", "wide", "sat")
    bits = BITS[kind]
    if "sat" in i.mods:
        if kind != "s32" or "hi" not in i.mods:
            raise c.fail(".sat is for mad.hi.s32")
        high = integers.mul_hi(kind)
        return _apply(c, i, lambda a, b, d: integers.add_saturated(high(a, b), d), [32] * 3, 32)
    if "wide" in i.mods:
        wide = integers.mul_wide(kind)
        return _apply(c, i, lambda a, b, d: wide(a, b) + d, [bits, bits, 2 * bits], 2 * bits)
    product = integers.mul_hi(kind) if "hi" in i.mods else integers.mul_lo
    if "hi" not in i.mods and "lo" not in i.mods:
        raise c.fail("expected .lo, .hi or .wide")
    return _apply(c, i, lambda a, b, d: product(a, b) + d, [bits] * 3, bits)


@builder("fma")
def _fma(c: Context, i: Instr) -> Step:
    return _float(c, i, _kind(c, i), 3)


@builder("mul24", "mad24")
def _mul24(c: Context, i: Instr) -> Step:
    known(c, i, "lo", "hi", "sat")
    of = integers.mul24(_kind(c, i), "hi" in i.mods)
    if i.op == "mul24":
        return _apply(c, i, of, [32, 32], 32)
    if "sat" in i.mods:
        return _apply(c, i, lambda a, b, d: integers.add_saturated(of(a, b), d), [32] * 3, 32)
    return _apply(c, i, lambda a, b, d: of(a, b) + d, [32] * 3, 32)


@builder("sad")
def _sad(c: Context, i: Instr) -> Step:
    known(c, i)
    kind = _kind(c, i)
    return _apply(c, i, integers.sad(kind), [BITS[kind]] * 3, BITS[kind])


@builder("div", "rem")
def _div(c: Context, i: Instr) -> Step:
    kind = _kind(c, i)
    if kind in FLOATS:
        return _float(c, i, kind, 2)
    known(c, i)
    of = integers.divide(kind) if i.op == "div" else integers.remainder(kind)
    return _apply(c, i, of, [BITS[kind]] * 2, BITS[kind])


@builder("abs", "neg")
def _abs(c: Context, i: Instr) -> Step:
    kind = _kind(c, i)
    if kind in FLOATS:
        known(c, i, "ftz")
        of = floats.arithmetic(i.op, kind, i.mods)
        assert of is not None
        return _apply(c, i, of, [BITS[kind]], BITS[kind])
    known(c, i)
    return _apply(c, i, integers.absolute if i.op == "abs" else integers.negate, [BITS[kind]], BITS[kind])


@builder("min", "max")
def _min(c: Context, i: Instr) -> Step:
    kind = _kind(c, i)
    if kind in FLOATS:
        if len(i.operands) != 3:
            raise c.fail("three operands")
        return _float(c, i, kind, 2)
    known(c, i, "relu")
    half = {"u16x2": "u16", "s16x2": "s16"}.get(kind, kind)
    of = integers.minimum(half) if i.op == "min" else integers.maximum(half)
    if "relu" in i.mods:
        of = integers.relu(of)
    return _apply(c, i, _packed_integer(kind, of), [BITS[kind]] * 2, BITS[kind])


@builder("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
def _one_float(c: Context, i: Instr) -> Step:
    return _float(c, i, _kind(c, i), 1)


@builder("copysign")
def _copysign(c: Context, i: Instr) -> Step:
    return _float(c, i, _kind(c, i), 2)


@builder("testp")
def _testp(c: Context, i: Instr) -> Step:
    kind = types_of(i.mods)[-1]
    of = floats.test_property(kind, i.mods[0])
    if of is None:
        raise c.fail()
    return _apply(c, i, of, [BITS[kind]], 1)


@builder("popc", "clz")
def _count(c: Context, i: Instr) -> Step:
    known(c, i)
    return _apply(c, i, integers.popc if i.op == "popc" else integers.clz, [BITS[_kind(c, i)]], 32)


@builder("bfind")
def _bfind(c: Context, i: Instr) -> Step:
    known(c, i, "shiftamt")
    kind = _kind(c, i)
    return _apply(c, i, integers.bfind(kind, "shiftamt" in i.mods), [BITS[kind]], 32)


@builder("brev")
def _brev(c: Context, i: Instr) -> Step:
    known(c, i)
    bits = BITS[_kind(c, i)]
    return _apply(c, i, integers.brev, [bits], bits)


@builder("fns")
def _fns(c: Context, i: Instr) -> Step:
    known(c, i)
    return _apply(c, i, integers.fns, [32] * 3, 32)


@builder("bfe")
def _bfe(c: Context, i: Instr) -> Step:
    known(c, i)
    kind = _kind(c, i)
    return _apply(c, i, integers.bfe(kind), [BITS[kind], 32, 32], BITS[kind])


@builder("bfi")
def _bfi(c: Context, i: Instr) -> Step:
    known(c, i)
    bits = BITS[_kind(c, i)]
    return _apply(c, i, integers.bfi(bits), [bits, bits, 32, 32], bits)


@builder("bmsk")
def _bmsk(c: Context, i: Instr) -> Step:
    known(c, i, "wrap", "clamp")
    return _apply(c, i, integers.bmsk("wrap" in i.mods), [32, 32], 32)


@builder("szext")
def _szext(c: Context, i: Instr) -> Step:
    known(c, i, "wrap", "clamp")
    return _apply(c, i, integers.szext(_kind(c, i), "wrap" in i.mods), [32, 32], 32)


@builder("dp4a")
def _dp4a(c: Context, i: Instr) -> Step:
    known(c, i)
    a, b = types_of(i.mods)
    return _apply(c, i, integers.dot4(a, b), [32] * 3, 32)


@builder("dp2a")
def _dp2a(c: Context, i: Instr) -> Step:
    known(c, i, "lo", "hi")
    a, b = types_of(i.mods)
    return _apply(c, i, integers.dot2(a, b, "hi" in i.mods), [32] * 3, 32)


_LOGIC: dict[str, Operation] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@builder("and", "or", "xor")
def _logic(c: Context, i: Instr) -> Step:
    known(c, i)
    bits = BITS[_kind(c, i)]
    of = _LOGIC[i.op]
    if bits == 1:
        a, b = c.predicate(i.operands[1]), c.predicate(i.operands[2])
        return c.pure(i.operands[0], lambda R: of(a(R), b(R)), 1)
    return _apply(c, i, of, [bits, bits], bits)


@builder("not", "cnot")
def _not(c: Context, i: Instr) -> Step:
    known(c, i)
    bits = BITS[_kind(c, i)]
    if i.op == "cnot":
        return _apply(c, i, lambda a: (a == 0).astype(a.dtype), [bits], bits)
    return _apply(c, i, np.invert, [bits], bits)


@builder("lop3")
def _lop3(c: Context, i: Instr) -> Step:
    boolean = next((m for m in i.mods if m in ("or", "and")), None)
    known(c, i, "or", "and")
    destination, a, b, d, table, *rest = i.operands
    if not isinstance(table, Imm):
        raise c.fail("the table is no number")
    of = integers.lop3(table.value)
    x, y, z = (c.source(o, 32) for o in (a, b, d))
    if boolean is None:
        return c.pure(destination, lambda R: of(R[x], R[y], R[z]), 32)
    if not isinstance(destination, Pair):
        raise c.fail("expected d|p")
    q = c.predicate(rest[0])
    value = c.pure(destination.first, lambda R: of(R[x], R[y], R[z]), 32)
    join = _LOGIC[boolean]
    flag = c.pure(destination.second, lambda R: join(of(R[x], R[y], R[z]) != 0, q(R)), 1)

    def run(f: Fragment) -> None:
        old = f.R[x], f.R[y], f.R[z]
        flag(f)
        del old
        value(f)

    return run


@builder("shl")
def _shl(c: Context, i: Instr) -> Step:
    known(c, i)
    bits = BITS[_kind(c, i)]
    return _apply(c, i, integers.shl, [bits, 32], bits)


@builder("shr")
def _shr(c: Context, i: Instr) -> Step:
    known(c, i)
    kind = _kind(c, i)
    return _apply(c, i, integers.shr(kind), [BITS[kind], 32], BITS[kind])


@builder("shf")
def _shf(c: Context, i: Instr) -> Step:
    known(c, i, "l", "r", "wrap", "clamp")
    return _apply(c, i, integers.shf("l" in i.mods, "clamp" in i.mods), [32] * 3, 32)


@builder("prmt")
def _prmt(c: Context, i: Instr) -> Step:
    known(c, i, "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    mode = i.mods[-1] if i.mods[-1] not in BITS else ""
    return _apply(c, i, integers.prmt(mode), [32] * 3, 32)


# -- comparisons ------------------------------------------------------------------------------------------


def _comparison(c: Context, i: Instr, kind: str, how: str) -> Operation:
    if kind in FLOATS:
        of = floats.compare(floats.ELEMENT.get(kind, kind), how, "ftz" in i.mods)
    elif how in integers.COMPARISONS:
        of = integers.compare(kind, how)
    else:
        of = None
    if of is None:
        raise c.fail(f"the comparison .{how}")
    return of


_BOOLEAN: dict[str, Operation] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


@builder("setp")
def _setp(c: Context, i: Instr) -> Step:
    how = i.mods[0]
    boolean = next((m for m in i.mods[1:] if m in _BOOLEAN), None)
    kind = types_of(i.mods)[-1]
    known(c, i, how, "ftz", *_BOOLEAN)
    if kind in floats.ELEMENT:
        return _setp_packed(c, i, how, boolean, kind)
    of = _comparison(c, i, kind, how)
    a, b = (c.source(x, BITS[kind]) for x in i.operands[1:3])
    d = i.operands[0]
    extra = c.predicate(i.operands[3]) if boolean else None
    if isinstance(d, Reg) and extra is None:
        return c.pure(d, lambda R: of(R[a], R[b]), 1)
    join = _BOOLEAN[boolean or "and"]
    first, second = (d.first, d.second) if isinstance(d, Pair) else (d, Sink())
    p, q, guard = c.target(first), c.target(second), c.guard()

    def run(f: Fragment) -> None:
        R = f.R
        holds = of(R[a], R[b])
        fails = ~holds
        if extra is not None:
            more = extra(R)
            holds, fails = join(holds, more), join(fails, more)
        on = guard(R) if guard is not None else None
        if p is not None:
            R[p] = holds if on is None else np.where(on, holds, R[p])
        if q is not None:
            R[q] = fails if on is None else np.where(on, fails, R[q])

    return run


def _setp_packed(c: Context, i: Instr, how: str, boolean: str | None, kind: str) -> Step:
    """Of f16x2: the first predicate is of the lower half, the second of the upper one."""
    of = _comparison(c, i, kind, how)
    a, b = (c.source(x, 32) for x in i.operands[1:3])
    d = i.operands[0]
    if not isinstance(d, Pair):
        raise c.fail("expected p|q")
    extra = c.predicate(i.operands[3]) if boolean else None
    join = _BOOLEAN[boolean or "and"]
    p, q, guard = c.target(d.first), c.target(d.second), c.guard()

    def run(f: Fragment) -> None:
        R = f.R
        x, y = R[a].view(np.uint16).reshape(-1, 2), R[b].view(np.uint16).reshape(-1, 2)
        on = guard(R) if guard is not None else None
        more = extra(R) if extra is not None else None
        for slot, half in ((p, 0), (q, 1)):
            if slot is None:
                continue
            holds = of(x[:, half], y[:, half])
            if more is not None:
                holds = join(holds, more)
            R[slot] = holds if on is None else np.where(on, holds, R[slot])

    return run


#: What ``set`` gives for true: 1.0, or ones in all bits; of packed operands in each half.
_TRUE = {"u16": 0xFFFF, "s16": 0xFFFF, "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f32": 0x3F800000,
         "f16": 0x3C00, "bf16": 0x3F80}  # fmt: skip


@builder("set")
def _set(c: Context, i: Instr) -> Step:
    how = i.mods[0]
    boolean = next((m for m in i.mods[1:] if m in _BOOLEAN), None)
    known(c, i, how, "ftz", *_BOOLEAN)
    target, kind = types_of(i.mods)
    halves = kind in floats.ELEMENT
    element = floats.ELEMENT.get(target, target) if halves else target
    if element not in _TRUE or (halves and BITS[target] != 32):
        raise c.fail()
    of = _comparison(c, i, kind, how)
    a, b = (c.source(x, BITS[kind]) for x in i.operands[1:3])
    extra = c.predicate(i.operands[3]) if boolean else None
    join = _BOOLEAN[boolean or "and"]
    dtype: Any = UNSIGNED[16 if halves else BITS[target]]
    true = dtype(_TRUE[element] & 0xFFFF if halves else _TRUE[element])

    def value(R: list[Lanes]) -> Lanes:
        x, y = (R[s].view(np.uint16).reshape(-1, 2) if halves else R[s] for s in (a, b))
        holds = of(x, y)
        if extra is not None:
            more = extra(R)
            holds = join(holds, more[:, None] if halves else more)
        found: Lanes = np.where(holds, true, dtype(0))
        return found.view(np.uint32).reshape(-1) if halves else found

    return c.pure(i.operands[0], value, BITS[target])


@builder("selp")
def _selp(c: Context, i: Instr) -> Step:
    known(c, i)
    bits = BITS[_kind(c, i)]
    a, b = (c.source(x, bits) for x in i.operands[1:3])
    p = c.predicate(i.operands[3])
    return c.pure(i.operands[0], lambda R: np.where(p(R), R[a], R[b]), bits)


@builder("slct")
def _slct(c: Context, i: Instr) -> Step:
    known(c, i, "ftz")
    kind, how = types_of(i.mods)
    bits = BITS[kind]
    a, b = (c.source(x, bits) for x in i.operands[1:3])
    s = c.source(i.operands[3], 32)
    if how == "s32":
        return c.pure(i.operands[0], lambda R: np.where(R[s].view(np.int32) >= 0, R[a], R[b]), bits)
    if how == "f32":
        return c.pure(i.operands[0], lambda R: np.where(R[s].view(np.float32) >= 0, R[a], R[b]), bits)
    raise c.fail()


# -- moves and conversions --------------------------------------------------------------------------------

_CLOCKS = frozenset({"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"})


@builder("mov")
def _mov(c: Context, i: Instr) -> Step:
    known(c, i)
    kind = _kind(c, i)
    bits = BITS[kind]
    d, a = i.operands
    if isinstance(a, Special) and a.name in _CLOCKS:
        return _clock(c, i, a.name, bits)
    if isinstance(d, Vector):
        return _unpack(c, i, d, bits)
    if isinstance(a, Vector):
        return _pack(c, i, a, bits)
    if bits == 1:
        if isinstance(a, Reg | Not):
            p = c.predicate(a)
            return c.pure(d, lambda R: p(R), 1)
        s = c.source(a, 1)
        return c.pure(d, lambda R: R[s], 1)
    if isinstance(a, Special):
        from syncverify.simulate.ptx.program import special_bits

        own = special_bits(a.name)
        s = c.source(a, bits if own in (0, bits) else own)
        if own != bits and own:
            return c.pure(d, lambda R: extend(R[s], bits, False), bits)
        return c.pure(d, lambda R: R[s], bits)
    s = c.source(a, bits)
    return c.pure(d, lambda R: R[s], bits)


def _clock(c: Context, i: Instr, name: str, bits: int) -> Step:
    write = c.writer(i.operands[0], bits)
    upper = name.endswith("hi")

    def run(f: Fragment, on: Lanes) -> Next:
        now = f.warp.machine.steps
        write(f, np.full(LANES, now >> 32 if upper else now & ((1 << bits) - 1), UNSIGNED[bits]), on)
        return None

    return c.masked(run)


def _pack(c: Context, i: Instr, a: Vector, bits: int) -> Step:
    n = len(a.items)
    part = bits // n
    if part == 64 and n == 2:
        low, high = (c.source(x, 64) for x in a.items)
        return c.pure(i.operands[0], lambda R: np.stack([R[low], R[high]], axis=1), 128)
    if part == 32 and bits == 128:
        words = [c.source(x, 32) for x in a.items]

        def four(R: list[Lanes]) -> Lanes:
            return np.ascontiguousarray(np.stack([R[w] for w in words], axis=1)).view(np.uint64)

        return c.pure(i.operands[0], four, 128)
    slots = [c.source(x, part) for x in a.items]
    kind = UNSIGNED[bits]

    def value(R: list[Lanes]) -> Lanes:
        out = R[slots[0]].astype(kind)
        for n_, s in enumerate(slots[1:], 1):
            out = out | (R[s].astype(kind) << kind(n_ * part))
        return out

    return c.pure(i.operands[0], value, bits)


def _unpack(c: Context, i: Instr, d: Vector, bits: int) -> Step:
    n = len(d.items)
    part = bits // n
    a = c.source(i.operands[1], bits)
    targets = [c.target(x) for x in d.items]
    for x, t in zip(d.items, targets, strict=True):
        if t is not None and c.bits_of(x) != part:
            raise c.fail(f"a part has {part} bits")
    guard = c.guard()
    kind = UNSIGNED[part]

    def run(f: Fragment) -> None:
        R = f.R
        value = R[a]
        on = guard(R) if guard is not None else None
        if bits == 128:
            parts = [np.ascontiguousarray(value).view(kind)[:, k].copy() for k in range(n)]
        else:
            parts = [(value >> value.dtype.type(k * part)).astype(kind) for k in range(n)]
        for t, v in zip(targets, parts, strict=True):
            if t is not None:
                R[t] = v if on is None else np.where(on, v, R[t])

    return run


@builder("cvt")
def _cvt(c: Context, i: Instr) -> Step:
    if "pack" in i.mods:
        return _cvt_pack(c, i)
    kinds = types_of(i.mods)
    known(
        c, i, "rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat",
        "relu", "satfinite"
    )  # fmt: skip
    target, source = kinds
    if len(i.operands) == 3:
        of = conversions.pair(target, source, i.mods)
        if of is None:
            raise c.fail()
        return _apply(c, i, of, [32, 32], BITS[target])
    of = conversions.unpacked(target, source, i.mods) or conversions.single(target, source, i.mods)
    if of is None:
        raise c.fail()
    read = c.reader(i.operands[1], BITS[source], is_signed(source))
    inner = of
    return c.pure(i.operands[0], lambda R: inner(read(R)), BITS[target], is_signed(target))


def _cvt_pack(c: Context, i: Instr) -> Step:
    kind, source = i.mods[2:4]
    known(c, i, "pack", "sat", *conversions.NARROW)
    of = conversions.pack(kind, source)
    a, b = (c.source(x, 32) for x in i.operands[1:3])
    rest = c.source(i.operands[3], 32) if len(i.operands) > 3 else c.constant(0, 32)
    return c.pure(i.operands[0], lambda R: of(R[a], R[b], R[rest]), 32)


_WINDOWS = {
    "shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "param::entry": PARAM_WINDOW, "const": CONST_WINDOW,
        "global": 0,
}  # fmt: skip
_WINDOW_MASK = ~np.uint64(0xFF_FFFF_FFFF)


@builder("cvta")
def _cvta(c: Context, i: Instr) -> Step:
    space = next((m for m in i.mods if m in _WINDOWS), None)
    known(c, i, "to", *_WINDOWS)
    if space is None:
        raise c.fail("expected a state space")
    bits = BITS[types_of(i.mods)[-1]]
    if bits != 64:
        raise c.fail("addresses of 32 bits")
    base = np.uint64(_WINDOWS[space])
    s = c.source(i.operands[1], 64)
    if "to" in i.mods:
        return c.pure(i.operands[0], lambda R: R[s] - base, 64)
    if base != np.uint64(SHARED_WINDOW):
        return c.pure(i.operands[0], lambda R: R[s] + base, 64)
    nowhere = np.uint64(2**64 - 1)  # what lies outside of the window has no generic address
    return c.pure(i.operands[0], lambda R: np.where(R[s] >> np.uint64(32) == 0, R[s] + base, nowhere), 64)


@builder("isspacep")
def _isspacep(c: Context, i: Instr) -> Step:
    space = i.mods[0]
    known(c, i, *_WINDOWS)
    s = c.source(i.operands[1], 64)
    target = c.pure(i.operands[0], lambda R: _in_window(R[s], space), 1)
    if space not in ("shared", "shared::cta"):
        return target
    write = c.writer(i.operands[0], 1)

    def run(f: Fragment, on: Lanes) -> Next:
        block = f.warp.block
        a = f.R[s]
        own = (a - np.uint64(SHARED_WINDOW)) >> np.uint64(24) == block.rank
        write(f, _in_window(a, space) & own, on)
        return None

    return c.masked(run)


def _in_window(a: Lanes, space: str) -> Lanes:
    window = a & _WINDOW_MASK
    if space == "global":
        return window == np.uint64(0x7F00_0000_0000) & _WINDOW_MASK
    return window == np.uint64(_WINDOWS[space]) & _WINDOW_MASK


#: The rank in an address that was made for a block which the cluster lacks: harm is done by its use alone.
NO_BLOCK = np.uint32(0xFF)


@builder("mapa")
def _mapa(c: Context, i: Instr) -> Step:
    bits = _address_bits(c, i)
    a = c.source(i.operands[1], bits)
    rank = c.source(i.operands[2], 32)
    write = c.writer(i.operands[0], bits)
    kind = UNSIGNED[bits]
    window = kind(_shared_window(i))

    def run(f: Fragment, on: Lanes) -> Next:
        blocks = len(f.warp.block.cluster.blocks)
        r = np.where(f.R[rank] < blocks, f.R[rank], NO_BLOCK)
        low = f.R[a] - window & np.array(((1 << bits) - 1) & ~0xFF000000, kind)
        write(f, (low | (r.astype(kind) << kind(24))) + window, on)
        return None

    return c.masked(run)


@builder("getctarank")
def _getctarank(c: Context, i: Instr) -> Step:
    bits = _address_bits(c, i)
    a = c.source(i.operands[1], bits)
    kind = UNSIGNED[bits]
    window = kind(_shared_window(i))
    return c.pure(i.operands[0], lambda R: ((R[a] - window >> kind(24)) & kind(0xFF)).astype(np.uint32), 32)


def _address_bits(c: Context, i: Instr) -> int:
    """The bits of the address that an instruction takes: generic ones have 64 here."""
    known(c, i, "shared::cluster")
    bits = BITS[types_of(i.mods)[-1]]
    if bits == 32 and "shared::cluster" not in i.mods:
        raise c.fail("generic addresses of 32 bits")
    return bits


def _shared_window(i: Instr) -> int:
    """Where the shared addresses begin that an instruction takes and makes."""
    return 0 if "shared::cluster" in i.mods else SHARED_WINDOW
