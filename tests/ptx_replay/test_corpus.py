"""Witnesses of PTX and CUDA kernels step through the simulator, and good kernels do no harm there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Claim, KernelReport, Policy, Replayed, ScopeKind, Verdict, Witness
from syncverify.base.source import InputError
from syncverify.driver.files import SourceFile, check_source, read_source
from syncverify.frontends.cuda.options import CudaOptions
from syncverify.frontends.launch_facts import default_path, read_facts
from syncverify.ptx_replay import Unrolled, unroll
from syncverify.simulate.ir import ReplayResult, replay, sample
from tests.corpus.entries import CORPUS, wrong_ptx
from tests.frontends.cuda.entries import CudaEntry, entries
from tests.simulate.ptx.test_corpus import FILES as SECOND_READER

PTX = sorted((CORPUS / "ptx").glob("*.ptx"))
BAD = wrong_ptx()
GOOD = [p for p in PTX if ".good." in p.name]
CUDA = entries()
#: What the front end knows from addresses alone: the simulator is not asked.
FAULTS = {
    "async_store.bad.ptx": "SV208",
    "generic_without_cvta.bad.ptx": "SV114",
    "one_thread_one_row.cu": "SV114",
    "row_behind_header.bad.ptx": "SV701",
}
#: setmaxnreg (SV304) is undefined in every schedule; the witness's own order does no harm of its rule.
OTHER_RULE = {"v4_idle_warps_leave.cu", "v5_full_barrier_per_warp.cu"}

_MAPS = "no statement of the IR edits the bytes of a tensor map in shared memory"
_TILES = "the IR has barriers of the hardware alone, 0 to 15, and none of a tile"
_LAST = "the simulator keeps the last write of a byte: an atomic hides the store under it"
#: What the IR or its simulator cannot say. The second reader judges these (tests/simulate/ptx).
BEYOND = {
    "count_before_clear.bad.ptx": _LAST,
    "count_where_positive.bad.ptx": _LAST,
    "map_acquire.bad.ptx": _MAPS,
    "map_acquire.good.ptx": _MAPS,
    "map_edit.bad.ptx": _MAPS,
    "map_edit.good.ptx": _MAPS,
    "one_map.good.ptx": _MAPS,
    "one_value_of_two_warps.good.ptx": "statements hold no values that two stores share",
    "packed_atomics.bad.ptx": _LAST,
    "poll_fence.good.ptx": "no statement of the IR is a signal",
    "relaxed_word.good.ptx": "no load of the IR is strong",
    "tile_of_two_warps.good.ptx": _TILES,
    "tile_reduction.good.ptx": _TILES,
    "token_of_another_barrier.bad.ptx": "the simulator does not ask whose token it is",
    "value_of_the_turn.good.ptx": "statements hold no values that two stores share",
    "wgmma_operands.bad.ptx": "the simulator does not compare the operands of the four warps",
}


def _judged(path: Path) -> None:
    """Skips a kernel that only the second reader judges, having made sure that it does."""
    if path.name in BEYOND:
        assert path in SECOND_READER
        pytest.skip(BEYOND[path.name])


def _checked(path: Path, sizes: dict[str, int] | None = None, prelude: str | None = None,
             policy: Policy = Policy.PRACTICAL) -> tuple[SourceFile, KernelReport]:  # fmt: skip
    source = read_source(path, CudaOptions(prelude=prelude))
    (report,) = check_source(
        source, facts=read_facts(default_path(path)), values=sizes or {}, policy=policy, repairs=False
    )
    return source, report


def _unrolled(source: SourceFile, witness: Witness) -> Unrolled:
    assert source.module is not None
    return unroll(source.module, read_facts(default_path(Path(source.path))), witness)


def _replayed(source: SourceFile, report: KernelReport) -> ReplayResult:
    assert report.witness is not None
    u = _unrolled(source, report.witness)
    return replay(u.witness, u.kernel)


def _by_an_input(report: KernelReport) -> bool:
    """Whether a kernel is refuted by an input that was drawn: the second reader has executed it."""
    if report.verdict is not Verdict.REFUTED or report.witness is not None:
        return False
    assert report.replay is not None and report.replay.outcome is Replayed.REPRODUCED
    return True


def _harms(source: SourceFile, report: KernelReport) -> list[str]:
    """What goes wrong in some random schedules."""
    assert report.verdict is Verdict.PROVED
    values = dict(report.scope.values)
    witness = Witness(Claim.UB, "", "", (), kernel=report.name, file=source.path, values=values)
    return [f"{h.rule} {h.message}" for h in sample(_unrolled(source, witness).kernel, runs=10).harms]


@pytest.mark.parametrize("path", [p for p in BAD if p.name not in FAULTS], ids=lambda p: p.stem)
def test_ptx_witness_replays(path: Path) -> None:
    _judged(path)
    source, report = _checked(path)
    if _by_an_input(report):
        return
    result = _replayed(source, report)
    assert result.reproduced, result.reason


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_good_ptx_does_no_harm(path: Path) -> None:
    _judged(path)
    assert _harms(*_checked(path)) == []


@pytest.mark.parametrize("entry", CUDA, ids=lambda e: e.path.stem)
def test_cuda(entry: CudaEntry) -> None:
    source, report = _checked(entry.path, dict(entry.sizes), entry.prelude)
    if report.verdict is Verdict.PROVED:
        assert _harms(source, report) == []
    elif entry.path.name not in FAULTS:
        result = _replayed(source, report)
        assert result.reproduced, result.reason
        assert result.reason.endswith("(SV304)") == (entry.path.name in OTHER_RULE)


RED = sorted((Path(__file__).parents[1] / "frontends" / "ptx" / "red").glob("*.ptx"))


#: Faults that the front end sees by itself.
EARLY = {"copy_before_the_first_variable.ptx", "vector_misaligned.ptx", "warp_barrier_misses_a_lane.ptx"}


#: Its check takes seconds; tests/frontends/ptx/red has it replayed by the second reader.
SELDOM = {"spin_counts_turns.ptx"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, marks=pytest.mark.slow if p.name in SELDOM else (), id=p.stem)
        for p in RED
        if p.name not in EARLY
    ],
)
def test_adversarial_ptx(path: Path, tmp_path: Path) -> None:
    """Whatever is refuted replays, and what is proved does no harm."""
    block = re.search(r"^// block: (\d+)$", path.read_text("utf-8"), re.M)
    assert block is not None
    facts_file = tmp_path / "launch.toml"
    facts_file.write_text(f"[kernel.k]\ngrid = [1]\nblock = [{block[1]}]\n")
    source, facts = read_source(path), read_facts(facts_file)
    assert source.module is not None
    (report,) = check_source(source, facts=facts, repairs=False)
    if report.verdict is Verdict.UNKNOWN:
        assert report.witness is None
        return
    if _by_an_input(report):
        return
    values = dict(report.scope.values)
    clean = Witness(Claim.UB, "", "", (), kernel=report.name, file=source.path, values=values)
    u = unroll(source.module, facts, report.witness or clean)
    if report.verdict is Verdict.PROVED:
        assert not sample(u.kernel, runs=10).harms
    else:
        result = replay(u.witness, u.kernel)
        assert result.reproduced, result.reason


def test_a_fault_of_addresses_is_named() -> None:
    source, report = _checked(CORPUS / "ptx" / "async_store.bad.ptx")
    with pytest.raises(InputError, match=r"bad\.ptx:80: SV208 is known before the simulator"):
        _replayed(source, report)


def test_no_claim_comes_true_in_a_good_kernel() -> None:
    """The bad kernel's witness, told of the good one."""
    _, bad = _checked(CORPUS / "ptx" / "one_fence.bad.ptx")
    source, good = _checked(CORPUS / "ptx" / "one_fence.good.ptx")
    assert bad.witness is not None
    values = dict(good.scope.values)
    claim = Witness(
        bad.witness.claim, bad.witness.rule, "", (), kernel=good.name, file=source.path, values=values
    )
    u = _unrolled(source, claim)
    assert not replay(u.witness, u.kernel).reproduced


def test_other_launch_values_are_not_the_witness_s() -> None:
    source, report = _checked(CORPUS / "ptx" / "bulk_ring.bad.ptx")
    assert report.witness is not None
    values = {k: v + 1 for k, v in report.witness.values.items()}
    assert values
    with pytest.raises(InputError, match="no launch of bulk_ring is the witness's"):
        _unrolled(source, replace(report.witness, values=values))


def test_sizes_left_open_come_from_the_witness() -> None:
    entry = next(e for e in CUDA if e.path.name == "v7_shared_barrier_count_1.cu")
    source = read_source(entry.path, CudaOptions(prelude=entry.prelude))
    (report,) = check_source(
        source, facts=read_facts(default_path(entry.path)), scope=ScopeKind.ALL, repairs=False
    )
    assert _replayed(source, report).reproduced
