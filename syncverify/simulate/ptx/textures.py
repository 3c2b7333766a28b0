"""Textures and surfaces: what the host put there is not given, and every texel and every property is 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncverify.simulate.ptx.program import Context, builder
from syncverify.simulate.ptx.syntax import Instr, Sink, Vector
from syncverify.simulate.ptx.types import LANES, Lanes

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Fragment, Next, Step

_WORDS = {32: np.uint32, 64: np.uint64, 16: np.uint16}


@builder("tex", "tld4", "txq", "suld", "suq")
def _texel(c: Context, i: Instr) -> Step:
    """Texels (``tex``, ``tld4``, ``suld``) and properties (``txq``, ``suq``)."""
    d = i.operands[0]
    named = d.items if isinstance(d, Vector) else (d,)
    targets = [(c.writer(x, c.bits_of(x)), c.bits_of(x)) for x in named if not isinstance(x, Sink)]

    def read(f: Fragment, on: Lanes) -> Next:
        for write, bits in targets:
            write(f, np.zeros(LANES, _WORDS[bits]), on)
        return None

    return c.masked(read)
