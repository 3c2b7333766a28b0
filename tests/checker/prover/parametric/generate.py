"""Random programs with two sizes: tiles of steps through a ring, in several roles, right or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

#: Where a release, a wait or a step may be missing or done twice.
CONDITIONS = (
    "n != {c}", "k != {c}", "t != {c}", "k + 1 < K", "t + 1 < T", "t == 0 or k != {c}", "k > 0 or t == 0",
    "n % {d} != 1", "n + {c} < T * K", "T * K != {c}", "T != {d}", "K != {d}", "K % {d} != 1", "T < K + {c}",
)  # fmt: skip
#: How often a role does its steps: right, or wrong for some sizes.
STEPS = ("max(K, 1)", "K // 2 * 2", "min(K, {d})", "K + (t == {c})", "K - (t + 1 == T and K > {c})")
TILES = ("max(T, 1)", "min(T, {d})", "T // 2 * 2", "T + (K == {d})")
PARITIES = ("min(n // {S}, {c}) % 2", "(t + k // {S}) % 2", "(k // {S}) % 2", "(n // {S} + T) % 2")
ASSUMES = ("K % {S} == 0", "K >= 1", "T >= 1", "K >= {S}", "T <= 3", "K % 2 == 0")


@dataclass
class Role:
    """One role's loops: how it counts its steps, and what it does in each."""

    form: str
    tiles: str = "T"
    steps: str = "K"
    reset: str = ""
    skip: str = ""
    parity: str = ""


def _loops(role: Role, body: str, per_tile: str, stages: int, start: int) -> str:
    """``body`` in the loops of a role; it may use ``n`` (counts all steps), ``t``, ``k``, stage and phase."""
    if role.form == "flat":
        inner = f"let t = (n // max(K, 1))\nlet k = (n % max(K, 1))\n{body}"
        return f"for n in 0..({role.tiles}) * ({role.steps}) {{\n{inner}}}\n"
    if role.form == "product":
        inner = f"for k in 0..({role.steps}) {{\nlet n = t * K + k\n{body}}}\n{per_tile}"
        return f"for t in 0..({role.tiles}) {{\n{inner}}}\n"
    if role.form == "registers":
        wrap = f"stage = stage + 1\nif stage == {stages} {{\nstage = 0\nphase = 1 - phase\n}}\n"
        inner = f"for k in 0..({role.steps}) {{\n{body}{wrap}n = n + 1\n}}\n{per_tile}"
        head = f"let n = 0\nlet stage = 0\nlet phase = {start}\n"
        reset = f"stage = 0\nphase = {start}\n" if role.reset else ""
        return f"{head}for t in 0..({role.tiles}) {{\n{reset}{inner}}}\n"
    inner = f"for k in 0..({role.steps}) {{\n{body}n = n + 1\n}}\n{per_tile}"
    return f"let n = 0\nfor t in 0..({role.tiles}) {{\n{role.reset}{inner}}}\n"


def _role(rng: Random) -> Role:
    return Role(rng.choice(["counter", "counter", "registers", "product", "flat"]))


def _mutate(rng: Random, role: Role, fill: dict[str, int]) -> None:
    kind = rng.choice(["tiles", "steps", "reset", "skip", "skip", "skip", "parity"])
    if kind == "tiles":
        role.tiles = rng.choice(TILES).format(**fill)
    elif kind == "steps":
        role.steps = rng.choice(STEPS).format(**fill)
        role.form = "counter" if role.form == "flat" else role.form
    elif kind == "reset":
        role.form = "counter" if role.form in ("flat", "product") else role.form
        role.reset = "n = 0\n"
    elif kind == "skip":
        role.skip = rng.choice(CONDITIONS).format(**fill)
    else:
        role.parity = rng.choice(PARITIES).format(**fill)


def program(seed: int) -> str:
    """The text of one kernel; a seed names it for ever."""
    rng = Random(seed)
    stages = rng.choice([1, 2, 2, 3])
    consumers = rng.choice([1, 1, 2])
    store = rng.random() < 0.4
    fill = {"c": rng.randrange(6), "d": rng.randrange(2, 5), "S": stages}
    producer, readers = _role(rng), [_role(rng) for _ in range(consumers)]
    for _ in range(rng.choice([0, 0, 0, 1, 1, 1, 2])):
        _mutate(rng, rng.choice([producer, *readers]), fill)
    assumes = ["T >= 0", "K >= 0"]
    if rng.random() < 0.3:
        assumes.append(rng.choice(ASSUMES).format(**fill))
    return _text(stages, producer, readers, store, assumes, rng.random() < 0.3)


def _slot(role: Role, stages: int, lap: int) -> tuple[str, str]:
    if role.form == "registers":
        return "stage", role.parity or "phase"
    again = " + 1" if lap else ""
    return f"n % {stages}", role.parity or f"(n // {stages}{again}) % 2"


def _guarded(condition: str, text: str) -> str:
    return f"if {condition} {{\n{text}}}\n" if condition else text


def _producer(role: Role, stages: int) -> str:
    slot, parity = _slot(role, stages, 1)
    if role.parity and role.form != "registers":
        parity = f"({role.parity} + 1) % 2"
    announce = f"mbarrier.wait empty[{slot}], {parity}\nmbarrier.arrive.expect_tx full[{slot}], 256\n"
    copy = _guarded(role.skip, f"bulk.load tile[{slot}], a[n * 64 : 64], full[{slot}]\n")
    return _loops(role, announce + copy, "", stages, 1)


def _reader(role: Role, stages: int, store: bool) -> str:
    slot, parity = _slot(role, stages, 0)
    release = _guarded(role.skip, f"mbarrier.arrive empty[{slot}]\n")
    read = f"mbarrier.wait full[{slot}], {parity}\nld.shared x, tile[{slot}][lane * 2 : 2]\n"
    return _loops(role, f"{read}fence.proxy.async.shared_cta\n{release}", _SUM if store else "", stages, 0)


_SUM = """mbarrier.wait taken, (t + 1) % 2
st.shared sums[][lane * 2 : 2], 1.0
fence.proxy.async.shared_cta
mbarrier.arrive done
"""

_STORER = """role storer warps {warp}..{warp} + 1 {{
elect q
if q {{
for t in 0..T {{
mbarrier.wait done, t % 2
bulk.store out[t * 64 : 64], sums
bulk.commit
bulk.wait.read 0
mbarrier.arrive taken
}}
}}
}}
"""

_TAIL = """for s in T * K..T * K + {S} {{
mbarrier.wait empty[s % {S}], (s // {S} + 1) % 2
}}
"""

_HEAD = """kernel tiles {{
launch grid [2] block [{threads}]
param T : i32 = 2
param K : i32 = 6
{assumes}
tensor a : f32[T * K * 64 + 64] in
tensor out : f32[T * 64 + 64] inout
shared tile : f32[{S}, 64]
shared sums : f32[64]
mbarrier full[{S}]
mbarrier empty[{S}]
mbarrier done
mbarrier taken
if warp == 0 {{
elect p
if p {{
for s in 0..{S} {{
mbarrier.init full[s], 1
mbarrier.init empty[s], {releases}
}}
mbarrier.init done, 32
mbarrier.init taken, 1
fence.mbarrier_init
}}
}}
bar.sync 0
"""


def _text(
    stages: int, producer: Role, readers: list[Role], store: bool, assumes: list[str], tail: bool
) -> str:
    store = store and readers[0].form != "flat"
    last = len(readers) + 1
    facts = "\n".join(f"assume {f}" for f in assumes)
    text = _HEAD.format(threads=32 * (last + 1), assumes=facts, S=stages, releases=32 * len(readers))
    loads = _producer(producer, stages) + (_TAIL.format(S=stages) if tail else "")
    text += f"role producer warps 0..1 {{\nelect p\nif p {{\n{loads}}}\n}}\n"
    for i, reader in enumerate(readers):
        text += f"role reader{i} warps {i + 1}..{i + 2} {{\n{_reader(reader, stages, store and not i)}}}\n"
    return text + (_STORER.format(warp=last) if store else "") + "}\n"
