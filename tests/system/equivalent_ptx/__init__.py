"""PTX rewritten into PTX that means the same: a verdict may not depend on how a kernel is written.

A rewrite takes one statement and says the same in another way: an operand goes through a copy, a sum and its
opposite, local memory or a function; a guard becomes a branch; an access to shared memory uses a generic
address; a statement runs in a loop of one turn, or on both sides of a branch. Each is one line of the ISA.
The text is read by regular expressions alone: nothing is shared with the front end.

Example: ``st.shared.u32 [%r1+8], %r2;`` may become ``add.u32 %zx0, %r1, 8;`` and
``st.shared.u32 [%zx0], %r2;``.

A right kernel that is rewritten stays right, and a wrong one stays wrong: a proof that appears is a wrong
proof, one that goes is a question of completeness.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

#: Instructions that threads of a warp or block execute together: they stay where they are.
COLLECTIVE = re.compile(
    r"(bar|barrier|wgmma|setmaxnreg|shfl|vote|match|redux|elect|mma|ldmatrix|stmatrix|activemask|movmatrix)\b"
)
_STATEMENT = re.compile(r"\s*(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*([^;]*);\s*(?://.*)?$")
_RANGE = re.compile(r"\.reg\s+\.(\w+)\s+(%?\w+)<(\d+)>\s*;")
_SINGLE = re.compile(r"\.reg\s+\.(\w+)\s+([^<;]+);")
_REGISTER = re.compile(r"%[A-Za-z_]\w*")
_ACCESS = re.compile(
    r"(ld|st|atom|red)((?:\.(?:volatile|relaxed|acquire|release|acq_rel|cta|gpu|sys|cluster))*)"
)
_BITS = {"32": "b32", "64": "b64", "16": "b16"}


@dataclass(frozen=True)
class Statement:
    """A statement of one line: its guard, opcode and operands, as text."""

    negated: bool
    guard: str | None
    opcode: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        guard = f"@{'!' if self.negated else ''}{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)};".replace(" ;", ";")

    def unguarded(self) -> Statement:
        return Statement(False, None, self.opcode, self.operands)

    def with_operand(self, i: int, text: str) -> Statement:
        new = (*self.operands[:i], text, *self.operands[i + 1 :])
        return Statement(self.negated, self.guard, self.opcode, new)


@dataclass
class Names:
    """The types of the registers that the text declares, and fresh names for new ones."""

    types: dict[str, str]
    random: random.Random
    declared: list[str] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    own_functions: list[str] = field(default_factory=list)  # whole ones, for one place each
    spilled: bool = False

    def fresh(self, kind: str) -> str:
        name = f"%zx{len(self.declared)}"
        self.declared.append(f".reg .{kind} {name};")
        return name

    def label(self) -> str:
        self.declared.append("")
        return f"ZX_L{len(self.declared)}"

    def depot(self) -> str:
        """A variable in local memory."""
        name = f"zx_depot{len(self.declared)}"
        self.declared.append(f".local .align 16 .b8 {name}[32];")
        return name

    def kind(self, register: str) -> str | None:
        return self.types.get(register)


Rewrite = Callable[[Statement, Names], list[str] | None]


def split_operands(text: str) -> tuple[str, ...]:
    """Operands by commas outside of brackets."""
    out, depth, now = [], 0, ""
    for c in text:
        depth += (c in "[{(") - (c in "]})")
        if c == "," and depth == 0:
            out.append(now.strip())
            now = ""
        else:
            now += c
    return (*out, now.strip()) if now.strip() else tuple(out)


def statement_of(line: str) -> Statement | None:
    """The statement of a line, or nothing: a label, a declaration, a brace."""
    m = _STATEMENT.fullmatch(line)
    if m is None or line.strip().startswith("."):
        return None
    return Statement(m[1] == "!", m[2], m[3], split_operands(m[4]))


def register_types(text: str) -> dict[str, str]:
    """The declared type of each register; one that is declared twice alike or not at all has none."""
    types: dict[str, str] = {}
    clash: set[str] = set()

    def declare(name: str, kind: str) -> None:
        if types.setdefault(name, kind) != kind:
            clash.add(name)

    for m in _RANGE.finditer(text):
        for i in range(int(m[3])):
            declare(f"{m[2]}{i}", m[1])
    for m in _SINGLE.finditer(text):
        for name in m[2].split(","):
            declare(name.strip(), m[1])
    return {n: k for n, k in types.items() if n not in clash}


def sources(s: Statement) -> list[tuple[int, str]]:
    """Operands that are read and are one register: their numbers and names. Addresses are not among them."""
    if s.opcode.startswith(("mov.b64", "mov.b32")) and any("{" in o for o in s.operands):
        return []
    if COLLECTIVE.match(s.opcode) and not s.opcode.startswith(("bar", "shfl", "vote")):
        return []
    if s.opcode.split(".")[0] in ("call", "bra", "brx", "ret", "exit", "isspacep"):
        return []
    first = 0 if not s.operands or s.operands[0].startswith(("[", "_")) or s.opcode.startswith("bar") else 1
    return [(i, o) for i, o in enumerate(s.operands) if i >= first and _REGISTER.fullmatch(o)]


def addresses(s: Statement) -> list[tuple[int, str, int]]:
    """Operands ``[register + constant]``: number, register, constant."""
    if s.opcode.startswith(("ld.param", "st.param")):
        return []
    out = []
    for i, o in enumerate(s.operands):
        m = re.fullmatch(r"\[\s*(%\w+)\s*(?:\+\s*(-?\d+))?\s*\]", o)
        if m is not None:
            out.append((i, m[1], int(m[2] or 0)))
    return out


def _through(register: str, names: Names) -> tuple[list[str], str] | None:
    """Statements after which a fresh register holds what this one holds."""
    kind = names.kind(register)
    if kind == "pred":
        return _predicate_through(register, names)
    if kind is None or (bits := _BITS.get(kind.lstrip("busf"))) is None:
        return None
    if kind.startswith("f") or bits == "b16":
        new = names.fresh(kind)
        return [f"mov.{kind} {new}, {register};"], new
    new = names.fresh(kind)
    u, width = f"u{bits[1:]}", bits[1:]
    plain: list[list[str]] = [
        [f"mov.{bits} {new}, {register};"],
        [f"add.{u} {new}, {register}, 24;", f"sub.{u} {new}, {new}, 24;"],
        [f"xor.b{width} {new}, {register}, 85;", f"xor.b{width} {new}, {new}, 85;"],
        [f"not.b{width} {new}, {register};", f"not.b{width} {new}, {new};"],
        [f"mul.lo.{u} {new}, {register}, 1;"],
        [f"or.b{width} {new}, {register}, {register};"],
        [f"and.b{width} {new}, {register}, -1;"],
        [f"shl.b{width} {new}, {register}, 0;"],
        [f"mad.lo.{u} {new}, {register}, 1, 0;"],
        [f"max.{u} {new}, {register}, 0;"],
        [f"neg.s{width} {new}, {register};", f"neg.s{width} {new}, {new};"],
        _spill(register, new, width, names),
        _call(register, new, width, names),
    ]
    if width == "32":
        plain += [
            [f"prmt.b32 {new}, {register}, 0, 0x3210;"],
            [f"lop3.b32 {new}, {register}, 0, 0, 0xF0;"],
            [f"bfe.u32 {new}, {register}, 0, 32;"],
            [f"shf.l.wrap.b32 {new}, {register}, {register}, 0;"],
            _halves32(register, new, names),
            _widened(register, new, names),
        ]
    else:
        plain.append(_halves64(register, new, names))
    return names.random.choice(plain), new


def _predicate_through(register: str, names: Names) -> tuple[list[str], str]:
    new, word = names.fresh("pred"), names.fresh("b32")
    return names.random.choice(
        [
            [f"not.pred {new}, {register};", f"not.pred {new}, {new};"],
            [f"selp.u32 {word}, 1, 0, {register};", f"setp.ne.u32 {new}, {word}, 0;"],
            [f"selp.b32 {word}, 0, 5, {register};", f"setp.eq.s32 {new}, {word}, 0;"],
            [f"and.pred {new}, {register}, {register};"],
            [f"xor.pred {new}, {register}, {register};", f"xor.pred {new}, {new}, {register};"],
            [f"mov.pred {new}, {register};"],
        ]
    ), new


def _spill(register: str, new: str, width: str, names: Names) -> list[str]:
    names.spilled = True
    return [f"st.local.u{width} [zx_spill+8], {register};", f"ld.local.u{width} {new}, [zx_spill+8];"]


def _call(register: str, new: str, width: str, names: Names) -> list[str]:
    names.functions.add(width)
    return _called(width, register, new)


def _halves32(register: str, new: str, names: Names) -> list[str]:
    low, high = names.fresh("b16"), names.fresh("b16")
    return [f"mov.b32 {{{low}, {high}}}, {register};", f"mov.b32 {new}, {{{low}, {high}}};"]


def _halves64(register: str, new: str, names: Names) -> list[str]:
    low, high = names.fresh("b32"), names.fresh("b32")
    return [f"mov.b64 {{{low}, {high}}}, {register};", f"mov.b64 {new}, {{{low}, {high}}};"]


def _widened(register: str, new: str, names: Names) -> list[str]:
    wide = names.fresh("b64")
    return [f"cvt.u64.u32 {wide}, {register};", f"cvt.u32.u64 {new}, {wide};"]


# Rewrites ---------------------------------------------------------------------------------------------------


def copied_operand(s: Statement, names: Names) -> list[str] | None:
    """A source goes through a fresh register."""
    if not (found := sources(s)):
        return None
    i, register = names.random.choice(found)
    if (made := _through(register, names)) is None:
        return None
    return [*made[0], str(s.with_operand(i, made[1]))]


def copied_guard(s: Statement, names: Names) -> list[str] | None:
    """A guard goes through a fresh predicate."""
    if s.guard is None:
        return None
    made, new = _predicate_through(s.guard, names)
    return [*made, str(Statement(s.negated, new, s.opcode, s.operands))]


def inverted_guard(s: Statement, names: Names) -> list[str] | None:
    """A guard is negated twice."""
    if s.guard is None:
        return None
    new = names.fresh("pred")
    return [f"not.pred {new}, {s.guard};", str(Statement(not s.negated, new, s.opcode, s.operands))]


def moved_address(s: Statement, names: Names) -> list[str] | None:
    """The constant of an address is added before, or one is taken away and given back."""
    if not (found := addresses(s)):
        return None
    i, register, offset = names.random.choice(found)
    kind = names.kind(register)
    if kind is None or kind[1:] not in ("32", "64"):
        return None
    new, u = names.fresh(kind), f"u{kind[1:]}"
    if offset or names.random.random() < 0.5:
        return [f"add.{u} {new}, {register}, {offset};", str(s.with_operand(i, f"[{new}]"))]
    return [f"sub.{u} {new}, {register}, 48;", str(s.with_operand(i, f"[{new}+48]"))]


def copied_address(s: Statement, names: Names) -> list[str] | None:
    """The register of an address goes through a fresh one."""
    if not (found := addresses(s)):
        return None
    i, register, offset = names.random.choice(found)
    if (made := _through(register, names)) is None:
        return None
    return [*made[0], str(s.with_operand(i, f"[{made[1]}+{offset}]"))]


def generic_address(s: Statement, names: Names) -> list[str] | None:
    """An access to shared memory by a generic address."""
    m = re.match(r"(ld|st|atom|red|mbarrier)((?:\.\w+)*?)\.shared(::cta)?((?:\.\w+)+)$", s.opcode)
    found = addresses(s)
    if m is None or len(found) != 1:
        return None
    i, register, offset = found[0]
    kind = names.kind(register)
    if kind not in ("b32", "u32", "b64", "u64"):
        return None
    wide = names.fresh("b64")
    made = [f"cvt.u64.u32 {wide}, {register};"] if kind.endswith("32") else [f"mov.b64 {wide}, {register};"]
    made.append(f"cvta.shared.u64 {wide}, {wide};")
    new = s.with_operand(i, f"[{wide}+{offset}]")
    return [*made, str(Statement(s.negated, s.guard, f"{m[1]}{m[2]}{m[4]}", new.operands))]


def wide_address(s: Statement, names: Names) -> list[str] | None:
    """An access to shared memory by a register of 64 bits."""
    if re.match(r"(ld|st|atom|red|mbarrier)\b.*\.shared", s.opcode) is None or len(addresses(s)) != 1:
        return None
    i, register, offset = addresses(s)[0]
    if names.kind(register) not in ("b32", "u32"):
        return None
    wide = names.fresh("b64")
    return [f"cvt.u64.u32 {wide}, {register};", str(s.with_operand(i, f"[{wide}+{offset}]"))]


def constant_in_register(s: Statement, names: Names) -> list[str] | None:
    """A constant operand comes from a register."""
    last = s.opcode.rsplit(".", 1)[-1]
    takes = last in ("u32", "s32", "b32") or s.opcode.startswith(("mbarrier", "bar.sync", "bar.arrive"))
    if not takes or s.opcode.startswith(
        ("tensormap", "lop3", "cp.async.c", "wgmma", "shfl", "setmaxnreg", "ld", "mov")
    ):
        return None
    first = 0 if s.opcode.startswith("bar") else 1
    found = [i for i, o in enumerate(s.operands) if i >= first and re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", o)]
    if not found:
        return None
    i, new = names.random.choice(found), names.fresh("b32")
    return [f"mov.u32 {new}, {s.operands[i]};", str(s.with_operand(i, new))]


def _moves(s: Statement) -> bool:
    """It may stand under a branch of its own."""
    stays = ("bra", "brx", "ret", "exit", "call", "trap", "cp.async.wait", "griddepcontrol")
    return COLLECTIVE.match(s.opcode) is None and not s.opcode.startswith(stays)


def guard_as_branch(s: Statement, names: Names) -> list[str] | None:
    """``@p x;`` becomes a branch over x."""
    if s.guard is None or not _moves(s):
        return None
    over = names.label()
    return [f"@{'' if s.negated else '!'}{s.guard} bra {over};", str(s.unguarded()), f"{over}:"]


def branch_by_two(s: Statement, names: Names) -> list[str] | None:
    """``@p bra L;`` becomes a branch over ``bra L;``."""
    if s.guard is None or s.opcode != "bra":
        return None
    over = names.label()
    return [f"@{'' if s.negated else '!'}{s.guard} bra {over};", str(s.unguarded()), f"{over}:"]


def one_turn(s: Statement, names: Names) -> list[str] | None:
    """The statement runs in a loop of one turn."""
    if not _moves(s):
        return None
    head, count, more = names.label(), names.fresh("b32"), names.fresh("pred")
    return [
        f"mov.u32 {count}, 0;",
        f"{head}:",
        str(s),
        f"add.u32 {count}, {count}, 1;",
        f"setp.lt.u32 {more}, {count}, 1;",
        f"@{more} bra {head};",
    ]


def both_sides(s: Statement, names: Names) -> list[str] | None:
    """The statement stands on both sides of a branch, which all lanes or every second one take."""
    if not _moves(s) or s.opcode.startswith("st"):
        return None  # lanes may store one value by one instruction, not by two
    other, after = names.label(), names.label()
    word, side = names.fresh("b32"), names.fresh("pred")
    ask = names.random.choice(
        [
            [f"mov.u32 {word}, %nctaid.y;", f"setp.gt.u32 {side}, {word}, 7;"],
            [f"mov.u32 {word}, %laneid;", f"and.b32 {word}, {word}, 1;", f"setp.eq.u32 {side}, {word}, 0;"],
            [f"mov.u32 {word}, %tid.x;", f"setp.lt.u32 {side}, {word}, 40;"],
        ]
    )
    return [*ask, f"@{side} bra {other};", str(s), f"bra {after};", f"{other}:", str(s), f"{after}:"]


def dead_code(s: Statement, names: Names) -> list[str] | None:
    """A branch that is never taken stands before it."""
    over, word, never = names.label(), names.fresh("b32"), names.fresh("pred")
    return [
        f"mov.u32 {word}, %ntid.x;",
        f"setp.eq.u32 {never}, {word}, 0;",
        f"@!{never} bra {over};",
        "trap;",
        f"{over}:",
        str(s),
    ]


# Operands through local memory and functions, in pairs and in parts. ``a`` is the place of the depot,
# ``r`` goes through it, ``x`` is another word, ``to`` is where it comes back.


def _pair(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """Stored and loaded as one of two."""
    dead = names.fresh("b32")
    return [f"st.local.v2.u32 [{a}+8], {{{r}, {x}}};", f"ld.local.v2.u32 {{{to}, {dead}}}, [{a}+8];"]


def _last_of_four(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    dead = names.fresh("b32")
    return [
        f"st.local.v4.u32 [{a}], {{{x}, {x}, {x}, {r}}};",
        f"ld.local.v2.u32 {{{dead}, {to}}}, [{a}+8];",
    ]


def _pair_by_words(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """Two words are stored, a pair is loaded."""
    dead = names.fresh("b32")
    return [
        f"st.local.u32 [{a}], {r};",
        f"st.local.u32 [{a}+4], {x};",
        f"ld.local.v2.u32 {{{to}, {dead}}}, [{a}];",
    ]


def _pair_beside_bytes(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """A pair is loaded whose other word is also stored in part."""
    dead = names.fresh("b32")
    return [
        f"st.local.u32 [{a}], {r};",
        f"st.local.u32 [{a}+4], {x};",
        f"st.local.u16 [{a}+6], {x};",
        f"ld.local.v2.u32 {{{to}, {dead}}}, [{a}];",
    ]


def _pair_stored_beside_bytes(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """The same with the pair stored: its other word is loaded in part."""
    dead = names.fresh("b16")
    return [
        f"st.local.v2.u32 [{a}], {{{r}, {x}}};",
        f"ld.local.u16 {dead}, [{a}+6];",
        f"ld.local.u32 {to}, [{a}];",
    ]


def _low_of_long(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """64 bits are stored, 32 of them loaded."""
    wide = names.fresh("b64")
    return [
        f"mov.b64 {wide}, {{{r}, {x}}};",
        f"st.local.u64 [{a}+16], {wide};",
        f"ld.local.u32 {to}, [{a}+16];",
    ]


def _high_of_long(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """Two words are stored, 64 bits loaded."""
    wide, dead = names.fresh("b64"), names.fresh("b32")
    return [
        f"st.local.u32 [{a}+12], {r};",
        f"st.local.u32 [{a}+8], {x};",
        f"ld.local.u64 {wide}, [{a}+8];",
        f"mov.b64 {{{dead}, {to}}}, {wide};",
    ]


def _by_halves(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """A word is stored, its halves are loaded."""
    low, high = names.fresh("b16"), names.fresh("b16")
    return [
        f"st.local.u32 [{a}+4], {r};",
        f"ld.local.u16 {low}, [{a}+4];",
        f"ld.local.u16 {high}, [{a}+6];",
        f"mov.b32 {to}, {{{low}, {high}}};",
    ]


def _by_bytes(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """Bytes are stored, a word is loaded, over what stood there before."""
    part = names.fresh("b32")
    made = [f"st.local.u32 [{a}], {x};"]
    for n in names.random.sample(range(4), 4):
        made += [f"shr.u32 {part}, {r}, {8 * n};", f"st.local.u8 [{a}+{n}], {part};"]
    return [*made, f"ld.local.u32 {to}, [{a}];"]


def _patched(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """A byte is changed and changed back."""
    byte = names.fresh("b16")
    return [
        f"st.local.u32 [{a}+8], {r};",
        f"ld.local.u8 {byte}, [{a}+9];",
        f"st.local.u8 [{a}+9], {x};",
        f"st.local.u8 [{a}+9], {byte};",
        f"ld.local.u32 {to}, [{a}+8];",
    ]


def _by_pointer(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """By the generic address, which goes through a function."""
    place, word = names.fresh("b64"), names.fresh("b64")
    made = [f"mov.u64 {place}, {a};", f"cvta.local.u64 {place}, {place};"]
    names.functions.add("64")
    return [
        *made,
        *_called("64", place, word),
        f"st.v2.u32 [{word}+8], {{{x}, {r}}};",
        f"ld.local.u32 {to}, [{a}+12];",
    ]


def _called(width: str, register: str, new: str) -> list[str]:
    return [
        "{",
        f".param .b{width} zx_in;",
        f".param .b{width} zx_out;",
        f"st.param.b{width} [zx_in], {register};",
        f"call (zx_out), zx_same{width}, (zx_in);",
        f"ld.param.b{width} {new}, [zx_out];",
        "}",
    ]


def _structure(a: str, r: str, x: str, to: str, names: Names) -> list[str]:
    """As a part of a structure through a function, which keeps it in its own local memory."""
    name = f"zx_structure{len(names.declared)}"
    dead = names.fresh("b32")
    spill = PARTS[names.random.randrange(len(PARTS) - 2)](
        "own", "%zr", "%zx", "%zy", inner := Names({}, names.random)
    )
    body = [d for d in inner.declared if d]
    names.own_functions.append(
        "\n".join(
            [
                f".func (.param .align 8 .b8 zx_ret[8]) {name}(.param .align 8 .b8 zx_arg[8])",
                "{",
                ".reg .b32 %zr, %zx, %zy;",
                ".local .align 16 .b8 own[32];",
                *body,
                "ld.param.v2.b32 {%zr, %zx}, [zx_arg];",
                *spill,
                "st.param.b32 [zx_ret+4], %zy;",
                "st.param.b32 [zx_ret], %zx;",
                "ret;",
                "}",
            ]
        )
    )
    return [
        "{",
        ".param .align 8 .b8 zx_in[8];",
        ".param .align 8 .b8 zx_out[8];",
        f"st.param.v2.b32 [zx_in], {{{r}, {x}}};",
        f"call (zx_out), {name}, (zx_in);",
        f"ld.param.v2.b32 {{{dead}, {to}}}, [zx_out];",
        "}",
    ]


#: Ways of a word; the last two need functions.
PARTS = (
    _pair,
    _last_of_four,
    _pair_by_words,
    _pair_beside_bytes,
    _pair_stored_beside_bytes,
    _low_of_long,
    _high_of_long,
    _by_halves,
    _by_bytes,
    _patched,
    _by_pointer,
    _structure,
)


def kept(register: str, names: Names, way: int | None = None) -> tuple[list[str], str] | None:
    """Statements after which a fresh register holds what this one holds, by way of local memory."""
    kind = names.kind(register)
    if kind is None or kind == "pred" or kind[1:] not in ("32", "64"):
        return None
    part = PARTS[names.random.randrange(len(PARTS)) if way is None else way]
    x, made = names.fresh("b32"), []
    made.append(f"mov.u32 {x}, {names.random.choice(['%tid.x', '%laneid', '77'])};")
    if kind[1:] == "32":
        word = register
        if kind[0] == "f":
            word = names.fresh("b32")
            made.append(f"mov.b32 {word}, {register};")
        to = names.fresh("b32")
        made += part(names.depot(), word, x, to, names)
        return made, to
    low, high, to, new = (names.fresh(k) for k in ("b32", "b32", "b32", "b64"))
    made.append(f"mov.b64 {{{low}, {high}}}, {register};")
    if names.random.random() < 0.5:
        made += part(names.depot(), low, high, to, names)
        return [*made, f"mov.b64 {new}, {{{to}, {high}}};"], new
    made += part(names.depot(), high, low, to, names)
    return [*made, f"mov.b64 {new}, {{{low}, {to}}};"], new


def kept_operand(s: Statement, names: Names) -> list[str] | None:
    """A source goes through local memory in a pair or in parts."""
    found = [(i, r) for i, r in sources(s) if (names.kind(r) or "")[:1] in "bus"]
    if not found:
        return None
    i, register = names.random.choice(found)
    if (made := kept(register, names)) is None:
        return None
    return [*made[0], str(s.with_operand(i, made[1]))]


def kept_address(s: Statement, names: Names) -> list[str] | None:
    """The register of an address goes through local memory in a pair or in parts."""
    if not (found := addresses(s)):
        return None
    i, register, offset = names.random.choice(found)
    if (made := kept(register, names)) is None:
        return None
    return [*made[0], str(s.with_operand(i, f"[{made[1]}+{offset}]"))]


SPILLS: tuple[Rewrite, ...] = (kept_operand, kept_address)

REWRITES: tuple[Rewrite, ...] = (
    copied_operand,
    copied_guard,
    inverted_guard,
    moved_address,
    copied_address,
    generic_address,
    wide_address,
    constant_in_register,
    guard_as_branch,
    branch_by_two,
    one_turn,
    both_sides,
    dead_code,
)

_SAME = """.func (.param .b{w} zx_ret) zx_same{w}(.param .b{w} zx_arg)
{{
.reg .b{w} %zx_v;
ld.param.b{w} %zx_v, [zx_arg];
st.param.b{w} [zx_ret], %zx_v;
ret;
}}"""


@dataclass(frozen=True)
class Rewritten:
    """A text that means what another means, and the rewrites that made it: names and lines."""

    text: str
    rewrites: tuple[tuple[str, int], ...]


def rewritten(text: str, seed: int, count: int = 4, rewrites: Iterable[Rewrite] = REWRITES) -> Rewritten:
    """``count`` statements of the (only) kernel of the text, each written in another way."""
    rng = random.Random(seed)
    lines = text.splitlines()
    body = next(i for i, line in enumerate(lines) if line.strip() == "{" and _after_entry(lines, i))
    names = Names(register_types(text), rng)
    choices = [r for r in rewrites if "mapa" not in text or r not in (generic_address, wide_address)]
    found = [(i, s) for i, line in enumerate(lines) if i > body and (s := statement_of(line)) is not None]
    new: dict[int, list[str]] = {}
    done: list[tuple[str, int]] = []
    for i, s in rng.sample(found, len(found)):
        if len(done) == count:
            break
        for rewrite in rng.sample(choices, len(choices)):
            if (made := rewrite(s, names)) is not None:
                new[i] = made
                done.append((rewrite.__name__, i + 1))
                break
    out: list[str] = []
    for i, line in enumerate(lines):
        out += new.get(i, [line])
        if i == body:
            out += [d for d in names.declared if d]
            out += [".local .align 8 .b8 zx_spill[32];"] * names.spilled
    entry = next(i for i, line in enumerate(out) if ".entry" in line)
    functions = [*(_SAME.format(w=w) for w in sorted(names.functions)), *names.own_functions]
    return Rewritten("\n".join([*out[:entry], *functions, *out[entry:], ""]), tuple(done))


def _after_entry(lines: list[str], i: int) -> bool:
    return any(".entry" in line for line in lines[:i])
