"""Instructions whose results depend on their operands alone, and what each analysis takes of them.

An instruction with the modifier ``cc`` reads or writes a flag besides; who asks looks at that, at guards and
at special registers. A set that lacks an instruction makes an analysis say less, never something wrong.
"""

from __future__ import annotations

#: Equal operands give equal results, in whatever thread and at whatever time.
PURE = frozenset(
    "abs add and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta div dp2a dp4a ex2 fma fns getctarank "
    "isspacep lg2 lop3 mad mad24 mapa max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set "
    "setp shf shl shr sin slct sqrt sub szext tanh testp xor".split()
)
#: Modifiers before the type with which sums and products of integers are what their names say, cut to the
#: width of the result.
PLAIN = frozenset({"lo", "wide"})
#: Of integers and bits: cheap to compute again where the result is read (``syntax.operands.repeats``).
REPEATABLE = frozenset(
    "abs add and bfe bfi brev clz cvt cvta fns lop3 mad mad24 max min mov mul mul24 neg not or popc prmt "
    "rem sad selp set setp shf shl shr slct sub xor".split()
)
#: Whose expressions are compared with others, term by term (``analysis.registers.uniform_values``).
COMPARED = frozenset(
    "abs add and cnot copysign cvt div ex2 fma lg2 lop3 mad max min mov mul neg not or prmt rcp rsqrt selp "
    "setp shl shr sin cos sqrt sub tanh testp xor".split()
)
#: What the block of a spin may do beside its polls (``flow.spin_blocks``).
IN_SPINS = frozenset(
    "mov add sub mul mad shl shr and or xor not selp setp min max bfe bfi lop3 cvt cvta prmt shf".split()
)
#: Those that hand an address in an operand to nothing but their result (``flow.promote_locals``): without the
#: ones that make addresses of other blocks, and with sums that carry, control and barriers.
KEEPS_ADDRESSES = (PURE - frozenset("bmsk fns getctarank mapa szext".split())) | frozenset(
    "addc subc bra ret exit bar barrier fence membar trap".split()
)
