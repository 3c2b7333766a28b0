"""What ``explain`` and docs/rules.md say of every rule: why it matters, how to fix it, and its examples.

The examples are kernels in ``examples/rules``: ``<id>.bad.syncir`` breaks the rule, ``<id>.good.syncir``
is the same kernel mended. A test proves and refutes every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files

from syncverify.base.rules import RULES, Rule
from syncverify.base.source import InputError


@dataclass(frozen=True, slots=True)
class Explanation:
    """One rule, explained. ``bad`` and ``good`` are the texts of kernels, None where a rule has none."""

    rule: Rule
    why: str
    fix: str
    bad: str | None
    good: str | None


# id: (why, fix)
_TEXTS: dict[str, tuple[str, str]] = {
    "SV101": (
        "Ordinary stores, cp.async and st.async write through the generic proxy; bulk copies, TMA and "
        "wgmma read through the async proxy, and may see what was there before, even after a barrier. On "
        "an H200 the same missing fence gave no wrong word in one kernel and a fifth of the words wrong "
        "in another.",
        "Let every thread that wrote execute fence.proxy.async.shared_cta after its last write and before"
        " the barrier or arrive that hands the data over.",
    ),
    "SV102": (
        "A proxy fence covers what its thread knew when it executed the fence. Writes that come after it,"
        " or writes of threads whose stores it does not know of, are not covered, so the async proxy may "
        "miss them.",
        "Move the fence behind the last access of every writing thread and before the hand-over; or let "
        "the issuer execute it after the hand-over.",
    ),
    "SV103": (
        "The suffix of fence.proxy.async names the state space whose accesses it bridges. A fence for "
        "global memory does nothing for data in shared memory, and the reverse.",
        "Name the space of the data: fence.proxy.async.shared_cta for the block's own shared memory.",
    ),
    "SV104": (
        "A bulk store reads its shared source some time after it was issued. Only the wait of the thread "
        "that committed the group shows that the read is over, and only a barrier after it tells the "
        "other threads.",
        "Let the issuing thread execute bulk.wait.read (0, or the number of newer groups that use other "
        "buffers), then a barrier, before anyone overwrites the source.",
    ),
    "SV105": (
        "A thread that has read a buffer generically and released it may still have the load in flight "
        "when the next bulk copy lands: the read returns the next tile. Measured on an H200: 1% to 5% of "
        "the words through an mbarrier, fewer through a block barrier, none with a proxy fence. Sums do "
        "not help: ptxas moves arithmetic and shuffles behind the release.",
        "Execute fence.proxy.async.shared_cta (practical policy: fence.acq_rel.cta too) between the reads "
        "and the release, or store what is computed from the values before the release.",
    ),
    "SV110": (
        "Nothing makes the read wait for the write it depends on, so it may return older data. For data "
        "that an async copy writes, only the wait on its mbarrier (or group) counts.",
        "Put a barrier, or the wait on the copy's mbarrier, between the write and the read.",
    ),
    "SV111": (
        "The write may overtake a read of the old value: the reader gets data of the next round.",
        "Let the readers arrive on a barrier that the writer waits for (an empty barrier of the stage, or"
        " a block barrier) before the bytes are written again.",
    ),
    "SV112": (
        "Two writes to the same bytes are in no order, so either may be the one that lasts. Two copies in"
        " flight to one buffer count as well.",
        "Give the writers disjoint bytes, or order them by a barrier or by the completion of the first copy.",
    ),
    "SV114": (
        "The access leaves the buffer it names and touches its neighbour, or memory that the block does "
        "not have.",
        "Mend the index or the count, or make the buffer larger.",
    ),
    "SV115": (
        "A release or acquire at cta scope promises nothing to threads of another block; at cluster "
        "scope, nothing beyond the cluster. The other side may see the flag and still read old data.",
        "Use the scope that contains both sides: cluster for peers of the cluster, gpu for other blocks.",
    ),
    "SV201": (
        "A parity tells only odd phases from even ones. A waiter that may be two phases behind, or one "
        "ahead, mistakes one phase for another: it passes too early, or sleeps for ever.",
        "Let every waiter see phase k before anything that completes phase k + 1 can happen: make the "
        "next arrival depend on the waiter (an empty barrier, a barrier between the phases).",
    ),
    "SV202": (
        "An mbarrier's phase completes when exactly as many arrivals came as its init announced. Fewer, "
        "and the waiters sleep; more, and the surplus counts into the next phase, or the count "
        "underflows.",
        "Count who really arrives: every lane that executes the arrive counts, elected or not, and so do "
        "threads that fall into the branch unintended.",
    ),
    "SV203": (
        "A phase stays open until the announced bytes are exactly the bytes that copies complete. Too "
        "many announced, and it never completes; too few, and it completes before the data is there.",
        "Announce the bytes that the copies of this phase move: the full box of each copy, times the "
        "copies that are really issued.",
    ),
    "SV204": (
        "An mbarrier is ordinary memory until its init is visible. A thread that arrives or waits earlier"
        " works on whatever the bytes held.",
        "One thread initializes; then a block barrier. In a cluster: fence.mbarrier_init by the same "
        "thread, then cluster.arrive and cluster.wait.",
    ),
    "SV205": (
        "After inval the bytes are no barrier any more. An arrive, a wait or a copy's completion that may"
        " come later, or at the same time, is undefined; so is initializing a live barrier again. Where all"
        " lanes of a warp execute one init before any use, each stores what is there: only the strict policy"
        " insists.",
        "Order every use before the inval (a barrier among all users), or leave the inval out at the "
        "kernel's end.",
    ),
    "SV206": (
        "When the last arrival comes while no byte is announced, the phase completes at once. Bytes that "
        "are announced or land later belong to the next phase, and the waiters read an unfinished tile.",
        "Announce together with the arrival (mbarrier.arrive.expect_tx), or before it in the same thread.",
    ),
    "SV207": (
        "PTX asks that some thread observes the completion of a phase before anyone arrives for the next "
        "one. Where nobody ever waits this does no harm, so only the strict policy insists.",
        "Wait for the phase before the next arrive, or drop the barrier.",
    ),
    "SV208": (
        "A barrier object may be touched by mbarrier operations only, and init, inval and waits work only"
        " in the block that owns it. Anything else is undefined.",
        "Keep data away from the barrier's bytes; wait on a barrier of the own block and let the peer "
        "arrive on it remotely.",
    ),
    "SV209": (
        "test_wait and try_wait may return false although nothing is wrong, try_wait after a time limit "
        "too. Code that goes on regardless reads data that is not there yet.",
        "Loop until the poll returns true (mbarrier.wait), or branch on its result.",
    ),
    "SV210": (
        "The threads named wait for something that nobody can supply any more. The report says what "
        "arrived on the barrier, what is missing, and why it cannot come.",
        "Most often: the parity of the first wait (a producer starts with 1, a consumer with 0), a parity"
        " that is not flipped once per wrap, or trip counts of the two sides that differ.",
    ),
    "SV211": (
        "A block's shared memory is given to another block when its last thread leaves. A bulk store that"
        " still reads it, or a peer that still writes to it, then touches someone else's data.",
        "Let the issuing thread drain its groups (bulk.wait.read 0) before it leaves; let blocks of a "
        "cluster meet at a cluster barrier before the first of them exits.",
    ),
    "SV212": (
        "The barrier was told to expect bytes of a copy that no thread ever issues, mostly since its "
        "predicate is never true. The phase cannot complete.",
        "Mend the predicate of the copy, or announce only what is issued.",
    ),
    "SV301": (
        "All participants of a named barrier must name the same number of threads, a multiple of 32, and "
        "arrive once each. With different counts, or a warp missing or arriving twice, it hangs or lets "
        "threads through early.",
        "Give every participant the same id and count, and count the warps that really come.",
    ),
    "SV302": (
        "A barrier of the whole block, or cluster, waits for every thread of it. Threads that take "
        "another branch, or have left, never come.",
        "Move the barrier to where all threads pass, or use a named barrier for the threads of the branch.",
    ),
    "SV303": (
        "elect, wgmma, setmaxnreg, ldmatrix and aligned barriers are instructions of a whole warp or "
        "warpgroup. Executed by part of it, they are undefined.",
        "Execute them where the warp is converged, and put only what follows under the predicate.",
    ),
    "SV304": (
        "setmaxnreg moves registers between warpgroups and a pool. Every warp of a warpgroup must execute"
        " the same instruction, and an inc blocks until the pool can serve it: what others never give "
        "back is never there.",
        "Let dec give back enough first: the registers of all warpgroups together must fit the launch. "
        "One setmaxnreg for each warpgroup, in one place.",
    ),
    "SV401": (
        "wgmma works on its accumulator and its A registers after the instruction was issued. Until a "
        "wgmma.wait covers it, reading them gives unfinished sums, and writing them corrupts the "
        "operation.",
        "Commit the group and wait for it before the registers are touched.",
    ),
    "SV402": (
        "Nothing but wgmma.fence orders wgmma behind the other accesses of its registers: what was written "
        "since the last one may not have arrived, and what was read may be overwritten before.",
        "Execute wgmma.fence after the last access and before the first wgmma.mma; back-to-back operations"
        " of one shape on one accumulator need none between them.",
    ),
    "SV403": (
        "bulk.wait and cp.async.wait know only the groups of the thread that executes them. In another "
        "thread they return at once, and nothing was waited for.",
        "Let the thread that issued and committed the copies wait, then a barrier for the others.",
    ),
    "SV501": (
        "bulk.wait.read says that the source was read, not that the data has reached global memory. A "
        "flag that is released then lets another block read old data.",
        "Wait for the whole operation (bulk.wait 0) before the release.",
    ),
    "SV502": (
        "Tensor maps are read through a proxy of their own. After an edit, a block that has not executed "
        "the acquire for that map may copy by the old one; an edit under a copy in flight is undefined.",
        "Edit, release, then fence.proxy.tensormap.acquire in every block before its next use; drain "
        "earlier uses before the edit.",
    ),
    "SV503": (
        "A grid of a programmatic launch may start before the earlier grid has finished. Only "
        "griddep.wait shows that its results are there.",
        "Move the first access to the earlier grid's results behind griddep.wait.",
    ),
    "SV504": (
        "A generic atomic and a TMA reduction go through different proxies and are not atomic with each "
        "other: an update may be lost.",
        "Use one kind for an address, or order the two.",
    ),
    "SV601": (
        "A fence for all spaces also waits for traffic that does not matter. On an H200 a loop of 16 KiB "
        "stores took 0.191 ms with the fence for all spaces and 0.140 ms with the one for shared memory.",
        "Name the space of the data.",
    ),
    "SV602": (
        "The kernel is proved without this synchronization too: it only costs time.",
        "Remove it.",
    ),
    "SV603": (
        "The fence stands in a loop although what it covers does not change there.",
        "Move it in front of, or behind, the loop.",
    ),
    "SV604": (
        "Warps execute the fence that touched nothing it covers: the kernel is proved without theirs.",
        "Put it under the predicate of the accesses that it covers.",
    ),
    "SV605": (
        "A warp-collective operation under a predicate that the compiler cannot see to be the same in all"
        " lanes gets extra code, and is undefined once the lanes differ. A proxy fence under a predicate on"
        " single threads diverges the warp around it.",
        "Derive the predicate from the warp's index or from elect.",
    ),
    "SV606": (
        "The wait drains more groups than its consumer needs, so copies that could overlap do not.",
        "Raise the number of groups that may stay pending.",
    ),
    "SV701": (
        "Bulk and TMA copies need addresses and sizes in multiples of 16 bytes, tensor copies a shared "
        "address in multiples of 128 (more with a swizzle). The hardware faults or scrambles the data.",
        "Align the buffers and copy whole multiples of 16 bytes; handle the rest with ordinary loads.",
    ),
    "SV901": (
        "The kernel uses something that this version does not analyse, control that depends on loaded "
        "data for example. The verdict is unknown, never proved.",
        "Rewrite that part, or check the kernel by other means.",
    ),
    "SV902": (
        "The tool could not decide, for want of a launch value, or within its budget. The message names "
        "which.",
        "Give the value it names, or make the kernel smaller.",
    ),
    "SV903": (
        "A comment that silences a finding silences nothing: the finding is gone, or is an error, and errors "
        "stay.",
        "Remove the comment, or mend the error.",
    ),
    "SV905": (
        "Nothing in the kernel can hang or race in the sense of these rules. Where it was compiled from "
        "CUDA, the compiler may have removed shared memory and barriers, because nothing reads what they "
        "order. The verdict is of what it left.",
        "If the source has shared accesses or barriers, store what they compute, and compile again.",
    ),
    "SV906": (
        "A fault of the tool ended the check of this kernel. Its verdict is unknown, and the other kernels "
        "have theirs.",
        "Report it, with the kernel if you can. SYNCVERIFY_TRACEBACK=1 shows where in the tool it happened.",
    ),
    "SV907": (
        "The check of this kernel used up its time or memory. The verdict is unknown; what was found until "
        "then is shown.",
        "Give sizes in a launch file, raise --timeout or --max-memory, or make the kernel smaller.",
    ),
    "SV908": (
        "The refutation is for a size of 0 or 1, and the check of all larger sizes gave a proof. Many "
        "kernels are never launched so small, but nothing in their text says so.",
        "State it with an assume line, which the report then lists; or leave the kernel early for such "
        "sizes.",
    ),
    "SV909": (
        "Neither the text nor a launch file says how many threads a block has. Usual blocks were tried, and "
        "they do not agree, so the verdict is unknown. The note says what holds with them.",
        "Give the block of the launch in a launch file, or state it in the text (__launch_bounds__, "
        ".reqntid).",
    ),
}


def explanation(rule: str) -> Explanation:
    """The explanation of a rule, by id or name in any case; InputError suggests the closest one."""
    by_key = {r.id.lower(): r.id for r in RULES.values()} | {r.name: r.id for r in RULES.values()}
    found = by_key.get(rule.strip().lower())
    if found is None:
        close = get_close_matches(rule.strip().lower(), by_key, 1, 0.5)
        hint = f"did you mean {RULES[by_key[close[0]]].id} {RULES[by_key[close[0]]].name}?" if close else ""
        raise InputError(f"no rule {rule!r}{': ' + hint if hint else ''}")
    why, fix = _TEXTS[found]
    return Explanation(RULES[found], why, fix, example(found, "bad"), example(found, "good"))


def example(rule: str, kind: str) -> str | None:
    """The text of a rule's ``bad`` or ``good`` kernel, without its expectation comments; None without one."""
    resource = files("syncverify.examples") / "rules" / f"{rule}.{kind}.syncir"
    if not resource.is_file():
        return None
    lines = resource.read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("// ")) + "\n"
