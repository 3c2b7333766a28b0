"""Launch facts from the bytes of parameters: tensor maps, pointers, and words that depend on a size.

The same launch is recorded for several values of one size; words that differ become expressions of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from emit import Leaf, Size

# CUtensorMapDataType and CUtensorMapSwizzle.
DTYPES = dict(
    enumerate(("u8", "u16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "bf16", "f32", "tf32", "tf32"))
)
SWIZZLES = {0: "none", 1: "32B", 2: "64B", 3: "128B"}
FIRST_POINTER, POINTER_STEP, LARGEST_OFFSET = 0x2B7E15000000, 1 << 28, 1 << 28
MAP_MARK = 0x7A3B


@dataclass(frozen=True)
class Sample:
    """One recorded launch: the value of the size, a parameter's bytes, and the tensor maps by number."""

    size: int
    data: bytes
    maps: Mapping[int, Mapping[str, object]]


def leaves(samples: Sequence[Sample], name: str, pointers: Sequence[str]) -> tuple[list[Leaf], list[Leaf]]:
    """The parameter's leaves for the first sample, and with `name` where the samples differ."""
    exact: list[Leaf] = []
    general: list[Leaf] = []
    first = samples[0].data
    at = run = 0

    def flush(end: int) -> None:
        if end > run:
            plain = Leaf("bytes", first[run:end].hex(), (("at", run),))
            exact.append(plain)
            general.append(plain)

    while at < len(first):
        width, pair = _special(samples, at, name, pointers)
        if pair is None:
            at += width
            continue
        flush(at)
        exact.append(pair[0])
        general.append(pair[1])
        at += width
        run = at
    flush(len(first))
    return exact, general


def _special(
    samples: Sequence[Sample], at: int, name: str, pointers: Sequence[str]
) -> tuple[int, tuple[Leaf, Leaf] | None]:
    """What lies at byte `at`, with its width; no leaves where it is plain bytes."""
    first = samples[0].data
    place = (("at", at),)
    if at + 4 > len(first):
        return len(first) - at, None
    mark = struct.unpack_from("<I", first, at)[0]
    if mark >> 16 == MAP_MARK and at % 64 == 0:
        made = samples[0].maps[mark & 0xFFFF]
        facts = (
            ("dtype", DTYPES[made["dtype"]]),
            ("box", made["box"]),
            ("swizzle", SWIZZLES[made["swizzle"]]),
            *place,
        )
        leaf = Leaf("tensormap", f"map{at}", facts)
        return 128, (leaf, leaf)
    if at % 8 == 0 and at + 8 <= len(first):
        index, offset = divmod(struct.unpack_from("<Q", first, at)[0] - FIRST_POINTER, POINTER_STEP)
        if 0 <= index < len(pointers) and offset < LARGEST_OFFSET:
            leaf = Leaf("ptr", pointers[index] + (f"_{offset}" if offset else ""), place)
            return 8, (leaf, leaf)
    if len({s.data[at : at + 4] for s in samples}) > 1:
        return 4, _sized(samples, at, name)
    return 4, None


def _sized(samples: Sequence[Sample], at: int, name: str) -> tuple[Leaf, Leaf]:
    """A word that differs: linear in the size if the samples say so, else a size of its own."""
    values = [struct.unpack_from("<i", s.data, at)[0] for s in samples]
    sizes = [s.size for s in samples]
    place = (("at", at),)
    exact = Leaf("i32", values[0], place)
    slope = Fraction(values[1] - values[0], sizes[1] - sizes[0])
    base = values[0] - slope * sizes[0]
    linear = all(slope * size + base == value for size, value in zip(sizes, values, strict=True))
    if not linear or base.denominator != 1:
        return exact, Leaf("i32", Size(f"{name}_at{at}", values[0]), place)
    scaled = name if slope == 1 else f"{slope.numerator} * {name}"
    scaled += f" // {slope.denominator}" if slope.denominator > 1 else ""
    offset = f" + {base}" if base > 0 else f" - {-base}" if base < 0 else ""
    return exact, Leaf("i32", scaled + offset, place)
