"""Registers that hold sizes without a number, and what a widening keeps of them."""

from __future__ import annotations

import pytest

from syncverify.checker.prover.reach.domain.affine_sets import is_subset
from syncverify.checker.prover.reach.domain.affine_widening import AffineWidening
from syncverify.frontends.ptx.values.arith import bfe, clz, popc, prmt, sar, shl, shr
from syncverify.frontends.ptx.values.register_values import Unknown
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.path_condition import PathCondition


def test_the_quotient_by_a_tile_is_one_unknown_whoever_asks() -> None:
    space = SymbolicContext()
    k = SymbolicWord(space.symbol("K", 1, 1 << 20), 32)
    tiles = (k + 63) >> 6
    assert ((k + 63) >> 6).term is tiles.term


def test_the_quotient_by_a_tile_is_related_to_what_it_divides() -> None:
    space = SymbolicContext()
    k = space.symbol("K", 1, 1 << 20)
    tiles = ((SymbolicWord(k, 32) + 63) >> 6).term
    assert space.path.implies(*space.of(tiles * 64 - k))
    assert space.path.implies(*space.of(k + 63 - tiles * 64))
    assert not space.path.implies(*space.of(tiles * 64 - k - 1))


def test_bits_below_the_unit_of_a_size_are_set() -> None:
    space = SymbolicContext()
    x = SymbolicWord(space.symbol("x", 0, 100) * 128 + 1, 32)
    assert (x | 6).term is (x + 6).term


def test_bits_of_a_size_are_known_for_its_numbers_only() -> None:
    space = SymbolicContext()
    n = SymbolicWord(space.symbol("n", 0, 1 << 20), 32)
    for ask in (lambda: shl(1, n, 32), lambda: sar(512, n, 32), lambda: popc(n),
                lambda: clz(n, 32), lambda: prmt(n, 0, 0x3210), lambda: bfe(7, n, 1, 32, 0)):  # fmt: skip
        with pytest.raises(NotConcrete):
            ask()
    known = SymbolicWord(space.symbol("m", 3, 3), 32)
    assert shr(512, known, 32) == 64
    shifted = shr(512, n, 32)
    assert space.bounds(shifted.term) == (0, 512) and shr(512, n, 32).term is shifted.term


def test_sizes_and_data_make_data() -> None:
    n, data = SymbolicWord(SymbolicContext().symbol("n", 0, 1 << 20), 32), Unknown("data")
    found = (shr(n, data, 32), shl(n, data, 32), sar(n, data, 32), bfe(n, data, 1, 32, 0), shr(data, n, 32))
    assert all(isinstance(x, Unknown) for x in found)


def test_a_sum_is_taken_not_to_wrap_where_it_is_read_as_signed() -> None:
    space = SymbolicContext()
    x = SymbolicWord(space.symbol("x", 1, (1 << 31) - 1), 32)
    assert (x + 127).signed() is (x + 127).term


def test_a_widening_keeps_the_factors_of_a_product_that_stays() -> None:
    space = SymbolicContext()
    a, b, k = (space.symbol(name, 1, 100) for name in "abk")
    path, there = space.path, PathCondition(space)
    rows = [space.of(x) for x in (a, b, a * b, k)]
    later = [space.of(x) for x in (a, b, a * b, k + 8)]
    w = AffineWidening(space, rows, path, later, there)
    assert w.rows[:3] == rows[:3]
    assert is_subset(space, w.rows, w.path, later, there)
