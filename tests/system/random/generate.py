"""Random small kernels: a protocol that is right, one known bug or none, and sometimes random edits."""

from __future__ import annotations

import random
from collections.abc import Callable

from syncverify.base.diagnostics import Policy
from tests.system.random import copies, meetings, rings
from tests.system.random.program import Program, add_noise, mutate

Family = Callable[[random.Random, str], Program]

#: Each family with the bugs it can plant and its share of all programs.
FAMILIES: tuple[tuple[Family, tuple[str, ...], int], ...] = (
    (rings.ring, rings.BUGS, 9),
    (rings.chain, rings.CHAIN_BUGS, 4),
    (copies.store, copies.STORE_BUGS, 5),
    (copies.cpasync, copies.CPASYNC_BUGS, 3),
    (copies.handover, copies.HANDOVER_BUGS, 6),
    (meetings.named, meetings.NAMED_BUGS, 4),
    (meetings.lanes, meetings.LANE_BUGS, 4),
    (meetings.pool, meetings.POOL_BUGS, 2),
    (meetings.lifetime, meetings.LIFE_BUGS, 3),
    (meetings.cluster, meetings.CLUSTER_BUGS, 3),
    (meetings.mma, meetings.MMA_BUGS, 3),
)

#: Bugs whose rules few others break: drawn more often.
RARE = {
    "late-use": 3, "out-of-bounds": 6, "aliased": 3, "remote-wait": 3, "cta-scope": 7,
    "ignored-poll": 6, "dead-copy": 5, "no-wgmma-fence": 3, "touched-fragment": 3, "early-fence": 2,
    "misplaced-fence": 2, "read-early": 2, "unobserved": 12, "no-wait": 2, "wait-elsewhere": 2,
    "expect-after": 3, "onlooker": 6, "noinc-unbudgeted": 2, "one-releases": 2,
}  # fmt: skip


def program(seed: int) -> Program:
    """The program of a seed."""
    return draw(random.Random(seed))


def draw(rng: random.Random) -> Program:
    """A program: 45% as it should be, 40% with a planted bug, the rest edited at random."""
    family, bugs, _ = rng.choices(FAMILIES, [weight for _, _, weight in FAMILIES])[0]
    kind = rng.random()
    bug = rng.choices(bugs, [RARE.get(b, 1) for b in bugs])[0] if kind < 0.4 else "none"
    made = family(rng, bug)
    if made.family != "pool" and rng.random() < 0.6:  # twelve warps are enough to interleave
        add_noise(rng, made)
    if kind > 0.8 or rng.random() < 0.05:
        for _ in range(rng.choice([1, 1, 2])):
            mutate(rng, made)
    return made


def policy(seed: int) -> Policy:
    """The policy in which a seed's program is judged: one in five strictly, and what only that rejects."""
    return Policy.STRICT if seed % 5 == 4 or program(seed).bug == "unobserved" else Policy.PRACTICAL
