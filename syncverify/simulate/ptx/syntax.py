"""The syntax of PTX: the one thing that this machine shares with the front end.

Every other module takes nodes and ``parse`` from here, so that the import contract has one door to watch.
"""

from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Function,
    Imm,
    InitialAddress,
    Instr,
    Label,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Selected,
    Sink,
    Special,
    Sym,
    Variable,
    Vector,
)
from syncverify.frontends.ptx.syntax.parser import parse, parse_file

__all__ = [
    "FloatImm",
    "Function",
    "Imm",
    "InitialAddress",
    "Instr",
    "Label",
    "Mem",
    "Module",
    "Not",
    "Operand",
    "Pair",
    "Reg",
    "Selected",
    "Sink",
    "Special",
    "Sym",
    "Variable",
    "Vector",
    "parse",
    "parse_file",
]
