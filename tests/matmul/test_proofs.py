"""Matrix products are proved, as kernels and as PTX, and what their synchronization lacks is found."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache
from syncverify.codegen.cuda import emit
from syncverify.codegen.mma import Product
from syncverify.codegen.tensor_maps import pointers
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.lane_classes import elections
from syncverify.fusion import Tensor, relu, trace
from syncverify.gate import VerificationError
from syncverify.gate.matmul import CompiledMatmul, Matmul
from syncverify.ir import nodes as n
from syncverify.ir.expr import Int, Var
from syncverify.ir.launch_grid import Grid
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Problem, Schedule, product
from syncverify.matmul.pipeline import build
from syncverify.passes.rewrite import flat_map, walk

ONE_TILE = Schedule(128, 64, stages=2)
STAGED = Schedule(128, 128, stages=2, store="tma")
MANY_TILES = Schedule(128, 64, stages=2, persistent=True, registers=(40, 232))


def reparsed(kernel: n.Kernel) -> n.Kernel:
    (found,) = parse(print_kernel(kernel), "k.syncir")
    return found


@pytest.mark.parametrize("schedule", [ONE_TILE, STAGED], ids=["direct", "staged"])
def test_proved_for_all_sizes(schedule: Schedule, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    proofs = CompiledMatmul(product(), schedule, cache=Cache(tmp_path)).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == {"ir": ScopeKind.ALL, "ptx": ScopeKind.ALL}


@pytest.mark.parametrize(
    ("layout", "schedule"),
    [
        pytest.param("KK", Schedule(128, 96, store="tma", persistent=True), marks=pytest.mark.slow),
        pytest.param("MN", Schedule(64, 128, consumers=1, store="tma", resident=2), marks=pytest.mark.slow),
        (
            "KK",
            Schedule(128, 128, consumers=1, registers=(40, 208), store="tma", persistent=True, resident=2),
        ),
        ("MK", Schedule(128, 128, stages=2, store="tma", cluster=2, beside=True)),
        ("KN", Schedule(128, 160, stages=2, store="tma", cluster=2)),
        ("KK", Schedule(64, 64, consumers=1, store="tma", pending=1, dependent=True)),
    ],
    ids=[
        "half rows",
        "two blocks of an SM",
        "these move registers",
        "clusters beside each other",
        "clusters that share 160 columns",
        "one in flight",
    ],
)
def test_other_forms_of_the_menu_are_proved_for_all_sizes(
    layout: str, schedule: Schedule, tmp_path: Path
) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    proofs = CompiledMatmul(product(layout=layout), schedule, cache=Cache(tmp_path)).proofs
    assert {stage: r.scope.kind for stage, r in proofs.items()} == {"ir": ScopeKind.ALL, "ptx": ScopeKind.ALL}


def test_blocks_that_share_tiles_of_a_load_different_parts() -> None:
    kernel = build(product(), replace(STAGED, cluster=2, beside=True))
    (load,) = (s for s in walk(kernel.body) if isinstance(s, n.TmaLoad) and s.multicast is not None)
    assert load.map == "a_map"

    def same_part(s: n.Stmt) -> tuple[n.Stmt, ...]:
        return (replace(s, dst=replace(s.dst, start=Int(0))),) if s == load else (s,)

    wrong = replace(kernel, body=flat_map(kernel.body, same_part))
    assert check_kernel(wrong).verdict is Verdict.REFUTED


def test_two_blocks_of_an_sm_cannot_have_the_registers_of_one() -> None:
    """Each begins with 128 registers for a thread: 40 and 216 are as many, 40 and 232 are not."""
    two = Schedule(128, 128, consumers=1, store="tma", registers=(40, 216), resident=2)
    assert check_kernel(build(product(), two), scope=ScopeKind.EXACT).verdict is Verdict.PROVED
    report = check_kernel(build(product(), replace(two, registers=(40, 232))), scope=ScopeKind.EXACT)
    assert "SV304" in {d.rule for d in report.diagnostics}


@pytest.mark.parametrize("layout", ["KK", "KN", "MK", "MN"])
@pytest.mark.parametrize("policy", list(Policy))
def test_every_layout_is_proved_at_the_usual_sizes(layout: str, policy: Policy) -> None:
    kernel = reparsed(build(product(layout=layout), MANY_TILES, policy))
    assert check_kernel(kernel, {}, policy, scope=ScopeKind.EXACT).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("layout", "tile_n", "cluster"), [("KK", 64, 2), ("MN", 64, 2), ("KK", 160, 4), ("MN", 160, 2)]
)
def test_clusters_that_divide_an_odd_number_of_panels_are_proved_for_every_size(
    layout: str, tile_n: int, cluster: Literal[2, 4]
) -> None:
    """160 columns along K are four parts of 40; across K each block brings a part of each panel."""
    kernel = build(product(layout=layout), replace(STAGED, tile_n=tile_n, cluster=cluster))
    assert check_kernel(kernel, scope=ScopeKind.ALL).verdict is Verdict.PROVED
    load = next(s for s in walk(kernel.body) if isinstance(s, n.TmaLoad) and s.multicast is not None)

    def same_half(s: n.Stmt) -> tuple[n.Stmt, ...]:
        return (replace(s, dst=replace(s.dst, start=Int(0))),) if s == load else (s,)

    wrong = replace(kernel, body=flat_map(kernel.body, same_half))
    assert check_kernel(wrong).verdict is Verdict.REFUTED


def test_no_block_of_a_cluster_leaves_while_another_one_arrives_at_its_barriers() -> None:
    schedule = replace(MANY_TILES, tile_n=128, store="tma", cluster=2)
    whole = reparsed(build(product(), schedule))
    assert check_kernel(whole, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT).verdict is Verdict.PROVED
    *body, _, _ = whole.body
    report = check_kernel(replace(whole, body=tuple(body)), {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)
    assert "SV211" in {d.rule for d in report.diagnostics}


def test_one_warning_less_where_every_warp_arrives() -> None:
    def warnings(arrive: str) -> int:
        kernel = reparsed(build(product(), Schedule(128, 64, stages=2, arrive=arrive)))  # type: ignore[arg-type]
        return len(check_kernel(kernel, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT).diagnostics)

    assert warnings("warp") == 0 < warnings("warpgroup")


def test_ptx_of_every_layout_is_proved_at_the_usual_sizes(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    for layout in ("KK", "MN"):
        program = CompiledMatmul(product(layout=layout), STAGED, cache=Cache(tmp_path)).program()
        values = {p.name: p.default for p in program.kernel.params if p.default is not None}
        assert program.check("ptx", values).verdict is Verdict.PROVED


def _mutants() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "checker" / "matmul_mutants.py"
    spec = importlib.util.spec_from_file_location("matmul_mutants", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_mutants_of_one_schedule_are_refuted() -> None:
    module = _mutants()
    kernel = reparsed(build(product(), ONE_TILE))
    found = list(module.mutants(kernel))
    assert len(found) > 25
    survivors = [m.what for m in found if module.judge(m.kernel)[0] is not Verdict.REFUTED]
    assert survivors == []


def test_lowering_writes_no_synchronization() -> None:
    from syncverify.matmul.lower import lower

    kinds = (n.MbarrierArrive, n.MbarrierWait, n.BarrierSync, n.WgmmaFence, n.WgmmaWait, n.FenceProxyAsync)
    assert not any(isinstance(s, kinds) for s in walk(lower(product(), STAGED).body))


def test_descriptors_and_steps() -> None:
    kernel = build(product(layout="MN"), ONE_TILE)
    (stmt,) = [s for s in walk(kernel.body) if isinstance(s, n.Wgmma)]
    text = "\n".join(Product(kernel, stmt).lines("a", "b", "1"))
    # panels of 64 columns by 64 steps lie 8 KiB apart, groups of 8 steps 1 KiB; 16 steps are 2 KiB
    assert "matrix_128B(a, 8192, 1024)" in text and "a + 128 * k16" in text and "b + 128 * k16" in text
    kernel = build(product(layout="KK"), ONE_TILE)
    (stmt,) = [s for s in walk(kernel.body) if isinstance(s, n.Wgmma)]
    text = "\n".join(Product(kernel, stmt).lines("a", "b", "1"))
    # rows of 128 bytes, 8 of them 1 KiB apart; 16 steps are 32 bytes
    assert "matrix_128B(a, 16, 1024)" in text and "a + 2 * k16" in text


def test_tensors_behind_maps_are_no_pointers() -> None:
    assert [t.name for t in pointers(build(product(), ONE_TILE))] == ["out"]
    assert pointers(build(product(), STAGED)) == ()
    assert "const __grid_constant__ tensor_map out_map" in emit(build(product(), STAGED))


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(96, 128),
        Schedule(128, 100),
        Schedule(512, 64),
        Schedule(256, 256, consumers=1),
        Schedule(stages=1),
    ],
)
def test_impossible_schedules(schedule: Schedule) -> None:
    with pytest.raises(InputError):
        schedule.check()


def test_blocks_of_a_cluster_tell_each_other_without_a_memory_fence() -> None:
    """Only copies are ordered by it: cta scope in practice, cluster scope where a text has to say so (K4)."""
    schedule = replace(MANY_TILES, tile_n=128, cluster=2)

    def scopes(policy: Policy) -> set[str]:
        statements = walk(build(product(), schedule, policy).body)
        return {s.scope for s in statements if isinstance(s, n.MbarrierArrive) and s.bar.rank is not None}

    assert scopes(Policy.PRACTICAL) == {"cta"} and scopes(Policy.STRICT) == {"cluster"}
    narrow = reparsed(build(product(), schedule))
    assert check_kernel(narrow, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT).verdict is Verdict.PROVED
    assert check_kernel(narrow, {}, Policy.STRICT, scope=ScopeKind.EXACT).verdict is Verdict.REFUTED
    assert "mbarrier.arrive.release.cta.shared::cluster" in emit(narrow)


@pytest.mark.parametrize("cluster", [1, 2])
def test_setting_up_while_the_grid_before_still_runs(cluster: int, tmp_path: Path) -> None:
    schedule = replace(MANY_TILES, tile_n=128, store="tma", cluster=cluster, dependent=True)  # type: ignore[arg-type]
    kernel = reparsed(build(product(), schedule))
    assert check_kernel(kernel, {}, Policy.PRACTICAL, scope=ScopeKind.EXACT).verdict is Verdict.PROVED
    late = replace(kernel, body=tuple(s for s in kernel.body if not isinstance(s, n.GridDepWait)))
    assert len(late.body) == len(kernel.body) - 1
    # the wait behind the roles: everything was read before it
    late = replace(late, body=(*late.body, n.GridDepWait()))
    report = check_kernel(reparsed(late), {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)
    assert "SV503" in {d.rule for d in report.diagnostics} and report.verdict is Verdict.REFUTED
    program = CompiledMatmul(product(), schedule, cache=Cache(tmp_path)).program()
    assert program.dependent and not CompiledMatmul(product(), MANY_TILES).program().dependent
    # a wait that some threads may go around does not make a dependent launch
    somewhere = n.If(Var("elected"), (n.GridDepWait(),))
    body = tuple(somewhere if isinstance(s, n.GridDepWait) else s for s in program.kernel.body)
    assert not replace(program, kernel=replace(program.kernel, body=body)).dependent


SIZES = {"M": 4096, "N": 4096, "K": 1024}


def test_products_of_many_tiles_are_proved_once(tmp_path: Path) -> None:
    """A product that chooses its schedule at the call: one proof is for all launches."""
    pytest.importorskip("cuda.bindings.nvrtc")
    chosen = Matmul(product(), cache=Cache(tmp_path)).compiled(SIZES)
    assert chosen.schedule.many_tiles and not chosen.schedule.proved_by_launch
    program, values = chosen.program(), chosen.launch_values(SIZES)
    program.require_proof(values)
    assert program.undecided == ()
    assert {r.scope.kind for r in program.proofs.values()} == {ScopeKind.ALL}


def test_tiles_that_are_shared_are_proved_launch_by_launch(tmp_path: Path) -> None:
    """There no proof for every size is tried: minutes."""
    pytest.importorskip("cuda.bindings.nvrtc")
    shared = Schedule(128, 64, stages=2, split_k=2, shares="any", registers=(40, 232))
    chosen = CompiledMatmul(product(), shared, cache=Cache(tmp_path), each_launch=True)
    program, values = chosen.program(), chosen.launch_values({"M": 256, "N": 256, "K": 512})
    program.require_proof(values)
    assert program.undecided == ("ir", "ptx")
    for stage in program.undecided:
        report = program.cache.proof(program.key, stage, values)
        assert report is not None and report.scope.kind is ScopeKind.EXACT
        assert program.cache.proof(program.key, stage, None) is None


def test_a_launch_that_is_not_proved_is_refused(tmp_path: Path) -> None:
    turns = replace(MANY_TILES, split_k=2, persistent=False)
    chosen = CompiledMatmul(product(), turns, cache=Cache(tmp_path), each_launch=True)
    whole = chosen.program()
    body = flat_map(whole.kernel.body, lambda s: () if isinstance(s, n.MbarrierWait) else (s,))
    broken = replace(whole, kernel=replace(whole.kernel, body=body))
    with pytest.raises(VerificationError):
        broken.require_proof(chosen.launch_values({"M": 128, "N": 128, "K": 128}))


ACC = Tensor("f32", ("M", "N"))
EPILOGUES = {
    "bias": trace(lambda acc, bias: (acc + bias).cast("bf16"), {"acc": ACC, "bias": Tensor("bf16", ("N",))}),
    "sum": trace(lambda acc, x: (acc + x).cast("bf16"), {"acc": ACC, "x": Tensor("bf16", ("M", "N"))}),
    "two results": trace(lambda acc: {"y": acc.cast("bf16"), "z": relu(acc)}, {"acc": ACC}),
}


@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(128, 64, stages=2, store="tma"),
        Schedule(128, 128, stages=2, store="tma", cluster=2, persistent=True),
        Schedule(128, 128, stages=2, store="tma", persistent=True, pingpong=True, registers=(40, 232)),
    ],
    ids=["staged", "cluster", "pingpong"],
)
def test_one_elected_lane_represents_all(epilogue: str, schedule: Schedule) -> None:
    """A register of an epilogue once had the name of a loop of the elected lane: 32 lanes were proved."""
    problem = Problem("p", "bf16", "KK", EPILOGUES[epilogue])
    kernel = build(problem, schedule)
    values = CompiledMatmul(problem, schedule).launch_values({"M": 512, "N": 512, "K": 512})
    found = elections(kernel, {}, Grid.of(kernel, values))
    assert not found.by_number and not found.pairs
