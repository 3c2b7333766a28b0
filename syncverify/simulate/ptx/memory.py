"""Memory: arenas of bytes for the state spaces, and windows of generic addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.shadow import Shadow
from syncverify.simulate.ptx.types import UNSIGNED, Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Block

#: Windows of 64-bit generic addresses. The window of shared memory holds 32-bit shared addresses; the lower
#: half of a generic one is none of these, as on the hardware.
GLOBAL_WINDOW = 0x7F00_0000_0000
SHARED_WINDOW = 0x7E00_4000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
PARAM_WINDOW = 0x7C00_0000_0000
CONST_WINDOW = 0x7B00_0000_0000
FUNCTION_WINDOW = 0x7A00_0000_0000
#: The first bytes of shared memory are the system's; the rank of the block stands above bit 24.
SHARED_START = 1024
#: Of the bytes before it, those that libraries may use: where %reserved_smem_offset_1 leads.
RESERVED_SHARED = 288
RANK_SHIFT = 24
_GUARD = 4096
#: Bytes that all global addresses without memory share, in a launch without bounds.
NOWHERE = 1 << 20


class Arena:
    """Bytes with views of all widths. ``valid`` says which bytes exist (None: all)."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // 16) * 16 + 16
        self.bytes = np.zeros(self.size, np.uint8)
        self.views = {bits: self.bytes.view(kind) for bits, kind in UNSIGNED.items()}
        self.valid: Lanes | None = None
        self.shadow: Shadow | None = None

    def load(self, at: Lanes, bits: int) -> Lanes:
        """Elements at aligned byte offsets."""
        if bits == 128:
            pairs = self.views[64]
            out = np.empty((len(at), 2), np.uint64)
            out[:, 0] = pairs[at >> 3]
            out[:, 1] = pairs[(at >> 3) + 1]
            return out
        return self.views[bits][at // (bits // 8)]

    def store(self, at: Lanes, bits: int, value: Lanes) -> None:
        if bits == 128:
            self.views[64][at >> 3] = value[:, 0]
            self.views[64][(at >> 3) + 1] = value[:, 1]
            return
        self.views[bits][at // (bits // 8)] = value


class GlobalMemory(Arena):
    """Buffers with gaps between them."""

    def __init__(self, sizes: list[tuple[int, int]]) -> None:
        """``sizes``: bytes and misalignment of each buffer."""
        at = _GUARD
        self.starts = []
        for size, misalign in sizes:
            self.starts.append(at + misalign)
            at = -(-(at + misalign + size + _GUARD) // 256) * 256
        super().__init__(at)
        self.valid = np.zeros(self.size, bool)
        for start, (size, _) in zip(self.starts, sizes, strict=True):
            self.valid[start : start + size] = True


@dataclass(slots=True)
class SharedMemory:
    """The shared memory of all blocks of the launch, one after the other."""

    arena: Arena
    stride: int
    barrier: Lanes  # by 8 bytes: a live mbarrier lies here

    def block_of(self, at: int) -> int:
        return at // self.stride


def window_of(block: Block) -> int:
    """The first shared address of a block."""
    return (block.rank << RANK_SHIFT) + SHARED_START
