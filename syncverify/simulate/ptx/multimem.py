"""``multimem`` (PTX ISA, 9.7.9.14): memory of several devices at one address. This machine has one device.

So a reduction over all devices loads the value of this one, and a store, a copy or a reduction goes to it
alone. Each is executed as the access to global memory that it is here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from syncverify.simulate.ptx.program import BUILDERS, VECTORS, Context, builder
from syncverify.simulate.ptx.syntax import Instr
from syncverify.simulate.ptx.types import BITS, type_of

if TYPE_CHECKING:
    from syncverify.simulate.ptx.state import Step

_ORDERS = ("weak", "relaxed", "acquire", "release", "cta", "cluster", "gpu", "sys")
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_FORMS = {"ld_reduce": "ld", "st": "st", "red": "red"}


@builder("multimem")
def _multimem(c: Context, i: Instr) -> Step:
    form, *mods = i.mods
    if form == "cp":
        return BUILDERS["cp"](c, replace(i, op="cp", mods=tuple(mods)))
    op = _FORMS.get(form)
    kind = type_of(i.mods)
    for m in mods:
        if m not in (*_ORDERS, *_OPERATIONS, *VECTORS, "global", "acc::f32") and m not in BITS:
            raise c.fail(f"the modifier .{m}")
    if op is None or not kind:
        raise c.fail(f"multimem.{form}")
    kept = [m for m in mods if m in (*_ORDERS, *VECTORS)]
    if op == "red":
        kept += [] if set(kept) & {"cta", "cluster", "gpu", "sys"} else ["sys"]
        kept += [m for m in mods if m in _OPERATIONS] + [kind]
    else:
        kept.append(f"b{BITS[kind]}")
    return BUILDERS[op](c, replace(i, op=op, mods=("global", *kept)))
