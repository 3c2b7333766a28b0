"""A planted bug is reported under the rule that the catalogue gives it, first of all errors."""

import random

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from tests.system.random import copies, meetings, rings
from tests.system.random.compare import judge
from tests.system.random.generate import Family

#: Family, bug, the rules that may come first, and the entry of the rulebook's bug catalogue.
PLANTED: tuple[tuple[Family, str, set[str], str], ...] = (
    (rings.ring, "producer-parity", {"SV210"}, "E14"),
    (rings.ring, "consumer-parity", {"SV201", "SV210"}, "E10, E11"),
    (rings.ring, "no-flip", {"SV201"}, "E12"),
    (rings.ring, "flip-each", {"SV201"}, "E13"),
    (rings.ring, "bytes-more", {"SV203"}, "E15"),
    (rings.ring, "tx-overflow", {"SV203"}, "E31"),
    (rings.ring, "dead-copy", {"SV212"}, "E18, of every path"),
    (rings.ring, "full-count", {"SV202"}, "E21"),
    (rings.ring, "empty-more", {"SV202"}, "E21"),
    (rings.ring, "empty-less", {"SV202"}, "E21"),
    (rings.ring, "wrong-barrier", {"SV110", "SV210", "SV203"}, "E9"),
    (rings.ring, "no-init-barrier", {"SV204"}, "E25"),
    (rings.ring, "reinit", {"SV205"}, "E28"),
    (rings.ring, "aliased", {"SV205", "SV208"}, "E29, E30"),
    (rings.ring, "out-of-bounds", {"SV114"}, "outside the buffer"),
    (rings.ring, "ignored-poll", {"SV209"}, "E24"),
    (rings.ring, "late-use", {"SV105"}, "E7"),
    (rings.ring, "early-release", {"SV111"}, "C, GR then AW"),
    (rings.ring, "misplaced-fence", {"SV102"}, "E3"),
    (rings.ring, "wrong-space-fence", {"SV103"}, "E4"),
    (rings.chain, "no-fence", {"SV101"}, "E1"),
    (rings.chain, "wrong-space", {"SV103"}, "E4"),
    (rings.chain, "early-ready", {"SV110"}, "E8"),
    (rings.chain, "release-both", {"SV111"}, "E34"),
    (rings.chain, "no-free-arrive", {"SV210"}, "E67"),
    (copies.store, "no-fence", {"SV101"}, "E1"),
    (copies.store, "early-fence", {"SV102"}, "E3"),
    (copies.store, "wrong-space", {"SV103"}, "E4"),
    (copies.store, "one-fences", {"SV101"}, "G, one writer of several fences"),
    (copies.store, "no-read-wait", {"SV104"}, "E40"),
    (copies.store, "pending-one", {"SV104"}, "E43"),
    (copies.store, "wait-elsewhere", {"SV403"}, "E41"),
    (copies.store, "overwrite-after-store", {"SV104"}, "E40"),
    (copies.store, "no-tail", {"SV211"}, "K21"),
    (copies.cpasync, "no-wait", {"SV110"}, "R6"),
    (copies.cpasync, "no-meeting", {"SV110"}, "R6"),
    (copies.cpasync, "wait-elsewhere", {"SV403"}, "E41"),
    (copies.cpasync, "twice", {"SV112"}, "B30"),
    (copies.handover, "relaxed-wait", {"SV110", "SV112"}, "A10"),
    (copies.handover, "same-start", {"SV210"}, "E69"),
    (copies.handover, "count", {"SV202"}, "E21"),
    (copies.handover, "no-complete", {"SV202"}, "B17"),
    (copies.handover, "write-write", {"SV112"}, "lanes of one instruction"),
    (meetings.named, "count-more", {"SV301"}, "E56"),
    (meetings.named, "disagree", {"SV301"}, "E56"),
    (meetings.named, "arrive-twice", {"SV301"}, "E58"),
    (meetings.named, "whole-cta-in-role", {"SV302"}, "E59"),
    (meetings.named, "early-exit", {"SV301", "SV302"}, "E60"),
    (meetings.lanes, "no-sync-raw", {"SV110"}, "B3"),
    (meetings.lanes, "no-sync-waw", {"SV112"}, "B3"),
    (meetings.lanes, "divergent-elect", {"SV303"}, "E64"),
    (meetings.lanes, "matrix-divergent", {"SV303"}, "E39"),
    (meetings.pool, "too-much", {"SV304"}, "E62"),
    (meetings.pool, "no-dec", {"SV304"}, "E62"),
    (meetings.pool, "partial", {"SV304"}, "E63"),
    (meetings.pool, "unordered-requests", {"SV304"}, "E62, in some runs"),
    (meetings.lifetime, "init-twice", {"SV205"}, "E28"),
    (meetings.lifetime, "inval-early", {"SV205"}, "E29"),
    (meetings.lifetime, "no-meeting-after-init", {"SV204"}, "E25"),
    (meetings.cluster, "remote-wait", {"SV208"}, "E55"),
    (meetings.cluster, "no-init-fence", {"SV204"}, "E27"),
    (meetings.cluster, "cta-scope", {"SV115"}, "E50"),
    (meetings.cluster, "no-fence", {"SV101"}, "E1"),
    (meetings.mma, "no-proxy-fence", {"SV101"}, "E5"),
    (meetings.mma, "no-wgmma-fence", {"SV402"}, "E36"),
    (meetings.mma, "touched-fragment", {"SV402"}, "E36"),
    (meetings.mma, "read-early", {"SV401"}, "E35"),
    (meetings.mma, "wait-lax", {"SV401"}, "E33"),
    (meetings.mma, "no-commit", {"SV401"}, "E38"),
    (meetings.mma, "half-lanes", {"SV303"}, "E39"),
    (meetings.mma, "early-fence", {"SV102"}, "E3"),
)


@pytest.mark.parametrize(
    ("family", "bug", "rules"), [p[:3] for p in PLANTED], ids=[f"{f.__name__}-{b}" for f, b, _, _ in PLANTED]
)
def test_the_rule_of_a_planted_bug_comes_first(family: Family, bug: str, rules: set[str]) -> None:
    for seed in range(3):
        text = family(random.Random(seed), bug).text()
        found = judge(text, Policy.PRACTICAL)
        assert found.verdict is Verdict.REFUTED and not found.problem, f"{found}\n{text}"
        assert found.rules[0] in rules, f"{found}\n{text}"
