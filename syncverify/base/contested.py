"""The contested points: questions on which NVIDIA's own sources disagree, and how each policy answers.

docs/model.md prints this table; reports and ``explain`` quote it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contested:
    """One question, with what each policy accepts."""

    id: str
    question: str
    practical: str
    strict: str


_ROWS = (
    (
        "K1",
        "generic read, then a bulk write to the same bytes",
        "proxy fence, or values that reached memory before the release, or fence.acq_rel",
        "proxy fence",
    ),
    (
        "K2",
        "which thread fences",
        "any fence on the path in the block, by every writer or by one that knows of them all",
        "every accessing thread",
    ),
    (
        "K3",
        "fence across blocks",
        "either side",
        "release and acquire halves, or the block of the async access",
    ),
    (
        "K4",
        "scope of remote arrivals",
        "cta accepted where the edge only protects copies from each other",
        "cluster at both ends",
    ),
    ("K5", "one async proxy per cluster?", "yes", "yes, in shared memory"),
    (
        "K6",
        "cp.async, then wgmma or TMA without a fence",
        "warning; error on sm_100 and its family, where it failed",
        "error",
    ),
    ("K7", "does wgmma.fence cover shared memory", "registers only", "registers only"),
    (
        "K8",
        "who reads and who may release wgmma operands",
        "a warp reads its own rows of A; one arrive after the wait, for reads that arrived before it too",
        "each warp reads all of A; every reading warp, or a barrier",
    ),
    ("K9", "overwriting after wait_group.read", "accepted", "accepted"),
    ("K10", "proxy fence after mbarrier.init", "not needed", "not needed"),
    ("K11", "expect after the copy's issue", "legal if before the thread's arrive", "the same"),
    ("K12", "bytes of a box partly outside", "full box", "full box"),
    ("K13", "bar.sync in role branches", "converged warps suffice", "the same"),
    ("K14", "must a phase be observed", "only if B21 also fails", "error (SV207)"),
    ("K15", "wait, then wgmma", "ordered", "ordered"),
    (
        "K16",
        "TMA store, then a consumer in another block",
        "full wait and release",
        "of a consumer that is a bulk copy also a fence in its block, after the acquire",
    ),
    ("K18", "inval at the kernel's end", "exempt", "exempt"),
    ("K19", "cta-scope wait on a copy's completion", "accepted for the copy's bytes", "accepted"),
    ("K20", "fence.sc", "at least acq_rel", "the same"),
    ("K21", "bulk stores at exit", "must be read (`.read`)", "must be read"),
    (
        "K22",
        "threads that exit before a barrier without a count",
        "not waited for; lanes of a warp that goes on: warning",
        "whole warps are not waited for; lanes of a warp that goes on: error",
    ),
    (
        "K23",
        "shfl, vote, match, redux, mma whose mask names lanes that do not come",
        "error; lanes that have left are not waited for (warning), but by mma",
        "the same",
    ),
    ("K24", "wgmma in flight when its threads exit", "warning", "error"),
    ("K25", "mov into a register of a wgmma in flight, or between its fence and it", "warning", "error"),
    (
        "K26",
        "all threads fence, meet at a block barrier, and one signals by a relaxed write",
        "releases what was fenced; an assumption of the report",
        "releases what came before the signalling thread's own fence",
    ),
    (
        "K27",
        "lanes of a warp that come to shfl, vote, match or redux at two lines",
        "they meet by the same qualifiers and mask; proved where what they bring is only stored",
        "the same",
    ),
    (
        "K28",
        "the first guess of a loop that repeats a cas is a plain load",
        "harmless where it goes nowhere but to the cas; an assumption of the report",
        "a race",
    ),
)

#: Every contested point by id.
CONTESTED: dict[str, Contested] = {row[0]: Contested(*row) for row in _ROWS}
