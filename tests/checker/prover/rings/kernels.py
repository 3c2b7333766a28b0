"""Kernels whose number of stages is a parameter: rings of many makes, right for every number of them."""

from __future__ import annotations

ROUND = "mbarrier.wait {b}[{i} % S], ({i} // S{p}) % 2"


def kernel(
    *roles: str,
    bars: dict[str, int],
    buffers: tuple[str, ...] = ("tile : f32[S, 64]",),
    assume: tuple[str, ...] = ("S >= 1",),
    params: tuple[str, ...] = ("S : i32 = 2", "N : i32 = 5"),
    warps: int = 2,
    depth: dict[str, str] | None = None,
    tensors: tuple[str, ...] = ("a : f32[N * 64] in", "out : f32[N * 64] out"),
    extra: tuple[str, ...] = (),
) -> str:
    """A kernel of some roles; ``bars``: arrays of barriers with their counts, of ``depth`` S unless said."""
    depths = {b: (depth or {}).get(b, "S") for b in bars}
    lines = [f"kernel k {{\n  launch grid [1] block [{32 * warps}]"]
    lines += [f"  param {p}" for p in params] + [f"  assume {a}" for a in assume]
    lines += [f"  tensor {t}" for t in tensors] + [f"  {e}" for e in extra]
    lines += [f"  shared {b}" for b in buffers] + [f"  mbarrier {b}[{d}]" for b, d in depths.items()]
    lines += ["  if tid == 0 {"]
    for d in dict.fromkeys(depths.values()):
        lines += [f"    for s in 0..({d}) {{"]
        lines += [f"      mbarrier.init {b}[s], {bars[b]}" for b in bars if depths[b] == d]
        lines += ["    }"]
    lines += ["  }", "  bar.sync 0", *roles, "}"]
    return "\n".join(lines) + "\n"


def role(name: str, warps: str, *body: str, once: bool = False) -> str:
    """A role; ``once``: one elected lane of it."""
    inside = ["elect p", "if p {", *body, "}"] if once else [*body]
    return "\n".join([f"  role {name} warps {warps} {{", *("    " + x for x in inside), "  }"])


def loop(*body: str, over: str = "0..N") -> str:
    return "\n      ".join([f"for i in {over} {{", *body, "}"])


LOAD = (
    "mbarrier.wait empty[i % S], (i // S + 1) % 2",
    "mbarrier.arrive.expect_tx full[i % S], 256",
    "bulk.load tile[i % S], a[i * 64 : 64], full[i % S]",
)
READ = (
    "mbarrier.wait full[i % S], (i // S) % 2",
    "ld.shared x, tile[i % S][tid % 32 * 2 : 2]",
    "compute y = x * 2.0",
)
STORE = "st.global out[i * 64 + tid % 32 * 2 : 2], y"
PRODUCER = role("producer", "0..1", loop(*LOAD), once=True)
CONSUMER = role("consumer", "1..2", loop(*READ, STORE, "mbarrier.arrive empty[i % S]"))
COUNTS = {"full": 1, "empty": 32}

_MOVE = ("st = st + 1", "if st == S {", "st = 0", "ph = ph ^ 1", "}")


def _registers() -> str:
    load = [x.replace("i % S", "st").replace("(i // S + 1) % 2", "ph") for x in LOAD]
    read = [x.replace("i % S", "st").replace("(i // S) % 2", "ph") for x in READ]
    return kernel(
        role("producer", "0..1", "let st = 0", "let ph = 1", loop(*load, *_MOVE), once=True),
        role("consumer", "1..2", "let st = 0", "let ph = 0",
             loop(*read, STORE, "mbarrier.arrive empty[st]", *_MOVE)),
        bars=COUNTS,
    )  # fmt: skip


def _prefilled() -> str:
    load = [x.replace("(i // S + 1) % 2", "(i // S) % 2") for x in LOAD]
    fill = "for s in 0..S {\n        mbarrier.arrive empty[s]\n      }"
    return kernel(
        role("producer", "0..1", loop(*load), once=True),
        role("consumer", "1..2", fill, loop(*READ, STORE, "mbarrier.arrive empty[i % S]")),
        bars=COUNTS,
        assume=("S >= 1", "N >= 0"),
    )


def _tail() -> str:
    tail = "for s in 0..S {\n        mbarrier.wait empty[(N + s) % S], ((N + s) // S + 1) % 2\n      }"
    return kernel(
        role("producer", "0..1", loop(*LOAD), tail, once=True), CONSUMER, bars=COUNTS,
        assume=("S >= 1", "N >= 0"),
    )  # fmt: skip


def _leader() -> str:
    release = ("warp.sync", "if l {", "mbarrier.arrive empty[i % S]", "}")
    return kernel(
        PRODUCER, role("consumer", "1..3", "elect l", loop(*READ, STORE, *release)),
        bars={"full": 1, "empty": 2}, warps=3,
    )  # fmt: skip


def _two_consumers() -> str:
    one = role("left", "1..2", loop(*READ, STORE, "mbarrier.arrive empty[i % S]"))
    read = (*READ[:2], "mbarrier.arrive empty[i % S]")
    two = role(
        "right", "2..3", loop(READ[0], "ld.shared z, tile[i % S][0 : 2]", "compute w = z + 1.0",
                              STORE[:-1] + "w", read[2])
    )  # fmt: skip
    return kernel(PRODUCER, one, two, bars={"full": 1, "empty": 64}, warps=3)


def _prefetch(distance: str, *assume: str, params: tuple[str, ...] = ()) -> str:
    """One warp that loads ``distance`` tiles ahead of what it reads."""
    first = (
        "if p {", f"for i in 0..min({distance}, N) {{", "mbarrier.arrive.expect_tx full[i], 256",
        "bulk.load tile[i], a[i * 64 : 64], full[i]", "}", "}",
    )  # fmt: skip
    d = f"(i + {distance})"
    again = (
        f"if p and {d} < N {{", f"mbarrier.arrive.expect_tx full[{d} % S], 256",
        f"bulk.load tile[{d} % S], a[{d} * 64 : 64], full[{d} % S]", "}",
    )  # fmt: skip
    body = loop(*READ, "fence.proxy.async.shared_cta", "warp.sync", *again, STORE)
    return kernel(
        role("all", "0..1", "elect p", *first, body), bars={"full": 1}, warps=1,
        assume=("S >= 1", *assume), params=("S : i32 = 3", "N : i32 = 5", *params),
    )  # fmt: skip


def _ahead() -> str:
    """Refills the slot that was read one iteration before, before reading: distance S - 1."""
    d = "(i + S - 1)"
    first = (
        "if p {", "for i in 0..min(S - 1, N) {", "mbarrier.arrive.expect_tx full[i], 256",
        "bulk.load tile[i], a[i * 64 : 64], full[i]", "}", "}",
    )  # fmt: skip
    again = (
        f"if p and {d} < N {{", f"mbarrier.arrive.expect_tx full[{d} % S], 256",
        f"bulk.load tile[{d} % S], a[{d} * 64 : 64], full[{d} % S]", "}",
    )  # fmt: skip
    body = loop(*again, *READ, "fence.proxy.async.shared_cta", "warp.sync", STORE)
    return kernel(
        role("all", "0..1", "elect p", *first, body), bars={"full": 1}, warps=1, assume=("S >= 2",),
    )  # fmt: skip


def _threads_write() -> str:
    """A warp fills the ring by plain stores."""
    fill = (
        "mbarrier.wait empty[i % S], (i // S + 1) % 2", "ld.global v, a[i * 64 + tid * 2 : 2]",
        "st.shared tile[i % S][tid * 2 : 2], v", "mbarrier.arrive full[i % S]",
    )  # fmt: skip
    return kernel(role("producer", "0..1", loop(*fill)), CONSUMER, bars={"full": 32, "empty": 32})


def _chained(depth: str, assume: tuple[str, ...], params: tuple[str, ...]) -> str:
    """A ring by bulk copies, a warp that computes into a second ring, and one that stores from that."""
    middle = (
        *READ, f"mbarrier.wait free[i % {depth}], (i // {depth} + 1) % 2",
        f"st.shared mid[i % {depth}][tid % 32 * 2 : 2], y",
        "mbarrier.arrive empty[i % S]", f"mbarrier.arrive ready[i % {depth}]",
    )  # fmt: skip
    last = (
        f"mbarrier.wait ready[i % {depth}], (i // {depth}) % 2",
        f"ld.shared z, mid[i % {depth}][tid % 32 * 2 : 2]",
        "compute w = z + 1.0", f"mbarrier.arrive free[i % {depth}]",
        "st.global out[i * 64 + tid % 32 * 2 : 2], w",
    )  # fmt: skip
    bars = {"full": 1, "empty": 32, "ready": 32, "free": 32}
    return kernel(
        PRODUCER, role("middle", "1..2", loop(*middle)), role("last", "2..3", loop(*last)),
        bars=bars, warps=3, assume=("S >= 1", *assume), params=("S : i32 = 2", "N : i32 = 5", *params),
        buffers=("tile : f32[S, 64]", f"mid : f32[{depth}, 64]"), depth={"ready": depth, "free": depth},
    )  # fmt: skip


def _staged_store() -> str:
    """Tiles written by a warp and stored by bulk copies from S staging buffers."""
    body = loop(
        "if p {", "bulk.wait.read S - 1", "}", "warp.sync", "ld.global v, a[i * 64 + tid * 2 : 2]",
        "st.shared tile[i % S][tid * 2 : 2], v", "fence.proxy.async.shared_cta", "warp.sync",
        "if p {", "bulk.store out[i * 64 : 64], tile[i % S]", "bulk.commit", "}",
    )  # fmt: skip
    return kernel(role("all", "0..1", "elect p", body, "if p {", "bulk.wait.read 0", "}"), bars={}, warps=1)


def _block_barrier() -> str:
    """No empty barriers: the block's barrier releases a slot, which is filled S tiles ahead."""
    return _prefetch("S").replace("warp.sync", "bar.sync 0")


def _turns() -> str:
    """Two warps read in turn, handing over by a pair of barriers."""
    read = (
        "mbarrier.wait turn[{g}], (i + {q}) % 2", *READ, "mbarrier.arrive empty[i % S]",
        "mbarrier.arrive turn[{h}]",
    )  # fmt: skip
    left = role("left", "1..2", loop(*(x.format(g=0, h=1, q=1) if "turn" in x else x for x in read)))
    right = role("right", "2..3", loop(*(x.format(g=1, h=0, q=0) if "turn" in x else x for x in read)))
    return kernel(
        PRODUCER, left, right, bars={"full": 1, "empty": 64, "turn": 32}, warps=3, depth={"turn": "2"}
    )


def _deferred() -> str:
    """Each slot is released one tile late, the last one behind the loop."""
    body = loop(
        *READ, "if i > 0 {", "mbarrier.arrive empty[(i - 1) % S]", "}", STORE,
    )  # fmt: skip
    return kernel(
        PRODUCER, role("consumer", "1..2", body, "mbarrier.arrive empty[(N - 1) % S]"), bars=COUNTS,
        assume=("S >= 2", "N >= 1"),
    )  # fmt: skip


def _two_copies() -> str:
    load = (
        *LOAD[:1], "mbarrier.arrive.expect_tx full[i % S], 512", *LOAD[2:],
        "bulk.load other[i % S], a[i * 64 : 64], full[i % S]",
    )  # fmt: skip
    read = (*READ[:2], "ld.shared z, other[i % S][tid % 32 * 2 : 2]", "compute y = x * z")
    return kernel(
        role("producer", "0..1", loop(*load), once=True),
        role("consumer", "1..2", loop(*read, STORE, "mbarrier.arrive empty[i % S]")),
        bars=COUNTS, buffers=("tile : f32[S, 64]", "other : f32[S, 64]"),
    )  # fmt: skip


def _expect_apart() -> str:
    load = (*LOAD[:1], "mbarrier.expect_tx full[i % S], 256", LOAD[2], "mbarrier.arrive full[i % S]")
    return kernel(role("producer", "0..1", loop(*load), once=True), CONSUMER, bars=COUNTS)


def _two_rings() -> str:
    """Two rings with depths of their own, filled by one producer, drained by one consumer."""
    other = [x.replace("% S", "% T").replace("// S", "// T") for x in (*LOAD, *READ)]
    names = (("tile", "keys"), ("full", "kf"), ("empty", "ke"), (" x", " u"), (" y", " v"))
    for old, new in names:
        other = [x.replace(old, new) for x in other]
    body = (
        *READ, STORE, "mbarrier.arrive empty[i % S]", *other[3:], "mbarrier.arrive ke[i % T]",
    )  # fmt: skip
    return kernel(
        role("producer", "0..1", loop(*LOAD, *other[:3]), once=True), role("consumer", "1..2", loop(*body)),
        bars={"full": 1, "empty": 32, "kf": 1, "ke": 32}, depth={"kf": "T", "ke": "T"},
        params=("S : i32 = 2", "T : i32 = 3", "N : i32 = 5"), assume=("S >= 1", "T >= 1"),
        buffers=("tile : f32[S, 64]", "keys : f32[T, 64]"),
    )  # fmt: skip


def _double() -> str:
    text = kernel(PRODUCER, CONSUMER, bars=COUNTS, buffers=("tile : f32[2 * S, 64]",),
                  depth={"full": "2 * S", "empty": "2 * S"})  # fmt: skip
    return text.replace("% S", "% (2 * S)").replace("// S", "// (2 * S)")


def _masked() -> str:
    load = [x.replace("(i // S + 1) % 2", "(i // S) & 1 ^ 1") for x in LOAD]
    read = [x.replace("(i // S) % 2", "(i // S) & 1") for x in READ]
    return kernel(
        role("producer", "0..1", loop(*load), once=True),
        role("consumer", "1..2", loop(*read, STORE, "mbarrier.arrive empty[i % S]")), bars=COUNTS,
    )  # fmt: skip


def _fenced() -> str:
    """The release is before the first use of what was read: a fence makes it right."""
    body = (*READ[:2], "fence.proxy.async.shared_cta", "mbarrier.arrive empty[i % S]", READ[2], STORE)
    return kernel(PRODUCER, role("consumer", "1..2", loop(*body)), bars=COUNTS)


def _shifted() -> str:
    """Counters start at 1 in one role and at 0 in the other."""
    load = [x.replace("i % S", "j % S").replace("i // S", "j // S").replace("a[i *", "a[j *") for x in LOAD]
    load = [x.replace("j ", "(i - 1) ") for x in load]
    return kernel(role("producer", "0..1", loop(*load, over="1..(N + 1)"), once=True), CONSUMER, bars=COUNTS)


def _handed_back() -> str:
    """Read and overwritten in place by the reader, then stored by a third role."""
    middle = (
        *READ, "st.shared tile[i % S][tid % 32 * 2 : 2], y", "fence.proxy.async.shared_cta",
        "mbarrier.arrive done[i % S]",
    )  # fmt: skip
    last = (
        "mbarrier.wait done[i % S], (i // S) % 2", "bulk.store out[i * 64 : 64], tile[i % S]", "bulk.commit",
        "bulk.wait.read 0", "mbarrier.arrive empty[i % S]",
    )  # fmt: skip
    return kernel(
        PRODUCER, role("middle", "1..2", loop(*middle)), role("last", "2..3", loop(*last), once=True),
        bars={"full": 1, "empty": 1, "done": 32}, warps=3,
    )  # fmt: skip


def _lagging_store() -> str:
    """As before, with one store left in flight: each slot is given back one tile late."""
    text = _handed_back().replace("bulk.wait.read 0", "bulk.wait.read 1")
    text = text.replace(
        "mbarrier.arrive empty[i % S]", "if i > 0 {\nmbarrier.arrive empty[(i - 1) % S]\n}"
    ).replace("assume S >= 1", "assume S >= 2\n  assume N >= 1")
    end = text.rindex("}\n  }\n}")
    return text[:end] + "bulk.wait.read 0\nmbarrier.arrive empty[(N - 1) % S]\n" + text[end:]


GOOD: dict[str, str] = {
    "ring": kernel(PRODUCER, CONSUMER, bars=COUNTS),
    "registers": _registers(),
    "prefilled": _prefilled(),
    "tail": _tail(),
    "leader": _leader(),
    "two consumers": _two_consumers(),
    "prefetch S": _prefetch("S"),
    "prefetch P": _prefetch("P", "P >= 1", "P <= S", params=("P : i32 = 2",)),
    "ahead": _ahead(),
    "threads write": _threads_write(),
    "chained equal": _chained("S", (), ()),
    "chained 2": _chained("2", (), ()),
    "chained T": _chained("T", ("T >= 1",), ("T : i32 = 2",)),
    "staged store": _staged_store(),
    "block barrier": _block_barrier(),
    "turns": _turns(),
    "deferred": _deferred(),
    "two copies": _two_copies(),
    "expect apart": _expect_apart(),
    "two rings": _two_rings(),
    "double": _double(),
    "masked": _masked(),
    "fenced": _fenced(),
    "shifted": _shifted(),
    "handed back": _handed_back(),
    "lagging store": _lagging_store(),
}
