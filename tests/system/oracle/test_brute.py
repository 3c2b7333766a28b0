"""The brute-force oracle on programs whose truth is known."""

import pytest

from syncverify.base.diagnostics import Policy
from tests.fixtures.events import system
from tests.system.oracle.brute import explore

CASES = [
    # the programs of the theory, with the harms that some execution shows
    ("e(b,2) c(b,2) | a(b) | w(b,0) ld", {"race", "ub"}, True),
    ("b=1 g=1 :: c(b,2) a(g) | w(b,0) | e(b,2) | w(g,0) a(b)", {"hang", "ub"}, True),
    ("c(b,1) | a(b) | w(b,0) w(b,1)", {"hang"}, True),
    ("a(b) a(b) | w(b,1)", set(), True),
    ("a(b) a(b) | w(b,0)", {"hang"}, False),
    ("b=2 :: a(b) bar(1,64) a(b) | a(b) bar(1,64) a(b)", set(), False),
    ("b=2 :: a(b) a(b) & a(b) a(b)", set(), True),
    ("ax(b,8) st pf c(b,8) | w(b,0) ld", set(), False),
    # hand-overs
    ("st a(b) | w(b,0) ld", set(), False),
    ("st a.r(b) | w(b,0) ld", {"race"}, False),
    ("st fence a.r(b) | w(b,0) ld", set(), False),
    ("st a(b) | w.r(b,0) ld", {"race"}, False),
    ("ld a(b) | w(b,0) st", set(), False),
    ("st bar(1,64) | bar(1,64) ld", set(), False),
    ("st | bar(1,64) ld | bar(1,64)", {"race"}, False),
    ("st ws & ws ld", set(), False),
    ("st & ld", {"race"}, False),
    ("st a(b) | w(b,0) s(x) sc sw.read(0)", {"race"}, False),
    ("st pf a(b) | w(b,0) s(x) sc sw.read(0)", set(), False),
    ("pf st a(b) | w(b,0) s(x) sc sw.read(0)", {"race"}, False),
    ("st pf.g a(b) | w(b,0) s(x) sc sw.read(0)", {"race"}, False),
    ("st pf s(x) sc sw.read(0) st", set(), False),
    ("st pf s(x) sc st sw.read(0)", {"race"}, False),
    ("st pf s(x) sc", {"ub"}, False),
    ("g(x) gc gw(0) a(b) | w(b,0) ld", set(), False),
    ("g(x) gc a(b) | w(b,0) ld", {"race"}, False),
    ("g(x) ga.noinc(b) | w(b,0) ld", set(), False),
    ("g(x) ga(b) | w(b,0) ld", {"hang"}, False),
    ("g(x) ga(b) a(b) | w(b,0) ld", set(), False),
    ("[2] a(b) | w(b,0)", {"hang"}, True),
    ("b=2 :: [2] a(b) | w(b,0)", set(), False),
    # lifetimes
    ("init(b,1) | a(b)", {"ub", "race"}, False),
    ("init(b,1) bar(1,64) | bar(1,64) a(b)", set(), False),
    ("init(b,1) bar(1,64) w(b,0) inval(b) | bar(1,64) a(b)", set(), False),
    ("init(b,1) bar(1,64) inval(b) | bar(1,64) a(b)", {"ub"}, False),
]


@pytest.mark.parametrize(("text", "harms", "mixed"), CASES)
def test_truth(text: str, harms: set[str], mixed: bool) -> None:
    result = explore(system(text))
    assert result.complete
    assert (set(result.harms), result.mixed) == (harms, mixed), result.detail


@pytest.mark.parametrize(
    ("text", "practical", "strict"),
    [
        ("ld(x) a(b) | w(b,0) ax(f,8) c(f,8) | w(f,0)", set(), {"race"}),  # K1, used at once
        ("ld(x,r) a(b) use(r) | w(b,0) ax(f,8) c(f,8) | w(f,0)", {"race"}, {"race"}),
        ("ld(x,r) fence a(b) use(r) | w(b,0) ax(f,8) c(f,8) | w(f,0)", set(), {"race"}),
        ("ld(x,r) pf a(b) use(r) | w(b,0) ax(f,8) c(f,8) | w(f,0)", set(), set()),
        ("ld(x,r) a(b) use(r) | w(b,0) pf ax(f,8) c(f,8) | w(f,0)", set(), {"race"}),  # K2
        ("g(x) gc gw(0) a(b) | w(b,0) s(x) sc sw.read(0)", set(), {"race"}),  # K6
    ],
)
def test_policies(text: str, practical: set[str], strict: set[str]) -> None:
    assert set(explore(system(text), Policy.PRACTICAL).harms) == practical
    assert set(explore(system(text), Policy.STRICT).harms) == strict
