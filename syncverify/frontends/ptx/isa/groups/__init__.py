"""The rows of the table, by the chapters of the ISA; ``rows`` describes how they are written."""

from __future__ import annotations

from syncverify.frontends.ptx.isa.groups import (
    asynchronous,
    barrier,
    collective,
    control,
    floating,
    integer,
    matrix,
    memory,
    move,
    tensor,
    texture,
)

#: Chapters of rows, in the order of the ISA.
TEXTS = (
    integer.ROWS,
    floating.ROWS,
    move.ROWS,
    memory.ROWS,
    asynchronous.ROWS,
    texture.ROWS,
    control.ROWS,
    barrier.ROWS,
    collective.ROWS,
    matrix.ROWS,
    tensor.ROWS,
)
