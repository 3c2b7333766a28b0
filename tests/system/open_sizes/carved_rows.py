"""Threads that share out the words of two arrays, which sizes carve out of one dynamic shared memory."""

from __future__ import annotations

from functools import partial

from tests.system.open_sizes import strided_rows

#: A kernel, the numbers that it is tried with, and the mistakes in it.
kernel = partial(strided_rows.kernel, carved=True)
