"""The characters of PTX: comments, statements, constants (PTX ISA, 4).

One match of ``STATEMENT`` is one statement; its last group says which kind. Quantifiers are possessive, so
that the time is linear in the text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable


class Malformed(Exception):  # noqa: N818 -- becomes an InputError once the line is known
    """What is wrong with a statement, and what was expected."""


#: Groups of ``STATEMENT``.
GUARD, OPCODE, ARGUMENTS, OPEN, CLOSE, LABEL, LOC, FILE, HEADER, MODULE, DIRECTIVE, SECTION, EMPTY, OTHER = (
    range(1, 15)
)

#: No group is possessive here: before Python 3.11.5 such groups match wrongly (python/cpython#106052).
STATEMENT = re.compile(
    r"""\s*+(?:
      (?:@\s*+(!?\s*+[%$\w.]++)\s++)? ([a-z]\w*+(?:\s*+\.[\w:]++)*) \s*+(?!:|\.[\w:]) ([^;]*+);
    | (\{)
    | (\})
    | ([A-Za-z_$%][\w$]*+)\s*+:(?!:)
    | \.loc\b([^\n]*+)
    | \.file\b([^\n]*+)
    | ((?:\.(?:visible|weak|extern)\s*+)*\.(?:entry|func)\b(?:[^{;"]++|"[^"\n]*+"\s*+;?)*)
    | \.((?:version|target|address_size)\b[^\n]*+)
    | (\.(?!section\b|entry\b|func\b)[a-zA-Z_](?:[^;"]++|"[^"\n]*+")*);
    | \.(section\b[^{};]*+\{[^{}]*+\})
    | (;)
    | (\S)
    )""",
    re.VERBOSE,
)

_COMMENT = re.compile(r'//[^\n]*+|/\*(?:[^*]++|\*(?!/))*(?:\*/)?|"(?:[^"\\\n]++|\\.)*"')

#: Pieces of an operand list; joined by commas they give it back, unless brackets do not match.
PIECES = re.compile(r"(?:\{[^{}]*+\}|\[[^\[\]]*+\]|\([^()]*+\)|[^,{}\[\]()]++)+")

_TOKEN = re.compile(
    r"\s*+(?:(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16})(?!\w)"
    r"|(\d++\.\d*+(?:[eE][-+]?\d++)?|\.\d++(?:[eE][-+]?\d++)?|\d++[eE][-+]?\d++)(?!\w)"
    r"|(0[xX][0-9a-fA-F]++|0[bB][01]++|\d++)U?(?!\w)"
    r"|(WARP_SZ)(?!\w)|(\.[su]64)|(<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:()]))"
)
_LEVELS = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
           "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}  # fmt: skip
_NO_MODIFIERS = frozenset({"loc", "reg", "file", "pragma", "align", "entry", "func", "branchtargets"})
_DEEPEST = 50
_LONGEST = 2000


def blank_comments(text: str) -> str:
    """The text without comments; line numbers stay."""
    return _COMMENT.sub(_blank, text)


def _blank(m: re.Match[str]) -> str:
    found = m[0]
    if found[0] == '"':
        return found
    return "\n" * found.count("\n") or " "


def pieces(text: str) -> list[str]:
    """What stands between the commas of a list, outside brackets; a blank list has none."""
    if not text.strip():
        return []
    found = PIECES.findall(text)
    if ",".join(found) != text:
        raise Malformed(f"expected a list of operands, found {shown(text)}")
    return found


def shown(text: str) -> str:
    """A text for a message: its first line, shortened."""
    line = text.strip().partition("\n")[0]
    return repr(line if len(line) <= 50 else line[:47] + "...")


def opcode(text: str) -> tuple[str, ...]:
    """What stands between the dots of an opcode; compilers of inline assembly leave blanks before them."""
    words = tuple(text.split("."))
    if text.split() == [text]:
        return words
    words = tuple(w.strip() for w in words)
    if not _NO_MODIFIERS.isdisjoint(words):
        raise Malformed(f"expected ';' after {shown(text)}")
    return words


def integer(text: str) -> int:
    """A literal without a sign: decimal, 0x, 0b or octal, a U after it allowed."""
    digits = text.strip().removesuffix("U")
    if len(digits) > 66:
        raise Malformed(f"the constant {shown(text)} is wider than 64 bits")
    try:
        if digits[:1] == "0" and digits.isdigit():
            value = int(digits, 8)
        else:
            value = int(digits, 0)
    except ValueError:
        raise Malformed(f"expected an integer constant, found {shown(text)}") from None
    if value >> 64:
        raise Malformed(f"the constant {shown(text)} is wider than 64 bits")
    return value


def constant(text: str) -> int | tuple[int, int]:
    """The value of a constant expression: an integer, or (bits, width) of a floating-point literal."""
    if len(text) > _LONGEST:
        raise Malformed(f"the constant expression {shown(text)} is too long")
    tokens = _tokens(text)
    sign = tokens and tokens[0] == "-"
    float_at = 1 if sign else 0
    if len(tokens) == float_at + 1 and isinstance(literal := tokens[float_at], tuple):
        bits, width = literal
        return (bits ^ (1 << (width - 1)) if sign else bits), width
    value = _Constant(text, tokens).whole()
    if len(tokens) == 1:
        return int(value)
    of_isa, of_ptxas = _typed(value, unsigned=False), _typed(_AsPtxas(text, tokens).whole(), unsigned=False)
    if of_isa != of_ptxas:
        raise Malformed(
            f"the constant expression {shown(text)} is {of_isa} by the PTX ISA and {of_ptxas} for ptxas:"
            " write its value"
        )
    return int(of_isa)


def _tokens(text: str) -> list[int | str | tuple[int, int]]:
    out: list[int | str | tuple[int, int]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        m = _TOKEN.match(text, at)
        if m is None:
            raise Malformed(f"expected a constant, found {shown(text)}")
        bits, decimal, digits, warp, cast, operator = m.groups()
        if bits:
            out.append((int(bits[2:], 16), 4 * (len(bits) - 2)))
        elif decimal:
            out.append((int.from_bytes(struct.pack(">d", float(decimal)), "big"), 64))
        elif digits:
            value = integer(digits)
            out.append(_Unsigned(value) if m[0].endswith("U") else value)
        elif warp:
            out.append(32)
        else:
            out.append(cast or operator)
        at = m.end()
    return out


class _Unsigned(int):
    """A constant of type ``.u64`` (PTX ISA, constant expressions); the others are ``.s64``."""


def _typed(value: int, *, unsigned: bool) -> int:
    value &= 2**64 - 1
    return _Unsigned(value) if unsigned else value - 2**64 if value >> 63 else value


class _Constant:
    """Integer constant expressions, by precedence climbing, with the types that the ISA gives."""

    def __init__(self, text: str, tokens: list[int | str | tuple[int, int]]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def whole(self) -> int:
        """The value of all tokens."""
        value = self.expression(0)
        if self.at < len(self.tokens):
            raise Malformed(f"expected an operator in the constant expression {shown(self.text)}")
        return value

    def fail(self) -> Malformed:
        return Malformed(f"expected a constant expression, found {shown(self.text)}")

    def peek(self) -> int | str | tuple[int, int] | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def expression(self, level: int) -> int:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fail()
        left = self.unary()
        while isinstance(op := self.peek(), str):
            if op == "?" and level == 0:
                self.at += 1
                yes = self.expression(0)
                if not self.take(":"):
                    raise self.fail()
                no = self.expression(0)
                left = self.chosen(yes if left else no, (yes, no))
                continue
            own = _LEVELS.get(op, 0)
            if not own or own <= level:
                break
            self.at += 1
            left = self.binary(op, left, self.expression(own))
        self.depth -= 1
        return left

    def unary(self) -> int:
        token = self.peek()
        self.at += 1
        if isinstance(token, int):
            return token
        if token == "(":
            if isinstance(cast := self.peek(), str) and cast in (".s64", ".u64"):
                self.at += 1
                self.close()
                return _typed(self.nested(), unsigned=cast == ".u64")
            value = self.expression(0)
            self.close()
            return value
        match token:
            case "-":
                value = self.nested()
                return _typed(-value, unsigned=_is_unsigned(value))
            case "+":
                return self.nested()
            case "~":
                return _typed(~self.nested(), unsigned=True)
            case "!":
                return int(not self.nested())
        raise self.fail()

    def nested(self) -> int:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fail()
        value = self.unary()
        self.depth -= 1
        return value

    def close(self) -> None:
        if not self.take(")"):
            raise self.fail()

    def binary(self, op: str, a: int, b: int) -> int:
        """Both are unsigned if one is, and for bits and remainders; a shift takes the first as it is."""
        if op in ("<<", ">>"):
            by = self.places(_typed(b, unsigned=True))
            return _typed(a << by if op == "<<" else a >> by, unsigned=_is_unsigned(a))
        if op in ("&&", "||"):
            return int(bool(a) and bool(b)) if op == "&&" else int(bool(a) or bool(b))
        unsigned = op in self.unsigned or _is_unsigned(a, b)
        a, b = _typed(a, unsigned=unsigned), _typed(b, unsigned=unsigned)
        if op in ("/", "%"):
            return self.divided(op, a, b, unsigned=unsigned)
        value = _PLAIN[op](int(a), int(b))
        return value if op in _COMPARISONS else _typed(value, unsigned=unsigned)

    def divided(self, op: str, a: int, b: int, *, unsigned: bool) -> int:
        """A quotient that is cut towards zero, or the remainder of unsigned numbers."""
        if b == 0:
            raise Malformed(f"division by zero in {shown(self.text)}")
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        if not unsigned and quotient >> 63 == 1:
            raise Malformed(f"the quotient in {shown(self.text)} is wider than 64 bits")
        if op == "/":
            return _typed(quotient, unsigned=unsigned)
        return _typed(a - b * quotient, unsigned=self.remainders_unsigned)

    #: Operators whose operands and results are always unsigned; whether a remainder is.
    unsigned: frozenset[str] = frozenset("&|^%")
    remainders_unsigned = False

    def places(self, by: int) -> int:
        """By how many places a shift goes; the ISA does not say that 64 and more are others."""
        return min(by, 64)

    def chosen(self, value: int, sides: tuple[int, int]) -> int:
        """One side of a ``?:``, in the type of both."""
        return _typed(value, unsigned=_is_unsigned(*sides))


class _AsPtxas(_Constant):
    """What ptxas makes of them where that is not what the ISA says (measured by ``fuzz_constants.py``)."""

    unsigned = frozenset("%")
    remainders_unsigned = True

    def places(self, by: int) -> int:
        """By as many as the last six bits say."""
        return by % 64

    def chosen(self, value: int, sides: tuple[int, int]) -> int:
        """The side as it is, in its own type."""
        return value


def _is_unsigned(*values: int) -> bool:
    return any(isinstance(v, _Unsigned) or v >> 63 > 0 for v in values)


_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_PLAIN: dict[str, Callable[[int, int], int]] = {
    "|": int.__or__, "^": int.__xor__, "&": int.__and__, "+": int.__add__, "-": int.__sub__,
    "*": int.__mul__,
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b), "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b),
}  # fmt: skip
