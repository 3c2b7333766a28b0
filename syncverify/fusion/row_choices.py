"""What a schedule of rows leaves open, chosen by the fusion and the row length.

The tables are what was fastest on an H200 for rows of 1024 to 32768 elements (docs/fusion_results.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from syncverify.codegen.accesses import CacheHint
from syncverify.fusion.functions import COMPARISONS, REDUCTIONS
from syncverify.fusion.graph import Fusion
from syncverify.ir.nodes import DTYPE_BYTES

#: What decides about speed: a sum of each row; several reductions without a row as result; a normalization
#: (one row in, one out, arithmetic alone) by one reduction or by several; other reductions of one row, or of
#: several; no reduction.
Kind = Literal["sum", "loss", "scaled", "norm", "one", "several", "elementwise"]
#: Warps of a row and blocks on an SM (0: by registers), by the length from which on they are chosen.
Table = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Warps of a row; blocks on an SM, or 0; whether vectors stay in registers, and rows are read again.

    ``rows``: of a block, or 0. ``hint_of``: what caches are told of rows that are read once, if not the
    usual.
    """

    warps: int
    blocks: int
    keeps: bool = False
    rereads: bool = False
    rows: int = 0
    hint: CacheHint | None = None


_TABLES: dict[tuple[Kind, int], Table] = {
    ("sum", 2): ((0, 1, 0), (1025, 4, 0), (4097, 8, 6), (8193, 8, 4), (16385, 16, 0), (32769, 32, 0)),
    ("sum", 4): ((0, 1, 0), (513, 4, 0), (2049, 8, 6), (8193, 16, 3), (16385, 16, 2), (32769, 32, 0)),
    ("loss", 2): (
        (0, 1, 0), (1025, 2, 0), (2049, 4, 0), (4097, 8, 0), (8193, 8, 3), (16385, 16, 3), (32769, 32, 0),
    ),
    ("loss", 4): (
        (0, 1, 0), (513, 1, 8), (1025, 4, 0), (2049, 8, 0), (4097, 8, 3), (16385, 16, 0), (32769, 32, 0),
    ),
    ("scaled", 2): (
        (0, 1, 0), (513, 2, 12), (1025, 4, 9), (2049, 4, 6), (4097, 4, 0), (8193, 8, 0), (16385, 32, 2),
        (32769, 32, 0),
    ),
    ("scaled", 4): (
        (0, 1, 0), (513, 4, 0), (1025, 8, 6), (2049, 16, 3), (4097, 16, 2), (16385, 32, 1), (32769, 32, 0),
    ),
    ("norm", 2): (
        (0, 1, 0), (513, 1, 10), (1025, 2, 12), (2049, 4, 6), (4097, 4, 0), (8193, 8, 0), (16385, 16, 2),
        (32769, 32, 0),
    ),
    ("norm", 4): (
        (0, 1, 0), (513, 4, 0), (1025, 8, 6), (2049, 8, 0), (4097, 16, 2), (16385, 16, 0), (32769, 32, 0),
    ),
    ("one", 2): (
        (0, 1, 0), (513, 2, 15), (1025, 4, 0), (4097, 8, 0), (8193, 8, 3), (16385, 16, 2), (32769, 32, 0),
    ),
    ("one", 4): ((0, 1, 0), (513, 4, 0), (2049, 8, 0), (4097, 16, 2), (16385, 16, 0), (32769, 32, 0)),
    ("several", 2): ((0, 1, 0), (513, 2, 15), (1025, 4, 0), (4097, 8, 0), (8193, 16, 0), (32769, 32, 0)),
    ("several", 4): ((0, 1, 0), (513, 4, 0), (2049, 16, 0), (32769, 32, 0)),
    ("elementwise", 2): ((0, 1, 0), (513, 2, 0), (1025, 4, 0), (4097, 16, 0), (8193, 8, 0), (16385, 32, 0)),
    ("elementwise", 4): ((0, 1, 0), (513, 4, 0), (2049, 16, 0), (8193, 32, 0)),
}  # fmt: skip
#: Rows whose vectors stay in registers, loaded before the sums of the row are there: by element bytes, and
#: how many vectors there are.
_KEPT: dict[tuple[Kind, int, int], range] = {
    ("norm", 2, 1): range(2049, 16385), ("norm", 4, 1): range(513, 1025), ("norm", 2, 2): range(2049, 4097),
    ("scaled", 2, 1): range(2049, 16385), ("scaled", 4, 1): range(513, 4097),
}  # fmt: skip
#: Rows that are read again for every step, from the caches, so that more are under way: longer than the first
#: number, up to the second; their warps, and blocks on an SM.
_REREAD: dict[tuple[Kind, int], tuple[tuple[int, int, int, int], ...]] = {
    ("loss", 2): ((16384, 32768, 16, 3),),
    ("loss", 4): ((16384, 32768, 32, 2),),
    ("scaled", 2): (
        (1024, 2048, 4, 12),
        (2048, 4096, 8, 6),
        (4096, 8192, 16, 4),
        (8192, 16384, 16, 3),
        (16384, 32768, 32, 2),
    ),
    ("scaled", 4): (
        (1024, 2048, 8, 6),
        (2048, 4096, 16, 4),
        (4096, 8192, 16, 3),
        (8192, 16384, 16, 2),
        (16384, 32768, 32, 1),
    ),
    ("norm", 2): ((4096, 8192, 8, 6), (8192, 16384, 16, 3), (16384, 32768, 16, 2)),
    ("norm", 4): (
        (512, 1024, 4, 12),
        (1024, 2048, 8, 6),
        (2048, 4096, 8, 4),
        (4096, 8192, 16, 3),
        (8192, 16384, 16, 2),
        (16384, 32768, 32, 1),
    ),
    ("one", 2): (
        (512, 1024, 2, 15),
        (2048, 4096, 8, 8),
        (4096, 8192, 8, 6),
        (8192, 16384, 16, 3),
        (16384, 32768, 16, 2),
    ),
    ("one", 4): ((512, 1024, 4, 10), (1024, 4096, 8, 6), (4096, 8192, 16, 3), (8192, 16384, 32, 2)),
    ("several", 2): (
        (512, 1024, 4, 12),
        (1024, 2048, 8, 6),
        (2048, 4096, 16, 4),
        (4096, 8192, 32, 2),
        (16384, 32768, 32, 1),
    ),
    ("several", 4): ((512, 1024, 8, 6), (1024, 2048, 16, 3), (2048, 4096, 32, 2), (4096, 16384, 32, 1)),
}
#: Rows of a block, each of one warp, where they are not as many as usual: longer than the first number, ...
_ROWS_OF_A_BLOCK: dict[tuple[Kind, int], tuple[tuple[int, int, int], ...]] = {
    ("norm", 2): ((512, 1024, 2),), ("loss", 4): ((512, 1024, 4),),
}  # fmt: skip
#: What was fastest where a schedule leaves all of it open: for rows longer than the first number, up to the
#: second. Of those that are kept, what is loaded leaves L2 last, and so what is stored in longer runs.
_WHOLE: dict[tuple[Kind, int], tuple[tuple[int, int, Choice], ...]] = {
    ("sum", 2): (
        (512, 1024, Choice(1, 8)), (1024, 2048, Choice(2, 8, rows=4)), (2048, 4096, Choice(4, 12)),
        (16384, 32768, Choice(16, 2)),
    ),
    ("sum", 4): ((512, 1024, Choice(2, 8, rows=4)), (1024, 2048, Choice(4, 12))),
    ("scaled", 2): (
        (512, 1024, Choice(1, 3, hint="kept")), (1024, 2048, Choice(4, 10, hint="kept")),
        (4096, 8192, Choice(16, 4, hint="kept")), (8192, 16384, Choice(16, 2, hint="kept")),
    ),
    ("scaled", 4): (
        (512, 1024, Choice(4, 0, keeps=True, hint="kept")), (1024, 2048, Choice(8, 6, hint="kept")),
        (4096, 8192, Choice(16, 2, hint="kept")), (16384, 32768, Choice(32, 1, hint="kept")),
    ),
    ("norm", 2): ((512, 1024, Choice(1, 10, rows=2, hint="kept")),),
    ("norm", 4): (
        (2048, 4096, Choice(8, 4, hint="kept")), (4096, 8192, Choice(16, 3, hint="kept")),
    ),
    ("one", 2): ((512, 1024, Choice(2, 6, rereads=True, rows=4)),),
}  # fmt: skip
#: The most rows of one shape that the caches hold for that.
_MOST_READ = 2
#: The longest row of a loss, in bytes, whose loads are said to be the last: longer ones were slower.
_ONCE = 65536
#: The longest row of a sum in f32 that L1 alone is told not to hold, and that is fetched ahead.
_PAST = 4096
#: Operations that need no registers beside their result.
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg", "sqrt", "rsqrt", "size", "const", "input"})
#: And those that are cheap to compute once more.
_CHEAP = _ARITHMETIC | {
    "exp", "exp2", "abs", "relu", "maximum", "minimum", "where", "float", "integer", "take", "log",
    *COMPARISONS, *REDUCTIONS,
}  # fmt: skip
_CASTS = frozenset({"cast.f32", "cast.bf16", "cast.f16"})
#: The ring of bulk copies hides the second pass over rows that are longer and of 16 bits.
RING_FROM = 16385
#: Registers of an SM, and those of a thread by the elements of a row that it holds.
REGISTERS = 65536
_REGISTERS = ((0, 64), (9, 96), (17, 128))
#: The most blocks on an SM that a schedule asks for.
MOST_BLOCKS = 16


def choice(fusion: Fusion, width: int, again: bool = True, whole: bool = True) -> Choice:
    """What was fastest for such a fusion and rows of about this length; ``again``: they may be read again,
    ``whole``: all of it may be chosen."""
    kind, size = key = _kind(fusion), 2 if _widest(fusion) <= 2 else 4
    together = _whole(fusion, key, width) if whole else None
    if together is not None:
        return together
    found = _again(fusion, width) if again else None
    if found is not None:
        return Choice(*found, rereads=True)
    warps, blocks = next((w, b) for least, w, b in reversed(_TABLES[key]) if width >= least)
    kept = _KEPT.get((kind, size, _vectors(fusion)), range(0))
    rows = next((n for least, most, n in _ROWS_OF_A_BLOCK.get((kind, size), ()) if least < width <= most), 0)
    return Choice(warps, blocks, width in kept, rows=rows)


def ring(fusion: Fusion, width: int) -> bool:
    """Whether long rows are reduced twice: those come by bulk copies into a ring of buffers."""
    long = width >= RING_FROM and _widest(fusion) <= 2 and _reductions(fusion) > 1
    return long and not rereads(fusion, width)


def rereads(fusion: Fusion, width: int) -> bool:
    """Whether rows are loaded again for every step, and stay in no registers."""
    return _again(fusion, width) is not None


def _whole(fusion: Fusion, key: tuple[Kind, int], width: int) -> Choice | None:
    """What was measured for such rows as a whole."""
    found = next((c for least, most, c in _WHOLE.get(key, ()) if least < width <= most), None)
    usual = len(fusion.streamed) == 1 and width * _widest(fusion) % 16 == 0 and _cheap(fusion)
    return found if usual else None


def _again(fusion: Fusion, width: int) -> tuple[int, int] | None:
    """Warps and blocks of rows that are read again."""
    widest = _widest(fusion)
    key: tuple[Kind, int] = (_kind(fusion), 2 if widest <= 2 else 4)
    narrow = width * widest % 16 > 0
    dear = "random" in fusion.ops() or not (width >= RING_FROM or _cheap(fusion))
    if len(fusion.streamed) > _MOST_READ or narrow or dear:
        return None
    found = (x for x in _REREAD.get(key, ()) if x[0] < width <= x[1])
    return next(((warps, blocks) for _, _, warps, blocks in found), None)


def _cheap(fusion: Fusion) -> bool:
    """Whether elements cost little to compute again."""
    return all(op in _CHEAP or op in _CASTS for op in fusion.ops())


def hint_of(fusion: Fusion, width: int) -> CacheHint:
    """What caches are told of rows that are read once, where it is not chosen with all else."""
    kind = _kind(fusion)
    if kind == "sum":
        return "past" if fetched(fusion, width) else "loads"
    return "loads" if kind == "loss" and width * _widest(fusion) <= _ONCE else "normal"


def fetched(fusion: Fusion, width: int) -> bool:
    """Whether it pays to bring such rows to L2 while their blocks wait: not long ones of 4 bytes of a sum."""
    return _kind(fusion) != "sum" or _widest(fusion) <= 2 or width <= _PAST


def numbers(fusion: Fusion) -> bool:
    """Whether each row becomes one sum."""
    return _kind(fusion) == "sum"


def early(fusion: Fusion, width: int) -> bool:
    """Whether blocks may start while the kernel before ends: layer norms in 16 bits lack registers for it."""
    return not (_kind(fusion) == "norm" and _widest(fusion) <= 2 and rereads(fusion, width))


def reduces(fusion: Fusion) -> bool:
    """Whether anything is reduced along rows."""
    return _reductions(fusion) > 0


def several(fusion: Fusion) -> bool:
    """Whether proofs of a ring take long: more than two reductions."""
    return _reductions(fusion) > 2


def resident(threads: int, per_thread: int) -> int:
    """Blocks on an SM, for threads that hold so many elements of a row."""
    registers = next(found for least, found in reversed(_REGISTERS) if per_thread >= least)
    return max(1, min(MOST_BLOCKS, REGISTERS // (threads * registers)))


def _kind(fusion: Fusion) -> Kind:
    if not _reductions(fusion):
        return "elementwise"
    if all(o.dims != fusion.dims for o in fusion.outputs):
        return "sum" if _reductions(fusion) == 1 else "loss"
    if _plain(fusion):
        return "scaled" if _reductions(fusion) == 1 else "norm"
    return "one" if len(fusion.streamed) == 1 else "several"


def _vectors(fusion: Fusion) -> int:
    """Inputs of the shape of one row."""
    return sum(t.dims == fusion.dims[-1:] != fusion.dims for _, t in fusion.inputs)


def _plain(fusion: Fusion) -> bool:
    """A normalization: one row in, one row out, and nothing but arithmetic."""
    along = [o for o in fusion.outputs if o.dims == fusion.dims]
    other = {op for op in fusion.ops() if not op.startswith("cast.")} - _ARITHMETIC - set(REDUCTIONS)
    return len(fusion.streamed) == len(along) == 1 and not other


def _reductions(fusion: Fusion) -> int:
    return sum(fusion.node(i).op in REDUCTIONS for i in fusion.graph)


def _widest(fusion: Fusion) -> int:
    """Bytes of the widest element of the rows that are read or written."""
    sizes = [DTYPE_BYTES[t.dtype] for n, t in fusion.inputs if n in fusion.streamed]
    sizes += [DTYPE_BYTES[o.dtype] for o in fusion.outputs if o.dims == fusion.dims]
    return max(sizes, default=4)


__all__ = [
    "Choice",
    "choice",
    "early",
    "fetched",
    "hint_of",
    "numbers",
    "reduces",
    "rereads",
    "resident",
    "ring",
    "several",
]
