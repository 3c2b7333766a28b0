"""Execution barriers, lanes of one warp, register pools, barrier lifetimes and clusters."""

from __future__ import annotations

import random

from tests.system.random.program import Item, Program, block, lines

NAMED_BUGS = (
    "count-more", "count-less", "wrong-id", "same-id", "arrive-twice", "whole-cta-in-role",
    "early-exit", "no-sync", "divergent", "one-side-loop", "disagree",
)  # fmt: skip


def named(rng: random.Random, bug: str) -> Program:
    """Two warps hand bytes back and forth through named barriers (rulebook D13)."""
    trips = rng.choice([1, 2]) if bug != "arrive-twice" else 2
    a = 64 + {"count-more": 32, "count-less": -32}.get(bug, 0)
    b = 96 if bug == "disagree" else a
    back = 1 if bug == "same-id" else 2
    lane = rng.choice(["lane", "lane // 2"]) if rng.random() < 0.1 else "lane"
    give = lines(
        f"bar.sync {back}, 64" if bug != "arrive-twice" else "",
        f"st.shared tile[][{lane} : 1], 1.0",
        f"bar.arrive 1, {a}",
    )
    take = lines(
        f"bar.sync {3 if bug == 'wrong-id' else 1}, {b}" if bug != "no-sync" else "",
        rng.choice(
            [
                ["ld.shared x, tile[][31 - lane : 1]", "compute y = x * 2.0"],
                ["st.shared tile[][31 - lane : 1], 0.0"],
            ]
        ),
        f"bar.arrive {back}, 64",
    )
    if bug == "whole-cta-in-role":
        take = lines("bar.sync 0", take)
    if bug == "divergent":
        take = [block("if lane < 16", take[:1]), *take[1:]]
    late = 1 if bug == "one-side-loop" else 0
    first: list[Item] = ["bar.arrive 2, 64"]
    finish: list[Item] = ["bar.sync 2, 64"]
    head: list[Item] = [block("if warp == 1", "exit")] if bug == "early-exit" else []
    body = lines(
        head,
        "bar.sync 0" if rng.random() < 0.4 or bug == "early-exit" else "",
        block(
            "role give warps 0..1",
            block(f"for i in 0..{trips}", give),
            finish if bug != "arrive-twice" else [],
        ),
        block("role take warps 1..2", first, block(f"for i in 0..{trips + late}", take)),
    )
    return Program("named", ["launch block [64]", "shared tile : f32[32] align 128"], body, bug)


LANE_BUGS = (
    "no-sync-raw", "no-sync-war", "no-sync-waw", "wrong-mask", "partial-sync", "divergent-elect",
    "one-releases", "elect-assumed", "divergent-sync", "matrix-divergent",
)  # fmt: skip


def lanes(rng: random.Random, bug: str) -> Program:
    """Lanes of one warp that exchange bytes, with warp.sync between them, and an elected lane."""
    trips = rng.choice([1, 2])
    if bug in ("no-sync-war", "no-sync-waw"):
        trips = 2
    put = "st.shared tile[][lane : 1], lane * 1.0"
    get = ["ld.shared x, tile[][31 - lane : 1]", "compute y = x * 2.0"]
    sync1, sync2 = "warp.sync", "warp.sync"
    if bug == "no-sync-raw":
        sync1 = ""
    elif bug == "no-sync-war":
        sync2 = ""
    elif bug == "no-sync-waw":
        put, sync1, get, sync2 = "st.shared tile[][(lane + i) % 32 : 1], 1.0", "", [], ""
    elif bug == "wrong-mask":
        sync1 = "warp.sync 65535"
    loop = block(f"for i in 0..{trips}", lines(put, sync1, get, sync2))
    if bug == "partial-sync":
        loop = block(f"for i in 0..{trips}", lines(put, block("if lane < 16", "warp.sync 65535"), get, sync2))
    elif bug == "divergent-sync":
        loop = block(f"for i in 0..{trips}", lines(put, block("if lane < 31", "warp.sync"), get, sync2))
    elif bug == "matrix-divergent":
        loop = block(
            f"for i in 0..{trips}",
            lines(put, sync1, block("if lane < 16", "ldmatrix x, tile[][0 : 32]"), sync2),
        )
    ship = lines(
        "fence.proxy.async.shared_cta",
        "bulk.store out[0 : 32], tile[][0 : 32]",
        "bulk.commit",
        "bulk.wait.read 0",
    )
    elected: list[Item] = []
    if bug in ("divergent-elect", "elect-assumed") or rng.random() < 0.4:
        fence = "fence.proxy.async.shared_cta"
        last = ship[1:3] if bug == "elect-assumed" else ship[1:]
        elected = lines(fence, "warp.sync", "elect p", block("if p", last))
        if bug == "divergent-elect":
            elected = lines(fence, "warp.sync", block("if lane < 8", "elect p", block("if p", last)))
        elif bug == "elect-assumed":
            elected = lines(elected, block("if lane == 0", "bulk.wait.read 0"))
    if bug == "one-releases":
        body = lines(
            block("if tid == 0", "mbarrier.init full[0], 1", "mbarrier.init empty[0], 1"),
            "bar.sync 0",
            block("role give threads 32..33", block(
                "for i in 0..2", "mbarrier.wait empty[0], (i + 1) % 2", "st.shared tile[][0 : 4], 1.0",
                "mbarrier.arrive full[0]",
            )),
            block("role take threads 0..2", block(
                "for i in 0..2", "mbarrier.wait full[0], i % 2", "ld.shared x, tile[][0 : 4]",
                "compute y = x * 2.0",
                block("if lane == 0", "mbarrier.arrive empty[0]"),
            )),
        )  # fmt: skip
        header = [
            "launch block [33]",
            "shared tile : f32[32] align 128",
            "mbarrier full[1]",
            "mbarrier empty[1]",
        ]
        return Program("lanes", header, body, bug)
    header = ["launch block [32]", "tensor out : f32[32] out", "shared tile : f32[32] align 128"]
    return Program("lanes", header, lines(loop, elected), bug)


POOL_BUGS = (
    "too-much", "no-dec", "wrong-direction", "partial", "split", "unordered-requests",
    "twice",
)  # fmt: skip


def pool(rng: random.Random, bug: str) -> Program:
    """Warpgroups trade registers (rulebook D12)."""
    groups = 3 if bug == "unordered-requests" else 2
    base = 152
    give = base - rng.choice([8, 16, 40])
    taken = base + (base - give)
    if bug == "too-much":
        taken += 8
    give_op = f"setmaxnreg.dec {give}"
    take_op = f"setmaxnreg.inc {taken}"
    if bug == "wrong-direction":
        give_op, take_op = f"setmaxnreg.inc {give}", f"setmaxnreg.dec {taken}"
    elif bug == "no-dec":
        give_op = ""
    first: list[Item] = [give_op]
    second: list[Item] = [take_op]
    if bug == "partial":
        second = [block("if warp != 7", take_op)]
    elif bug == "split":
        second = [block("if warp == 4", take_op), block("if warp > 4", take_op)]
    elif bug == "twice":
        second = [take_op, take_op]
    meet = rng.choice(["bar.sync 0", ""])
    order = [
        block("role give warpgroups 0..1", first, rng.choice(["bar.arrive 1, 256", ""])),
        block("role take warpgroups 1..2", second),
    ]
    if "bar.arrive 1, 256" in order[0].body:
        order[1].body.insert(rng.choice([0, len(order[1].body)]), "bar.sync 1, 256")
    roles: list[Item] = list(order)
    if bug == "unordered-requests" or (bug == "none" and rng.random() < 0.3):
        groups = 3
        half = rng.choice([8, 16, 24])
        released = half if bug == "unordered-requests" else 2 * half
        meet_group = "bar.sync wg + 2, 128"
        gather = lines(
            f"setmaxnreg.inc {base + half}",
            [meet_group, f"setmaxnreg.dec {base}"] if rng.random() < 0.3 else [],
        )
        if rng.random() < 0.5:  # in two steps: with the pool of one, each may hold a half for ever
            released = (4 if bug == "none" else 2) * half
            one, more = f"setmaxnreg.inc {base + half}", f"setmaxnreg.inc {base + 2 * half}"
            gather = [one, meet_group, more, meet_group, f"setmaxnreg.dec {base}"]
        roles = [
            block("role give warpgroups 0..1", f"setmaxnreg.dec {base - released}"),
            block("role take warpgroups 1..3", gather),
        ]
    header = [f"launch block [{128 * groups}] registers {base}"]
    return Program("pool", header, lines(meet, roles), bug)


LIFE_BUGS = (
    "no-meeting-after-init", "no-meeting-before-inval", "no-inval", "use-after", "init-twice",
    "reuse-bytes", "plain-access", "inval-early", "init-elsewhere",
)  # fmt: skip


def lifetime(rng: random.Random, bug: str) -> Program:
    """A barrier is born, used, put down and, perhaps, born again over the same bytes (rulebook D1, B12)."""
    again = rng.random() < 0.6 or bug in ("no-inval", "reuse-bytes")
    apart = rng.random() < 0.5
    second = 32 if apart else 1
    way = rng.choice(["init", "bytes"]) if bug != "reuse-bytes" else "bytes"
    use = [
        block("if tid == 0", "st.shared tile[][0 : 4], 1.0", "mbarrier.arrive b[0]"),
        block(
            f"if tid == {second}",
            "mbarrier.wait b[0], 0",
            "ld.shared x, tile[][0 : 4]",
            "compute y = x * 2.0",
        ),
    ]
    birth = lines(
        block(f"if tid == {second if bug == 'init-elsewhere' else 0}", "mbarrier.init b[0], 1"),
        "" if bug in ("no-meeting-after-init", "init-elsewhere") else "bar.sync 0",
    )
    if bug == "init-twice":
        birth = lines(block("if tid == 0", "mbarrier.init b[0], 1", "mbarrier.init b[0], 1"), "bar.sync 0")
    meet = "" if bug == "no-meeting-before-inval" else "bar.sync 0"
    end = lines(meet, "" if bug == "no-inval" else block("if tid == 0", "mbarrier.inval b[0]"))
    if bug == "inval-early":
        end = lines(block("if tid == 0", "mbarrier.inval b[0]"), "bar.sync 0")
    if bug == "use-after":
        end = lines(end, "bar.sync 0", block(f"if tid == {second}", "mbarrier.arrive b[0]"))
    if bug == "plain-access":
        end = lines(block(f"if tid == {rng.choice([0, second])}", rng.choice(
            ["st.shared over[][0 : 2], 1.0", "ld.shared z, over[][0 : 2]"])), end)  # fmt: skip
    more: list[Item] = []
    if again:
        more = (
            lines("bar.sync 0", birth, use)
            if way == "init"
            else lines(block("if tid == 0", "st.shared over[][0 : 2], 1.0"))
        )
        if bug == "reuse-bytes":
            end = []
    header = [
        f"launch block [{second + 1}]",
        "shared tile : f32[4] align 128 offset 0",
        "mbarrier b[1] offset 128",
        "shared over : f32[2] align 8 offset 128",
    ]
    return Program("lifetime", header, lines(birth, use, end, more), bug)


CLUSTER_BUGS = (
    "no-cluster-wait", "cta-scope", "remote-wait", "no-init-fence", "early-leave", "no-expect",
    "one-sided-barrier", "local-arrive", "no-fence", "no-peer-release", "no-peer-wait", "relaxed-release",
    "late-init",
)  # fmt: skip


def cluster(rng: random.Random, bug: str) -> Program:
    """Two CTAs: a lane of one writes into, or copies into, the other's shared memory (rulebook D15)."""
    way = rng.choice(["store", "copy", "async", "multicast"])
    if bug in ("cta-scope", "local-arrive", "relaxed-release"):
        way = "store"
    elif bug == "no-fence":
        way = "copy"
    elif bug == "no-expect":
        way = rng.choice(["copy", "async"])
    trips = rng.choice([1, 1, 2])
    if bug in ("no-peer-release", "no-peer-wait"):
        trips, way = 2, rng.choice(["store", "copy", "async"])
    inits = block("if tid == 0", "mbarrier.init b[0], 1", "mbarrier.init back[0], 1",
                  "" if bug == "no-init-fence" else "fence.mbarrier_init")  # fmt: skip
    relaxed = bug == "no-init-fence" or rng.random() < 0.5
    start = lines(
        inits,
        "cluster.arrive.relaxed" if relaxed else "cluster.arrive",
        "cluster.wait" if bug != "no-cluster-wait" else "",
    )
    if bug == "late-init":
        start = [start[1], start[2], start[0]]
    elif bug == "one-sided-barrier":
        start = lines(start, block("if rank == 0", "cluster.arrive", "cluster.wait"))
    expect: list[Item] = ["" if bug == "no-expect" else "mbarrier.arrive.expect_tx b[0], 16"]
    scope = "" if bug == "cta-scope" else ".cluster"
    send: list[Item]
    if way == "store":
        at = "b[0]" if bug == "local-arrive" else "b[0] @ 1"
        order = ".relaxed" if bug == "relaxed-release" else ""
        send = ["st.shared tile[][0 : 4] @ 1, 1.0", f"mbarrier.arrive{order}{scope} {at}"]
        expect = []
    elif way == "copy":
        fence = "" if bug == "no-fence" else "fence.proxy.async"
        send = lines(
            block("if i == 0", "st.shared from[][0 : 4], 1.0", fence),
            "bulk.copy tile[][0 : 4] @ 1, from[][0 : 4], b[0] @ 1",
        )
    elif way == "async":
        send = ["st.async tile[][0 : 4] @ 1, 1.0, b[0] @ 1"]
    else:
        send = ["bulk.load tile[][0 : 4], a[0 : 4], b[0], multicast 3"]
    wait = f"mbarrier.wait{scope} b[0]{' @ 0' if bug == 'remote-wait' else ''}, i % 2"
    take = lines(wait, "ld.shared x, tile[][0 : 4]", "compute y = x * 2.0")
    end: list[Item] = ["cluster.arrive", "cluster.wait"]
    if bug == "early-leave":  # nothing keeps the target alive
        end, take = [], []
    if way == "multicast":
        roles: list[Item] = [
            block("if tid == 0", block("for i in 0..1", lines(expect, block("if rank == 0", send), take)))
        ]
    else:
        free = (
            "" if bug == "no-peer-wait" else block("if i > 0", "mbarrier.wait.cluster back[0], (i + 1) % 2")
        )
        give = "" if bug == "no-peer-release" else "fence.proxy.async"
        back = "" if bug == "no-peer-release" else "mbarrier.arrive.cluster back[0] @ 0"
        roles = [
            block("if rank == 0", block(f"for i in 0..{trips}", lines(free, send))),
            block("if rank == 1", block(f"for i in 0..{trips}", lines(expect, take, give, back))),
        ]
        if rng.random() < 0.5:
            roles.reverse()
    header = [
        "launch grid [2] block [1] cluster [2]",
        "tensor a : f32[4] in",
        "shared tile : f32[4] align 128",
        "shared from : f32[4] align 128",
        "mbarrier b[1]",
        "mbarrier back[1]",
    ]
    return Program("cluster", header, lines(start, roles, end), bug)


MMA_BUGS = (
    "no-proxy-fence", "no-wgmma-fence", "read-early", "wait-lax", "no-commit", "overwrite-early",
    "release-early", "three-warps", "half-lanes", "touched-fragment", "no-meeting", "early-fence",
)  # fmt: skip


def mma(rng: random.Random, bug: str) -> Program:
    """One warpgroup fills operands, multiplies, and reads the accumulator (rulebook B71, B72)."""
    twice = rng.random() < 0.4 or bug in ("wait-lax",)
    loaded = bug == "release-early" or rng.random() < 0.3
    fill = lines("st.shared A[][tid * 8 : 8], 1.0", block("if tid < 16", "st.shared B[][tid * 8 : 8], 1.0"))
    proxy = "fence.proxy.async.shared_cta"
    if bug == "no-proxy-fence":
        proxy = ""
    meet = "" if bug == "no-meeting" else "bar.sync 0"
    begin: list[Item] = ["wgmma.fence"] if bug != "no-wgmma-fence" else []
    if bug == "touched-fragment":
        begin = ["wgmma.fence", "frag.write acc, 0.0"]
    elif rng.random() < 0.5:
        begin = ["frag.write acc, 0.0", *begin]
    op = "wgmma.mma acc, A, B"
    mm: list[Item] = [op]
    if bug == "three-warps":
        mm = [block("if warp < 3", op)]
    elif bug == "half-lanes":
        mm = [block("if lane < 16", op)]
    commit = "" if bug == "no-commit" else "wgmma.commit"
    wait = "wgmma.wait 1" if bug == "wait-lax" else "wgmma.wait 0"
    if twice:
        mm = lines(mm, commit, mm)
    done = lines(wait, "frag.read z, acc", "st.global out[tid : 1], z")
    if bug == "read-early":
        done = lines("frag.read z, acc", wait, "st.global out[tid : 1], z")
    again: list[Item] = []
    if rng.random() < 0.5 or bug == "overwrite-early":
        again = lines("bar.sync 0", "st.shared A[][tid * 8 : 8], 2.0")
    if bug == "overwrite-early":
        done = lines("bar.sync 0", "st.shared A[][tid * 8 : 8], 2.0", done)
        again = []
    order = lines(fill, proxy, meet) if bug != "early-fence" else lines(proxy, fill, meet)
    header = [
        "launch block [128]",
        "tensor out : f32[128] out",
        "tensor w : bf16[1024] in",
        "shared A : bf16[64, 16] align 1024",
        "shared B : bf16[16, 8] align 1024",
        "fragment acc : f32[64, 8]",
    ]
    if loaded and bug in ("none", "release-early"):
        header += ["mbarrier full[1]", "mbarrier empty[1]"]
        header[0] = "launch block [129]"
        release = block("if tid == 0", "mbarrier.arrive empty[0]")
        steps = lines("mbarrier.wait full[0], i % 2", "wgmma.fence", op, commit)
        steps = (
            lines(steps, release, wait)
            if bug == "release-early"
            else lines(steps, wait, "bar.sync 1, 128", release)
        )
        body = lines(
            block("if tid < 16", "st.shared B[][tid * 8 : 8], 1.0", proxy),
            block("if tid == 0", "mbarrier.init full[0], 1", "mbarrier.init empty[0], 1"),
            "bar.sync 0",
            block("role load threads 128..129", block(
                "for i in 0..2", "mbarrier.wait empty[0], (i + 1) % 2",
                "mbarrier.arrive.expect_tx full[0], 2048",
                "bulk.load A, w[0 : 1024], full[0]",
            )),
            block("role math warpgroups 0..1", block("for i in 0..2", steps),
                  "frag.read z, acc", "st.global out[tid : 1], z"),
        )  # fmt: skip
        return Program("mma", header, body, bug)
    return Program("mma", header, lines(order, begin, mm, commit, done, again), bug)
