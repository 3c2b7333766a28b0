"""Rings of bulk copies: a producer lane, consumer lanes, full and empty barriers."""

from __future__ import annotations

import random

from tests.random.program import Block, Item, Program, block, lines

BUGS = (
    "consumer-parity", "producer-parity", "no-flip", "flip-each", "full-count", "empty-more",
    "empty-less", "bytes-more", "bytes-less", "no-full-wait", "no-empty-wait", "no-release",
    "wrong-stage", "wrong-barrier", "late-use", "early-release", "double-issue", "expect-after",
    "expect-elsewhere", "no-init-barrier", "early-inval", "reinit", "aliased", "out-of-bounds",
    "ignored-poll", "consumer-longer", "producer-longer", "predicated-copy", "dead-copy",
    "no-expect", "prefill", "overwrite", "misplaced-fence", "wrong-space-fence", "fence-one",
    "tx-overflow", "two-arrivers",
)  # fmt: skip

#: Bugs that need a second lap to show.
LAPPED = frozenset(
    {
        "no-flip", "no-empty-wait", "no-release", "late-use", "early-release", "empty-less",
        "empty-more", "misplaced-fence", "wrong-space-fence", "fence-one", "overwrite",
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
    extra = 1 if bug in ("double-issue", "expect-elsewhere", "two-arrivers") else 0
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
    at = other if bug == "wrong-stage" else stage
    share = elements // 4 if readers < 4 else 1
    load = f"ld.shared x, tile[{at}][tid * {share} : {share}]"
    use = rng.choice(["compute y = x * 2.0", f"st.global out[tid * {share} : {share}], x"])
    if release == "each":
        give: list[Item] = [f"mbarrier.arrive {empty}"]
    else:
        mask = (1 << readers) - 1
        give = [f"warp.sync {mask}", block("if tid == 0", f"mbarrier.arrive {empty}")]
    proxy = "fence.proxy.async.shared_cta"
    style = rng.choice(["used", "used", "proxy", "acq_rel"])
    consume = {
        "used": lines(arrived, load, use, give),
        "proxy": lines(arrived, load, proxy, give, use),
        "acq_rel": lines(arrived, load, "fence.acq_rel.cta", give, use),
    }[style]
    if bug == "late-use":
        consume = lines(arrived, load, give, use)
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
    if bug == "aliased":
        end = [block("if tid == 0", "st.shared flag[][0 : 2], 1.0"), *end]
    header = [
        f"launch block [{threads}]",
        f"tensor a : f32[{elements * (trips + stages)}] in",
        f"tensor out : f32[{4 * share}] out",
        f"shared tile : f32[{stages}, {elements}] align 128 offset 0",
        f"mbarrier full[{stages}] offset 512",
        f"mbarrier empty[{stages}] offset 576",
        *(["shared flag : f32[4] align 16 offset 512"] if bug == "aliased" else []),
    ]
    return Program("ring", header, lines(*setup, producer, consumer, helper, end), bug)
