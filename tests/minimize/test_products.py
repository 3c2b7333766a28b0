"""Products on tensor cores hold nothing that could go; what else stays, ptxas would put there itself."""

from __future__ import annotations

import struct

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.nvrtc import compile_kernel
from syncverify.codegen.cuda import emit
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import ClusterArrive, FenceMbarrierInit, For, Kernel, Stmt, WgmmaFence
from syncverify.matmul import Schedule, product
from syncverify.matmul.pipeline import build
from syncverify.minimize import Reason, minimize
from syncverify.minimize.candidates import synchronizing, taken_out
from syncverify.passes.edits import statement

IN_FLIGHT = Schedule(64, 64, consumers=1, stages=3, pending=1)
CLUSTER = Schedule(64, 128, consumers=1, stages=2, cluster=2)


def kernel(schedule: Schedule) -> Kernel:
    return build(product(), schedule)


def test_a_fence_between_products_on_one_accumulator_stays_for_ptxas() -> None:
    found = minimize(kernel(IN_FLIGHT))
    assert not found.removed
    ((kept,), reason), *others = [(k.stmts, k.reason) for k in found.kept]
    assert isinstance(kept, WgmmaFence) and reason is Reason.ASSEMBLER and not others


def test_the_machine_code_is_the_same_without_it() -> None:
    whole = kernel(IN_FLIGHT)
    inner = {p for p in synchronizing(whole.body) if _in_loop(whole, p, WgmmaFence)}
    less = taken_out(whole, frozenset(inner))
    assert len(inner) == 1 and emit(whole).count("wgmma_fence") > emit(less).count("wgmma_fence")
    assert _code(whole) == _code(less)


def test_nothing_can_go_from_a_cluster() -> None:
    found = minimize(kernel(CLUSTER))
    assert not found.removed and not found.kept


@pytest.mark.parametrize("what", [FenceMbarrierInit, ClusterArrive])
def test_blocks_that_meet_without_the_release_of_the_inits_are_refuted(what: type[Stmt]) -> None:
    whole = kernel(CLUSTER)
    first = min(p for p in synchronizing(whole.body) if isinstance(statement(whole.body, p), what))
    assert check_kernel(whole).verdict is Verdict.PROVED
    assert (
        check_kernel(taken_out(whole, frozenset({first})), policy=Policy.PRACTICAL).verdict is Verdict.REFUTED
    )


def _in_loop(k: Kernel, path: tuple[int, ...], what: type[Stmt]) -> bool:
    """Whether a statement of that kind stands in a loop."""
    above = (statement(k.body, path[:i]) for i in range(1, len(path), 2))
    return isinstance(statement(k.body, path), what) and any(isinstance(s, For) for s in above)


def _code(k: Kernel) -> bytes:
    """The instructions: section ``.text`` of the ELF file."""
    elf = compile_kernel(emit(k), k.name)[1]
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, number, names = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(number)]
    start = heads[names][4]
    for name, _, _, _, offset, length in heads:
        if elf[start + name :].startswith(f".text.{k.name}".encode() + b"\0"):
            return elf[offset : offset + length]
    raise AssertionError("no code")
