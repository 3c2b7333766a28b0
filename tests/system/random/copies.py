"""Data on its way out of shared memory, into it by cp.async, and between lanes through mbarriers."""

from __future__ import annotations

import random

from tests.system.random.program import Item, Program, block, lines

PROXY = "fence.proxy.async.shared_cta"

STORE_BUGS = (
    "no-fence", "early-fence", "wrong-space", "issuer-fences", "one-fences", "no-read-wait",
    "late-wait", "wait-elsewhere", "no-commit", "pending-one", "no-meeting-before-write",
    "no-meeting-after-write", "no-tail", "overwrite-after-store", "read-wait-last",
    "divergent-meeting",
)  # fmt: skip


def store(rng: random.Random, bug: str) -> Program:
    """Lanes write a tile, one of them stores it, round and round (rulebook D8)."""
    writers = 2 if bug in ("one-fences", "wait-elsewhere", "divergent-meeting") else rng.choice([1, 2, 3])
    apart = rng.random() < 0.5
    issuer = 32 if apart else 0
    threads = 33 if apart else max(writers, 2 if bug == "wait-elsewhere" else 1)
    stages = 2 if bug == "pending-one" else rng.choice([1, 1, 2])
    trips = stages + rng.choice([1, 1, 2]) if bug != "none" else rng.choice([1, 2, 3])
    stage = f"i % {stages}" if stages > 1 else "0"
    share = 4
    keep = stages - 1 + (1 if bug == "pending-one" else 0)
    drained = f"bulk.wait.read {keep}"
    who = f"if tid == {issuer}"
    drain: list[Item] = [block(who, drained)]
    if bug == "no-read-wait":
        drain = []
    elif bug == "wait-elsewhere":
        drain = [block(f"if tid == {1 if issuer == 0 else 0}", drained)]
    meet1, meet2 = "bar.sync 0", "bar.sync 0"
    fence: list[Item] = [PROXY]
    put: list[Item] = [f"st.shared tile[{stage}][tid * {share} : {share}], 1.0"]
    if rng.random() < 0.3:
        put = [f"st.shared tile[{stage}][tid * {share} + {h} : 2], 1.0" for h in (0, 2)]
    fill = lines(put, fence)
    ship: list[Item] = [
        f"bulk.store out[0 : {writers * share}], tile[{stage}][0 : {writers * share}]",
        "bulk.commit",
    ]
    if stages == 1 and rng.random() < 0.3:
        ship[0] = f"tma.store A[0, 0], tile[{stage}]"
    elif rng.random() < 0.2:
        ship[0] = str(ship[0]).replace("bulk.store", "bulk.reduce.add")
    if bug == "no-fence":
        fill = put
    elif bug == "early-fence":
        fill = lines(fence, put)
    elif bug == "wrong-space":
        fill = lines(put, "fence.proxy.async.global")
    elif bug == "issuer-fences":
        fill, ship = put, [PROXY, *ship]
    elif bug == "one-fences":
        fill = lines(put, block("if tid == 0", fence))
    elif bug == "no-commit":
        ship = ship[:1]
    elif bug == "overwrite-after-store":
        ship = [*ship, f"st.shared tile[{stage}][0 : 4], 2.0", PROXY]
    if bug == "no-meeting-before-write":
        meet1 = ""
    if bug == "no-meeting-after-write":
        meet2 = ""
    body = lines(drain, meet1, block(f"if tid < {writers}", fill), meet2, block(who, ship))
    if bug == "late-wait":
        body = lines(meet1, drain, block(f"if tid < {writers}", fill), meet2, block(who, ship))
    if bug == "divergent-meeting":
        body = lines(
            drain, meet1, block(f"if tid < {writers}", fill), block("if tid == 0", meet2), block(who, ship)
        )
    tail: list[Item] = [block(who, rng.choice(["bulk.wait.read 0", "bulk.wait 0"]))]
    if bug == "no-tail":
        tail = []
    elif bug == "read-wait-last":
        tail = [block(f"if tid == {1 if issuer == 0 else 0}", "bulk.wait.read 0")]
        threads = max(threads, 2)
    header = [
        f"launch block [{threads}]",
        f"tensor out : f32[1, {writers * share}] out",
        f"tensormap A of out box [1, {writers * share}]",
        f"shared tile : f32[{stages}, {writers * share}] align 128",
    ]
    return Program("store", header, [block(f"for i in 0..{trips}", body), *tail], bug)


CPASYNC_BUGS = (
    "no-wait", "no-meeting", "no-commit", "pending-one", "default-arrival", "noinc-unbudgeted",
    "no-fence", "wait-elsewhere", "overwrite", "twice",
)  # fmt: skip


def cpasync(rng: random.Random, bug: str) -> Program:
    """Lanes copy with cp.async; all of them, or one, read what came (rulebook R6, R7)."""
    lanes = rng.choice([1, 2, 2, 3])
    by_barrier = bug in ("default-arrival", "noinc-unbudgeted") or (bug == "none" and rng.random() < 0.4)
    tiles = 2 if bug == "pending-one" else rng.choice([1, 2])
    copies: list[Item] = []
    for t in range(tiles):
        copies += [f"cp.async tile[{t}][tid * 4 : 4], a[tid * 4 : 4]", "cp.async.commit"]
    if bug == "twice":
        copies.insert(1, "cp.async tile[0][tid * 4 : 4], a[tid * 4 : 4]")
    wait = rng.choice(["cp.async.wait 0", "cp.async.wait_all"])
    if bug == "no-wait":
        wait = ""
    elif bug == "pending-one":
        wait = "cp.async.wait 1"
    elif bug == "no-commit":
        copies = [c for c in copies if c != "cp.async.commit"]
        wait = "cp.async.wait 0"
    reader = 33
    out = 4 * lanes
    last = tiles - 1
    use = lines(f"ld.shared x, tile[{last}][0 : {out}]", f"st.global out[0 : {out}], x")
    if bug == "no-fence" or rng.random() < 0.3:
        use = lines(f"bulk.store out[0 : {out}], tile[{last}][0 : {out}]", "bulk.commit", "bulk.wait.read 0")
    store = "bulk.store" in str(use[0])
    fence = PROXY if store and bug != "no-fence" else ""
    header = [
        f"launch block [{reader}]",
        f"tensor a : f32[{out}] in",
        f"tensor out : f32[{out}] out",
        f"shared tile : f32[{tiles}, {out}] align 128",
    ]
    if by_barrier and not store:
        noinc = rng.random() < 0.5 if bug == "none" else bug == "noinc-unbudgeted"
        count = lanes
        arrive: list[Item] = [
            "cp.async.mbarrier.arrive.noinc full[0]" if noinc else "cp.async.mbarrier.arrive full[0]"
        ]
        if bug == "noinc-unbudgeted":
            arrive = lines(arrive, "mbarrier.arrive full[0]")
        elif not noinc and bug == "none":
            arrive = lines(arrive, "mbarrier.arrive full[0]")
        body = lines(
            block("if tid == 32", f"mbarrier.init full[0], {count}"),
            "bar.sync 0",
            block(f"role copy threads 0..{lanes}", [c for c in copies if c != "cp.async.commit"], arrive),
            block("role read threads 32..33", "mbarrier.wait full[0], 0", use),
        )
        return Program("cpasync", [*header, "mbarrier full[1]"], body, bug)
    meet = "" if bug == "no-meeting" else "bar.sync 0"
    waits: list[Item] = [wait]
    after: list[Item] = []
    if bug == "wait-elsewhere":
        waits, after = [], [wait]
    if bug == "overwrite":
        after = [f"st.shared tile[{last}][0 : 4], 1.0"]
        waits, meet = [wait], "bar.sync 0"
    body = lines(
        block(f"if tid < {lanes}", copies, waits, fence),
        meet,
        block("if tid == 32", after if bug == "wait-elsewhere" else [], use),
        block(f"if tid == {lanes - 1}", after) if bug == "overwrite" else "",
    )
    return Program("cpasync", header, body, bug)


HANDOVER_BUGS = (
    "relaxed-arrive", "relaxed-wait", "no-wait", "no-arrive", "write-write", "write-after-read",
    "wrong-parity", "count", "more-arrivals", "no-backward", "same-start", "one-arrive",
    "atomic-plain", "token-twice", "drop", "no-complete", "phase-skip", "unobserved",
)  # fmt: skip


def handover(rng: random.Random, bug: str) -> Program:
    """Two or three lanes pass bytes on through mbarriers, once or in turns (rulebook D7)."""
    trips = 1 if bug in ("token-twice",) else rng.choice([1, 2, 2, 3])
    if bug in ("write-after-read", "no-backward", "same-start", "one-arrive", "drop", "phase-skip"):
        trips = rng.choice([2, 3])
    left = rng.choice([1, 1, 2])
    if bug in ("count", "one-arrive", "write-write"):
        left = 2
    lanes = rng.random() < 0.4
    right = left if lanes else 32
    relaxed = ".relaxed" if bug == "relaxed-arrive" else ""
    put = rng.choice(["st.shared tile[][tid : 1], 1.0", "atom.shared.add tile[][tid : 1], 1.0"])
    if bug == "write-write":
        put = "st.shared tile[][0 : 1], lane * 1.0"
    arrive: list[Item] = [f"mbarrier.arrive{relaxed} there[0]"]
    if bug == "relaxed-arrive" and rng.random() < 0.3:
        arrive = ["fence.acq_rel.cta", *arrive]
    if bug == "no-arrive":
        arrive = []
    elif bug == "more-arrivals":
        arrive = arrive * 2
    elif bug == "drop":
        arrive = ["mbarrier.arrive.drop there[0]"]
    elif bug == "no-complete":
        arrive = ["mbarrier.arrive.no_complete there[0]"]
    elif bug == "one-arrive":
        arrive = [block("if tid == 0", arrive)]
    back_wait = "mbarrier.wait back[0], (i + 1) % 2"
    if bug == "same-start":
        back_wait = "mbarrier.wait back[0], i % 2"
    elif bug in ("write-after-read", "no-backward"):
        back_wait = ""
    give = block(f"for i in 0..{trips}", lines(back_wait, put, arrive))
    parity = "(i + 1) % 2" if bug == "wrong-parity" else "i % 2"
    wait = f"mbarrier.wait{'.relaxed' if bug == 'relaxed-wait' else ''} there[0], {parity}"
    if bug == "no-wait":
        wait = ""
    elif bug == "phase-skip":
        wait = block_wait(trips)
    take = rng.choice(
        [
            lines(f"ld.shared x, tile[][0 : {left}]", "compute y = x * 2.0"),
            lines(f"ld.shared x, tile[][0 : {left}]", "compute y = x * 2.0"),
            lines(f"st.shared tile[][0 : {left}], 0.0"),
        ]
    )
    if bug == "atomic-plain":
        put = "atom.shared.add tile[][0 : 1], 1.0"
        give = block(f"for i in 0..{trips}", lines(back_wait, arrive, put))
    back = "" if bug == "no-backward" else "mbarrier.arrive back[0]"
    body_right: list[Item] = [block(f"for i in 0..{trips}", lines(wait, take, back))]
    if bug == "token-twice":
        body_right = lines("let t = mbarrier.arrive there[0]", "mbarrier.wait.token there[0], t", take)
        give = block("for i in 0..1", lines(put, arrive, arrive if rng.random() < 0.7 else []))
    if bug == "unobserved":  # the barrier counts, but the meeting is another one (rulebook B20)
        meet = "barrier.sync 0"
        give = block("for i in 0..2", lines(put, arrive, meet, meet))
        body_right = [block("for i in 0..2", lines(meet, take, meet))]
    count = left + (1 if bug in ("count", "token-twice") else 0)
    body = lines(
        block(f"if tid == {right}", f"mbarrier.init there[0], {count}", "mbarrier.init back[0], 1"),
        "bar.sync 0",
        block(f"role give threads 0..{left}", give),
        block(f"role take threads {right}..{right + 1}", body_right),
    )
    header = [
        f"launch block [{right + 1}]",
        "shared tile : f32[4] align 128",
        "mbarrier there[1]",
        "mbarrier back[1]",
    ]
    return Program("handover", header, body, bug)


def block_wait(trips: int) -> str:
    """A wait that looks at every second phase only."""
    return f"mbarrier.wait there[0], {(trips + 1) % 2}"
