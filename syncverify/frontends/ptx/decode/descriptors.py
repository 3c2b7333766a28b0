"""The bytes that a wgmma matrix descriptor names (PTX ISA, wgmma: Shared Memory Matrix Layout; Matrix
Descriptor Format).

In units of 16 bytes, with rows along M or N and columns along K, the canonical layouts are

    K-major, no swizzle:    row % 8 * 16 + row / 8 * SBO + column * LBO
    K-major, S-byte:        row % 8 * S + row / 8 * SBO + column * 16
    MN-major, no swizzle:   unit * SBO + k % 8 * 16 + k / 8 * LBO
    MN-major, S-byte:       unit % (S / 16) * 16 + unit / (S / 16) * LBO + k % 8 * S + k / 8 * SBO

where ``unit`` is 8 elements along M or N. A swizzle of S = 32, 64, 128 bytes exclusive-ors bits 4 and up of
the address with its bits 7 and up (1, 2, 3 bits), counted from the start of the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes that one wgmma reads along K of a dense operand, whatever the type (PTX ISA, wgmma: Matrix Shape).
K_BYTES = 32
#: Bytes of the longest row of a swizzle atom.
ATOM_ROW = 128
_SWIZZLES = (0, 128, 64, 32)
_UNIT = 16


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A matrix descriptor. ``start``, ``lbo`` and ``sbo`` in bytes, ``swizzle`` in bytes (0: none)."""

    start: int
    lbo: int
    sbo: int
    base_offset: int
    swizzle: int


def decode_descriptor(bits: int) -> Descriptor:
    return Descriptor(
        start=(bits & 0x3FFF) << 4,
        lbo=(bits >> 16 & 0x3FFF) << 4,
        sbo=(bits >> 32 & 0x3FFF) << 4,
        base_offset=bits >> 49 & 7,
        swizzle=_SWIZZLES[bits >> 62 & 3],
    )


def operand_bytes(bits: int, rows: range, k_bytes: int, mn_major: bool) -> tuple[tuple[int, int], ...]:
    """The bytes of rows (along M or N, by eights) of an operand, ``k_bytes`` along K: merged ``(lo, hi)``.

    MN-major operands have 16-bit elements (imm-trans is of .f16 and .bf16 alone).
    """
    d = decode_descriptor(bits)
    offsets = _mn_major(d, rows, k_bytes) if mn_major else _k_major(d, rows, k_bytes)
    return _merge(sorted({_swizzled(d, d.start + x) for x in offsets}))


def _k_major(d: Descriptor, rows: range, k_bytes: int) -> list[int]:
    pitch, step = (d.swizzle, _UNIT) if d.swizzle else (_UNIT, d.lbo)
    columns = range(k_bytes // _UNIT)
    return [r % 8 * pitch + r // 8 * d.sbo + c * step for r in rows for c in columns]


def _mn_major(d: Descriptor, rows: range, k_bytes: int) -> list[int]:
    units, depth = range(rows.start * 2 // _UNIT, rows.stop * 2 // _UNIT), k_bytes // 2
    if not d.swizzle:
        return [u * d.sbo + k % 8 * _UNIT + k // 8 * d.lbo for u in units for k in range(depth)]
    wide = d.swizzle // _UNIT
    return [
        u % wide * _UNIT + u // wide * d.lbo + k % 8 * d.swizzle + k // 8 * d.sbo
        for u in units
        for k in range(depth)
    ]


def _swizzled(d: Descriptor, address: int) -> int:
    """PTX ISA, wgmma, Canonical Layouts: Swizzle<b, 4, 3> with b = 0, 1, 2, 3."""
    row = (address >> 7) - d.base_offset
    return address ^ (row & (d.swizzle // _UNIT - 1)) << 4 if d.swizzle else address


def _merge(starts: list[int]) -> tuple[tuple[int, int], ...]:
    out: list[tuple[int, int]] = []
    for lo in starts:
        if out and out[-1][1] == lo:
            out[-1] = (out[-1][0], lo + _UNIT)
        else:
            out.append((lo, lo + _UNIT))
    return tuple(out)
