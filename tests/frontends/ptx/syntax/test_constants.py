"""Constant expressions and initial values, judged by trees that nobody parses and by cubins."""

from __future__ import annotations

import random

import pytest

from syncverify.base.source import InputError
from syncverify.frontends.ptx.syntax.lexer import Malformed, constant
from syncverify.frontends.ptx.syntax.nodes import InitialAddress, Variable
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.syntax.constant_trees import Undefined, drawn

HEAD = ".version 8.3\n.target sm_90a\n.address_size 64\n"


def test_values_are_those_of_the_rules() -> None:
    """Where the ISA and ptxas disagree, and where there is none, there is an error."""
    seen = {"equal": 0, "differ": 0, "none": 0}
    for seed in range(1500):
        tree = drawn(draw := random.Random(seed), draw.randrange(1, 4))
        try:
            of_isa, of_ptxas = tree.value(False).to(False), tree.value(True).to(False)
        except Undefined:
            of_isa, of_ptxas, kind = 0, 1, "none"
        else:
            kind = "equal" if of_isa == of_ptxas else "differ"
        seen[kind] += 1
        if of_isa == of_ptxas:
            found = constant(tree.text())
            assert isinstance(found, int)
            assert (found - of_isa) % 2**64 == 0, tree.text()
        else:
            with pytest.raises(Malformed):
                constant(tree.text())
    assert min(seen.values()) > 10, seen


@pytest.mark.parametrize(
    ("text", "value"),  # what ptxas 13.0 puts into memory
    [
        ("-7 / 2U", 0x7FFFFFFFFFFFFFFC),
        ("-7 % 3", 0),
        ("7 % -3", 7),
        ("(~0) >> 1", 0x7FFFFFFFFFFFFFFF),
        ("-1 >> 1", -1),
        ("(-8 ^ 0U) / 2", 0x7FFFFFFFFFFFFFFC),
        ("(.s64)0xFFFFFFFFFFFFFFFF >> 1", -1),
        ("- 63 < 32U", 0),
    ],
)
def test_values_of_ptxas(text: str, value: int) -> None:
    assert constant(text) == value


@pytest.mark.parametrize(
    ("text", "of_isa", "of_ptxas"),
    [
        ("1 << 64", 0, 1),
        ("1 << 65", 0, 2),
        ("(-1 | 0) >> 1", 0x7FFFFFFFFFFFFFFF, -1),
        ("(1 ? -1 : 0U) >> 63", 1, -1),
        ("-121 < 7 % 4", 1, 0),
    ],
)
def test_where_the_isa_and_ptxas_disagree_nothing_is_chosen(text: str, of_isa: int, of_ptxas: int) -> None:
    with pytest.raises(Malformed, match=f"is {of_isa} by the PTX ISA and {of_ptxas} for ptxas"):
        constant(text)


def variable(text: str) -> Variable:
    """The variable ``v`` of a module."""
    return next(v for v in parse(HEAD + text).variables if v.name == "v")


@pytest.mark.parametrize(
    ("text", "size", "data"),  # the bytes as they stand in a cubin of ptxas 13.0
    [
        (".global .u32 v[2][3] = {{1,2,3},{4,5,6}};", 24, "010000000200000003000000040000000500000006000000"),
        (".global .u16 v[2][3] = {{1,2}};", 12, "010002000000000000000000"),
        (".global .u16 v[][3] = {{1,2,3},{4,5,6}};", 12, "010002000300040005000600"),
        (".global .u16 v[2][2][2] = {{{1,2},{3,4}},{{5,6},{7,8}}};", 16, "01000200030004000500060007000800"),
        (".global .v2 .u16 v[2] = {{1,2},{5,6}};", 8, "0100020005000600"),
        (".global .v2 .u16 v = {1,2};", 4, "01000200"),
        (".global .u16 v[2] = {1,2}, x[2] = {3,4};", 4, "01000200"),
        (".global .u16 x[2] = {{1},{2}}, v[2] = {3,4};", 4, "03000400"),
        (".global .f32 v[3] = {1.1, 0.1, 16777219.0};", 12, "cdcc8c3fcdcccc3d0200804b"),
        (".global .f32 v = -1.5;", 4, "0000c0bf"),
        (".global .f64 v = 1.5;", 8, "000000000000f83f"),
        (".global .s8 v[2] = {-128, 200};", 2, "80c8"),
        (".global .u8 v[2] = {300, WARP_SZ*2};", 2, "2c40"),
        (".global .b8 v[3] = {0x61, 98, 0143};", 3, "616263"),
        (".global .u32 v[2] = {};", 8, "0000000000000000"),
        # rows that are shorter: C pads them, ptxas does not, the ISA says neither
        (".global .u16 v[2][2] = {{1},{2,3}};", 8, None),
        (".global .u16 v[][3] = {{1,2},{4,5}};", 12, None),
    ],
)
def test_initial_values_are_those_of_a_cubin(text: str, size: int, data: str | None) -> None:
    v = variable(text)
    assert v.size == size
    assert v.initial is not None
    assert v.initial.data == (None if data is None else bytes.fromhex(data))
    assert v.init == v.initial.data


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", InitialAddress(8, 8, "x")),
        ("x+4", InitialAddress(8, 8, "x", 4)),
        ("x+(2*2)", InitialAddress(8, 8, "x", 4)),
        ("x+-4", InitialAddress(8, 8, "x", -4)),
        ("generic(x)+4", InitialAddress(8, 8, "x", 4, True)),
        ("generic( x )", InitialAddress(8, 8, "x", 0, True)),
        ("0xFF(x)", InitialAddress(8, 8, "x", 0, False, 0)),
        ("0xff0000(x+4)", InitialAddress(8, 8, "x", 4, False, 2)),
    ],
)
def test_addresses_among_initial_values(value: str, expected: InitialAddress) -> None:
    v = variable(f".global .u32 x; .global .u64 v[3] = {{1, {value}, 2}};")
    assert v.initial is not None
    assert v.initial.addresses == (expected,)
    assert v.initial.data == bytes([1, *[0] * 15, 2, *[0] * 7])
    assert v.init is None


@pytest.mark.parametrize("value", ["4+x", "0xf0(x)", "generic(x", "x[1]", "x)"])
def test_what_is_no_initial_value(value: str) -> None:
    with pytest.raises(InputError):
        parse(f"{HEAD}.global .u32 x; .global .u64 v[2] = {{{value}, 2}};")
