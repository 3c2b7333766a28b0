"""The second reader of PTX: executes the text, lane by lane and bit by bit, and finds harm by itself.

It shares the syntax tree with the front end (``syntax``) and nothing else: no decoding, no values, no model
and no checker. A kernel that adds one to each element:

    >>> import numpy as np
    >>> from syncverify.simulate.ptx import Launch, buffer, run
    >>> text = '''
    ... .version 8.0
    ... .target sm_90a
    ... .address_size 64
    ... .visible .entry k(.param .u64 p)
    ... {
    ...     .reg .b32 %r<4>;
    ...     .reg .b64 %rd<4>;
    ...     ld.param.u64 %rd1, [p];
    ...     mov.u32 %r1, %tid.x;
    ...     mul.wide.u32 %rd2, %r1, 4;
    ...     add.s64 %rd1, %rd1, %rd2;
    ...     ld.global.u32 %r2, [%rd1];
    ...     add.s32 %r2, %r2, 1;
    ...     st.global.u32 [%rd1], %r2;
    ...     ret;
    ... }
    ... '''
    >>> data = buffer(np.arange(32, dtype=np.int32))
    >>> result = run(text, "k", Launch(block=(32, 1, 1), params=(data,)), seed=1)
    >>> result.harm is None, result.memory(data)[:3].tolist()
    (True, [1, 2, 3])
"""

from syncverify.simulate.ptx.execute import Result, exhaust, first_harm, run, sample
from syncverify.simulate.ptx.harm import CannotExecute, Harm, Kind, Place, StepLimit
from syncverify.simulate.ptx.launch import AnyMap, Buffer, Launch, Struct, TensorMap, buffer

__all__ = [
    "AnyMap",
    "Buffer",
    "CannotExecute",
    "Harm",
    "Kind",
    "Launch",
    "Place",
    "Result",
    "StepLimit",
    "Struct",
    "TensorMap",
    "buffer",
    "exhaust",
    "first_harm",
    "run",
    "sample",
]
