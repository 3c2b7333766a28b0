"""Rings of bulk copies: a producer lane, consumer lanes, full and empty barriers."""

from __future__ import annotations

import random

from tests.system.random.program import Block, Item, Program, block, lines

BUGS = (
    "consumer-parity", "producer-parity", "no-flip", "flip-each", "full-count", "empty-more",
    "empty-less", "bytes-more", "bytes-less", "no-full-wait", "no-empty-wait", "no-release",
    "wrong-stage", "wrong-barrier", "late-use", "early-release", "double-issue", "expect-after",
    "expect-elsewhere", "no-init-barrier", "early-inval", "reinit", "aliased", "out-of-bounds",
    "ignored-poll", "consumer-longer", "producer-longer", "predicated-copy", "dead-copy",
    "no-expect", "prefill", "overwrite", "misplaced-fence", "wrong-space-fence", "fence-one",
    "tx-overflow", "two-arrivers", "onlooker",
)  # fmt: skip

#: Bugs that need a second lap to show.
LAPPED = frozenset(
    {
        "no-flip", "no-empty-wait", "no-release", "late-use", "early-release", "empty-less",
        "empty-more", "onlooker", "misplaced-fence", "wrong-space-fence", "fence-one", "overwrite",
    }
)  # fmt: skip


def ring(rng: random.Random, bug: str) -> Program:
    """One producer lane and one to three consumer lanes around a buffer of one or two stages."""
    stages = 2 if bug in ("wrong-stage", "wrong-barrier", "flip-each") else rng.choice([1, 1, 2])
    need2 = bug in LAPPED
    trips = max(rng.choice([1, 2, 2, 3]), stages + 1 if need2 else 1)
    trips = 2 if bug == "flip-each" else trips
    readers = 2 if bug in ("empty-less", "fence-one", "double-issue") else rng.choice([1, 1, 2, 3])
    elements = rng.choice([4, 8])
    size = 4 * elements
    same_warp = rng.random() < 0.3
    first = readers if same_warp else 32
    extra = 1 if bug in ("double-issue", "expect-elsewhere", "two-arrivers", "onlooker") else 0
    threads = first + 1 + extra
    stage = f"i % {stages}" if stages > 1 else "0"
    lap = f"(i // {stages}) % 2" if stages > 1 else "i % 2"
    other = f"(i + 1) % {stages}"
    full, empty = f"full[{stage}]", f"empty[{stage}]"
    release = rng.choice(["each", "each", "warp"]) if bug not in ("empty-less", "empty-more") else "each"
    if bug in ("fence-one",):
        release = "each"
    empties = readers if release == "each" else 1

    # ---- producer
    free = f"mbarrier.wait {empty}, ({lap} + 1) % 2"
    if bug == "producer-parity":
        free = f"mbarrier.wait {empty}, {lap}"
    if bug == "no-empty-wait":
        free = ""
    announced = size + {"bytes-more": 16, "bytes-less": -16, "tx-overflow": 1 << 19}.get(bug, 0)
    if bug == "bytes-less" and elements == 4:
        announced = 0
    copy: list[Item] = [f"bulk.load tile[{stage}], a[i * {elements} : {elements}], {full}"]
    if elements == 8 and rng.random() < 0.3:
        copy = [
            f"bulk.load tile[{stage}][{h} : 4], a[i * 8 + {h} : 4], {full}" for h in (0, 4)
        ]  # two halves, each with its own completion
    if stages == 1 and rng.random() < 0.3:  # a stage of so few bytes is not 128-byte aligned
        copy = [f"tma.load tile[{stage}], A[i, 0], {full}"]
    if bug == "predicated-copy":
        copy = [Block(f"if i != {trips - 1}", copy)]
    if bug == "dead-copy":
        copy = [Block("if warp == 7", copy)]
    if bug == "out-of-bounds":
        copy = [f"bulk.load tile[{stage} + {stages}], a[i * {elements} : {elements}], {full}"]
    one = [f"mbarrier.arrive.expect_tx {full}, {announced}"]
    two = [f"mbarrier.expect_tx {full}, {announced}", f"mbarrier.arrive {full}"]
    announce = rng.choice([lines(one, copy), lines(two, copy), lines(two[0], copy, two[1]), lines(copy, one)])
    if bug == "expect-after":
        announce = lines(f"mbarrier.arrive {full}", f"mbarrier.expect_tx {full}, {announced}", copy)
    if bug == "expect-elsewhere":
        announce = lines(f"mbarrier.expect_tx {full}, {announced}", copy)
    if bug == "no-expect":
        announce = lines(f"mbarrier.arrive {full}", copy)
    if bug == "tx-overflow":
        announce = lines(f"mbarrier.expect_tx {full}, 1048575", one, copy)
    fence_p = "fence.proxy.async.shared_cta" if rng.random() < 0.1 and bug != "late-use" else ""
    producer_trips = trips + (stages if bug == "producer-longer" else 0)
    produce = block(f"for i in 0..{producer_trips}", lines(free, fence_p, announce))

    # ---- consumers
    arrived = f"mbarrier.wait {full}, {lap}"
    if bug == "consumer-parity":
        arrived = f"mbarrier.wait {full}, ({lap} + 1) % 2"
    elif bug == "no-flip":
        arrived = f"mbarrier.wait {full}, 0"
    elif bug == "flip-each":
        arrived = f"mbarrier.wait {full}, i % 2"
    elif bug == "no-full-wait":
        arrived = ""
    elif bug == "wrong-barrier":
        arrived = f"mbarrier.wait full[{other}], {lap}"
    elif bug == "ignored-poll":
        arrived = f"let p = mbarrier.test {full}, {lap}"
    guarded: list[Item] = [arrived]
    if bug == "none" and rng.random() < 0.15:  # one poll, and the wait only where it failed
        kind = rng.choice(["test", "try"])
        guarded = [f"let p = mbarrier.{kind} {full}, {lap}", block("if p == 0", arrived)]
    at = other if bug == "wrong-stage" else stage
    share = elements // 4 if readers < 4 else 1
    load = f"ld.shared x, tile[{at}][tid * {share} : {share}]"
    mine = f"out[tid * {share} : {share}]"
    sums, store = rng.choice([("compute y = x * 2.0", f"st.global {mine}, y"), ("", f"st.global {mine}, x")])
    use: list[Item] = lines(sums, store)
    if release == "each":
        give: list[Item] = [f"mbarrier.arrive {empty}"]
    else:
        mask = (1 << readers) - 1
        give = [f"warp.sync {mask}", block("if tid == 0", f"mbarrier.arrive {empty}")]
    proxy = "fence.proxy.async.shared_cta"
    style = rng.choice(["used", "used", "proxy", "acq_rel"])
    consume = {
        "used": lines(guarded, load, use, give),
        "proxy": lines(guarded, load, proxy, give, use),
        "acq_rel": lines(guarded, load, "fence.acq_rel.cta", give, use),
    }[style]
    if bug == "late-use":
        consume = lines(arrived, load, sums, give, store)
    elif bug == "early-release":
        consume = lines(arrived, give, load, use)
    elif bug == "no-release":
        consume = lines(arrived, load, use)
    elif bug == "overwrite":
        consume = lines(arrived, load, use, give, f"st.shared tile[{stage}][tid * {share} : {share}], 1.0")
    elif bug in ("misplaced-fence", "wrong-space-fence", "fence-one"):
        put = f"st.shared tile[{stage}][tid * {share} : {share}], x * 2.0"
        space = "fence.proxy.async.global" if bug == "wrong-space-fence" else proxy
        consume = {
            "misplaced-fence": lines(arrived, load, proxy, put, give),
            "wrong-space-fence": lines(arrived, load, put, space, give),
            "fence-one": lines(arrived, load, put, block("if tid == 0", proxy), give),
        }[bug]
    elif rng.random() < 0.2:
        put = f"st.shared tile[{stage}][tid * {share} : {share}], x * 2.0"
        consume = lines(arrived, load, put, proxy, give)
    consumer_trips = trips + (1 if bug == "consumer-longer" else 0)
    consume_loop = block(f"for i in 0..{consumer_trips}", consume)

    # ---- set-up and end
    counts = {
        "full": 2 if bug in ("full-count", "tx-overflow-2") else 1,
        "empty": empties + {"empty-more": 1, "empty-less": -1}.get(bug, 0),
    }
    inits: list[Item] = [
        f"mbarrier.init {name}[{s}], {n}" for name, n in counts.items() for s in range(stages)
    ]
    lead = rng.choice(["tid == 0", f"tid == {first}"])
    setup = [block(f"if {lead}", inits), "" if bug == "no-init-barrier" else "bar.sync 0"]
    prefill: list[Item] = []
    if bug == "prefill":
        prefill = [f"mbarrier.arrive empty[{s}]" for s in range(stages)]
    consumer = block(f"role consumer threads 0..{readers}", prefill, consume_loop)
    producer = block(
        f"role producer threads {first}..{first + 1 + (extra if bug == 'double-issue' else 0)}", produce
    )
    end: list[Item] = []
    ends = rng.choice(["leave", "leave", "inval"])
    if bug == "early-inval":
        consumer.body.append(
            block("if tid == 0", [f"mbarrier.inval {b}[{s}]" for b in counts for s in range(stages)])
        )
    elif bug == "reinit":
        end = ["bar.sync 0", block(f"if {lead}", "mbarrier.init full[0], 1")]
    elif ends == "inval":
        end = [
            "bar.sync 0",
            block(f"if {lead}", [f"mbarrier.inval {b}[{s}]" for b in counts for s in range(stages)]),
        ]
    helper: list[Item] = []
    if bug in ("expect-elsewhere", "two-arrivers"):
        helper = [block(f"role helper threads {first + 1}..{first + 2}",
                        block(f"for i in 0..{trips}", f"mbarrier.arrive {full}"))]  # fmt: skip
    if bug == "onlooker":  # waits, but nobody waits for it (rulebook E22)
        look = block(f"for i in 0..{trips}", f"mbarrier.wait {full}, {lap}")
        helper = [block(f"role helper threads {first + 1}..{first + 2}", look)]
    if bug == "aliased":
        end = [block("if tid == 0", "st.shared flag[][0 : 2], 1.0"), *end]
    header = [
        f"launch block [{threads}]",
        f"tensor a : f32[{trips + stages}, {elements}] in",
        f"tensormap A of a box [1, {elements}]",
        f"tensor out : f32[{4 * share}] out",
        f"shared tile : f32[{stages}, {elements}] align 128 offset 0",
        f"mbarrier full[{stages}] offset 512",
        f"mbarrier empty[{stages}] offset 576",
        *(["shared flag : f32[4] align 16 offset 512"] if bug == "aliased" else []),
    ]
    return Program("ring", header, lines(*setup, producer, consumer, helper, end), bug)


CHAIN_BUGS = (
    "no-fence", "early-fence", "wrong-space", "no-loaded-wait", "no-ready-wait", "no-read-wait",
    "no-free-wait", "no-free-arrive", "ready-count", "early-ready", "release-both", "free-parity",
    "late-use", "no-tail",
)  # fmt: skip


def chain(rng: random.Random, bug: str) -> Program:
    """One async lane loads, worker lanes transform into a second buffer, another async lane stores that."""
    trips = rng.choice([1, 2]) if bug == "none" else 2
    workers = rng.choice([1, 2])
    proxy = "fence.proxy.async.shared_cta"
    space = {"no-fence": "", "early-fence": "", "wrong-space": "fence.proxy.async.global"}.get(bug, proxy)
    early = proxy if bug == "early-fence" else ""
    n = 4 * workers
    mine = "tid * 4 : 4"
    load = block(
        f"for i in 0..{trips}",
        "mbarrier.wait taken[0], (i + 1) % 2",
        "mbarrier.arrive.expect_tx loaded[0], " + str(4 * n),
        f"bulk.load inb[][0 : {n}], a[i * {n} : {n}], loaded[0]",
    )
    use = f"st.shared outb[][{mine}], x * 2.0"
    ready = "mbarrier.arrive ready[0]"
    free = (
        ""
        if bug == "no-free-wait"
        else f"mbarrier.wait free[0], {'i' if bug == 'free-parity' else '(i + 1)'} % 2"
    )
    loaded = "" if bug == "no-loaded-wait" else "mbarrier.wait loaded[0], i % 2"
    take = [f"ld.shared x, inb[][{mine}]"]
    body = lines(loaded, free, take, early, use, space, ready, "mbarrier.arrive taken[0]")
    if bug == "early-ready":
        body = lines(loaded, free, take, ready, use, space, "mbarrier.arrive taken[0]")
    elif bug == "late-use":
        body = lines(loaded, take, "mbarrier.arrive taken[0]", free, use, space, ready)
    elif bug == "release-both":
        body = lines(loaded, "mbarrier.arrive taken[0]", free, take, use, space, ready)
    elif rng.random() < 0.4:
        wide = rng.choice([space, "fence.proxy.async"]) if space == proxy else space
        body = lines(free, loaded, take, use, wide, "mbarrier.arrive taken[0]", ready)
    work = block(f"for i in 0..{trips}", body)
    ship = block(
        f"for i in 0..{trips}",
        "" if bug == "no-ready-wait" else "mbarrier.wait ready[0], i % 2",
        f"bulk.store out[i * {n} : {n}], outb[][0 : {n}]",
        "bulk.commit",
        "" if bug == "no-read-wait" else "bulk.wait.read 0",
        "" if bug == "no-free-arrive" else "mbarrier.arrive free[0]",
    )
    tail = "" if bug == "no-tail" else "bulk.wait.read 0"
    if bug == "no-tail":
        ship = block(f"for i in 0..{trips}", [x for x in ship.body if x != "bulk.wait.read 0"])
    counts = {"loaded": 1, "taken": workers, "ready": workers + (1 if bug == "ready-count" else 0), "free": 1}
    one_warp = rng.random() < 0.3
    base = workers if one_warp else 32
    header = [
        f"launch block [{base + 2}]",
        f"tensor a : f32[{n * trips}] in",
        f"tensor out : f32[{n * trips}] out",
        f"shared inb : f32[{n}] align 128",
        f"shared outb : f32[{n}] align 128",
        *(f"mbarrier {name}[1]" for name in counts),
    ]
    setup = lines(
        block("if tid == 0", [f"mbarrier.init {b}[0], {c}" for b, c in counts.items()]), "bar.sync 0"
    )
    roles: list[Item] = [
        block(f"role load threads {base}..{base + 1}", load),
        block(f"role work threads 0..{workers}", work),
        block(f"role ship threads {base + 1}..{base + 2}", ship, tail),
    ]
    rng.shuffle(roles)
    return Program("chain", header, [*setup, *roles], bug)
