"""The compiled ring in tiles: blocks take them in turn, and their number is a product of two quotients.

What is done between two tiles stands in front of the loop, which begins behind that; each tile goes on until
the counter of all steps *is* a number.
"""

from __future__ import annotations

from typing import Any

from tests.checker.induction.bases import BEGUN, LOADED, PTX_FACTS, changed

#: Lines of tiles in each direction: (M + 15) / 16 and (L + 15) / 16.
_ROWS = """	ld.param.u32 	%r101, [ring_param_4];
	add.s32 	%r101, %r101, 15;
	shr.u32 	%r101, %r101, 4;
"""
_COLUMNS = """	ld.param.u32 	%r102, [ring_param_5];
	add.s32 	%r102, %r102, 15;
	shr.u32 	%r102, %r102, 4;
"""
COUNTED = "	mul.lo.s32 	%r103, %r101, %r102;\n"


def _tiles(count: str, step: str, end: str, labels: tuple[str, str], done: str) -> str:
    """The code before a tile's loop: to the first tile, then from one to the next."""
    between, begin = labels
    return f"""	mov.u32 	{count}, %ctaid.x;
	setp.ge.s32 	%p18, {count}, %r103;
	@%p18 bra 	$L__BB0_13;
	bra.uni 	{begin};

{between}:
	add.s32 	{count}, {count}, %r105;
	setp.lt.s32 	%p18, {count}, %r103;
	@!%p18 bra 	{done};

{begin}:
	add.s32 	{end}, {step}, %r20;

"""


def _ended(p: str, label: str, step: str, end: str, between: str) -> tuple[str, str]:
    """The end of a loop that goes on until its counter is a number."""
    asked = f"\tsetp.lt.s32 \t{p}, {step}, %r20;\n\t@{p} bra \t{label};\n"
    return asked, f"\tsetp.ne.s32 \t{p}, {step}, {end};\n\t@{p} bra \t{label};\n\tbra.uni \t{between};\n"


_PARAMETERS = (
    "\t.param .u32 ring_param_3\n",
    "\t.param .u32 ring_param_3,\n\t.param .u32 ring_param_4,\n\t.param .u32 ring_param_5\n",
)
_LOADER = "\tmov.u32 \t%r100, %r98;\n"
_OF_READER = _tiles("%r106", "%r95", "%r107", ("$L__BB0_30", "$L__BB0_31"), "$L__BB0_13")
_OF_LOADER = _tiles("%r108", "%r98", "%r109", ("$L__BB0_32", "$L__BB0_33"), "$L__BB0_13")
TILED = changed(
    (".b32 \t%r<101>", ".b32 \t%r<120>"), (".pred \t%p<18>", ".pred \t%p<20>"), _PARAMETERS,
    (LOADED, LOADED + _ROWS + _COLUMNS + COUNTED + "\tmov.u32 \t%r105, %nctaid.x;\n"),
    (BEGUN, BEGUN.replace("\n$L", f"\n{_OF_READER}$L")), (_LOADER, _LOADER + _OF_LOADER),
    _ended("%p11", "$L__BB0_5", "%r95", "%r107", "$L__BB0_30"),
    _ended("%p17", "$L__BB0_10", "%r98", "%r109", "$L__BB0_32"),
)  # fmt: skip
_PARAMS: Any = PTX_FACTS["params"]
FACTS: dict[str, Any] = {
    **PTX_FACTS,
    "assume": ["N >= 1", "M >= 1", "L >= 1", "M <= 2000", "L <= 2000"],
    "params": {**_PARAMS, "4": {"i32": "M"}, "5": {"i32": "L"}},
}


def tiled(*edits: tuple[str, str]) -> str:
    """The same with other text in some places, each of which it has once."""
    text = TILED
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
