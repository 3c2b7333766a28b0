"""The rules: ids (for ever), names (what is wrong) and one-line summaries. Imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    name: str
    summary: str


_TABLE = """
SV101 missing-proxy-fence: generic writes reach an async-proxy access without fence.proxy.async
SV102 misplaced-proxy-fence: the proxy fence does not stand between the last generic access and the hand-over
SV103 wrong-space-proxy-fence: the proxy fence names another state space than the data's
SV104 source-overwritten-in-flight: the source of an async copy is overwritten before its read was waited for
SV105 unfenced-read-before-async-write: an async write may overtake generic reads that no proxy fence follows
SV110 race-raw: a read is not ordered after the write it depends on
SV111 race-war: a write is not ordered after the reads before it
SV112 race-waw: two writes to the same bytes are not ordered
SV114 shared-out-of-bounds: an access leaves its shared buffer
SV115 scope-too-narrow: the synchronization's scope does not include both sides
SV201 phase-aliasing: a parity wait can mistake one phase for another
SV202 arrival-count-mismatch: the arrivals of a phase differ from the barrier's count
SV203 transaction-count-mismatch: expected bytes and copied bytes of a phase differ
SV204 barrier-used-before-init: an mbarrier is used before its initialization is visible
SV205 barrier-used-after-inval: an mbarrier is used after, or concurrently with, its invalidation or reuse
SV206 premature-phase-completion: a phase can complete before all its bytes were announced
SV207 unobserved-phase: nobody waits for a phase before the next one's arrivals
SV208 illegal-barrier-access: a plain, remote or unmapped access to an mbarrier object
SV209 ignored-poll: the result of a single test_wait or try_wait is ignored
SV210 deadlock: an agent waits for ever
SV211 in-flight-at-exit: a block leaves with asynchronous work in flight
SV212 never-issued-copy: bytes are announced, but no path issues the copy
SV301 barrier-mismatch: participants of a named barrier disagree on count or id, or a warp is missing
SV302 barrier-divergence: threads that must meet at a barrier take different paths
SV303 aligned-instruction-divergence: an instruction of the whole warp or warpgroup is executed by part of it
SV304 register-pool: setmaxnreg is split, out of range, or asks for more registers than the pool can give
SV401 accumulator-read-in-flight: wgmma registers are touched before a wait covers the operation
SV402 missing-wgmma-fence: wgmma registers were touched since the last wgmma.fence
SV403 wait-by-non-issuer: a group wait is executed by a thread that issued nothing
SV501 release-before-async-complete: a flag is released before the async global write is complete
SV502 stale-tensormap: a tensor map is used without acquire, or edited while in use
SV503 early-dependent-read: memory of an earlier grid is read before griddepcontrol.wait
SV504 mixed-atomicity: a generic atomic and a TMA reduction meet on the same address
SV601 wider-fence-than-needed: a narrower proxy fence suffices
SV602 redundant-sync: removing this synchronization changes no verdict
SV603 hoistable-fence: the fence may stand outside the loop
SV604 unpredicated-fence: more threads execute the fence than need to
SV605 non-uniform-predicate: a warp-collective operation stands under a predicate that is not warp-uniform
SV606 drain-more-than-needed: a group wait drains more than its consumer needs
SV701 alignment-or-size: an address or size breaks the instruction's alignment rules
SV901 unsupported: the tool does not analyse this construct
SV902 undecided: the tool could not decide within its budget
SV903 unused-suppression: a suppression comment matches nothing
SV905 nothing-to-check: the kernel has no shared access, barrier or asynchronous operation
SV906 internal-fault: the tool failed on this kernel; the others are not affected
SV907 out-of-budget: the check of this kernel took more time or memory than it may
SV908 small-size-only: the kernel goes wrong for the smallest numbers of a size alone
SV909 usual-block: nothing gives the kernel's block; what holds with a usual one
"""

#: Every rule by id.
RULES: dict[str, Rule] = {
    row.split(" ", 1)[0]: Rule(row.split(" ", 1)[0], *row.split(" ", 1)[1].split(": ", 1))
    for row in _TABLE.strip().splitlines()
}
