"""Damaged PTX ends in InputError or in a module, quickly.

``benchmarks/checker/fuzz_ptx.py`` does more of it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.checker import fuzz_ptx
from syncverify.base.source import InputError
from syncverify.frontends.ptx.syntax.parser import parse

SOURCES = sorted((Path(__file__).parent / "sources").glob("*.ptx"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_mutants(path: Path) -> None:
    data = path.read_bytes()
    with fuzz_ptx.time_limit(20):
        outcomes = [fuzz_ptx.read(fuzz_ptx.mutant(data, seed), path.name) for seed in range(100)]
    assert set(outcomes) == {"parsed", "malformed"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.stem)
def test_every_prefix(path: Path) -> None:
    text = path.read_text()
    rng = random.Random(1)
    with fuzz_ptx.time_limit(20):
        for end in rng.sample(range(len(text)), 100):
            fuzz_ptx.read(text[:end].encode(), path.name)


CORPUS = sorted((Path(__file__).parents[4] / "corpus" / "ptx").glob("*.good.ptx"))


@pytest.mark.parametrize("path", CORPUS[::4], ids=lambda p: p.name)
def test_mutants_have_a_verdict_or_an_error(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    for seed in range(10):
        damaged = fuzz_ptx.mutant(data, seed)
        with fuzz_ptx.time_limit(20):
            if fuzz_ptx.read(damaged, path.name) == "parsed":
                outcome = fuzz_ptx.check(damaged, tmp_path, fuzz_ptx.launch_file(path))
                assert outcome in ("exit 0", "exit 1", "exit 2", "exit 3")


HEAD = ".version 8.4\n.target sm_90a\n"


@pytest.mark.parametrize(
    "text",
    [
        "nop" + " " * 200_000,
        "@p" + " " * 200_000,
        "/*" * 100_000,
        '"' * 200_000,
        ".entry" * 50_000,
        ".entry k(" + "(" * 100_000,
        ".global .b8 x[1] = " + "{" * 100_000 + ";",
        ".global .u32 x = " + "(" * 50_000 + ";",
        ".entry k() { mov.b32 a, " + "-" * 100_000 + "1; }",
        ".entry k() { " + "{" * 100_000,
        ".entry k() .maxntid " + "1," * 100_000,
        ".entry k() .a" + " .a" * 100_000,
        ".entry k() { mov.b32 " + "!" * 100_000 + "p; }",
        ".entry k() { mov.b32 " + "[" * 100_000 + "]; }",
        ".entry k() { mov.b32 " + "a|" * 100_000 + "b; }",
        ".entry k() { .reg .b32 %r<99999>; .reg .b32 %r<99999>; }",
        ".file " + "9" * 10_000 + ' "x"\n',
        ".global .b8 x[99999999999999999999];",
        ".global .b8 x[1<<62][1<<62][1<<62];",
        "a" * 1_000_000,
    ],
    ids=lambda t: t[:30],
)
def test_hostile_texts_end_soon(text: str) -> None:
    with fuzz_ptx.time_limit(5), pytest.raises(InputError):
        parse(HEAD + text)


def test_an_instruction_without_operands_is_not_known(tmp_path: Path) -> None:
    (path,) = [p for p in CORPUS if p.name == "operand_after_fence.good.ptx"]
    data = path.read_bytes().replace(b"wgmma.mma_async.sync", b"wgmma.mma_async.s;sync", 1)
    assert fuzz_ptx.check(data, tmp_path, fuzz_ptx.launch_file(path)) in ("exit 2", "exit 3")
