"""Rings of two slots, which readers give back a step late: the slot before is the next one as well."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.checker.kernel.protocol import Kind, Loop, Tiles
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from tests.checker.induction.acceptance import of_text
from tests.checker.induction.advanced import ADVANCED, edited

_HEAD, _READER = ADVANCED.split("  role math")
_HEAD = _HEAD.replace("3, 64", "2, 64").replace("[3]", "[2]").replace("0..3", "0..2")
_HEAD = _HEAD.replace("s == 3", "s == 2").replace("q // 3", "q // 2").replace("q % 3", "q % 2")
_HEAD = edited(_HEAD, "assume N >= 1", "assume N >= 2")
TWO_SLOTS = f"""{_HEAD}  role math warps 1..2 {{
    let n = 0
    let first = 1
    for r in block..R step B {{
      for i in 0..N {{
        mbarrier.wait full[n % 2], (n // 2) % 2
        st.shared tile[n % 2][lane * 2 : 2], 1.0
        fence.proxy.async.shared_cta
        if i > 0 {{
          mbarrier.arrive empty[(n + 1) % 2]
        }}
        n = n + 1
      }}
      mbarrier.arrive empty[(n + 1) % 2]
      if first == 1 {{
        mbarrier.wait begun, 0
      }}
      first = 0
    }}
  }}
}}
"""
_BARE = edited(
    TWO_SLOTS,
    "        st.shared tile[n % 2][lane * 2 : 2], 1.0\n        fence.proxy.async.shared_cta\n",
    "",
)
#: The same with barriers alone: it is proved soonest.
BARE = edited(
    _BARE,
    "arrive.expect_tx full[s], 256\n        bulk.load tile[s], a[i * 64 : 64], full[s]\n",
    "arrive full[s]\n",
)
#: All are wrong at these sizes.
SIZE = {"B": 1, "N": 3, "R": 3}
MISTAKES = {
    "a slot is given back before it is read": edited(
        TWO_SLOTS,
        "        mbarrier.wait full[n % 2], (n // 2) % 2\n",
        "        mbarrier.wait full[n % 2], (n // 2) % 2\n        mbarrier.arrive empty[n % 2]\n",
    ).replace("        if i > 0 {\n          mbarrier.arrive empty[(n + 1) % 2]\n        }\n", "")
    .replace("      mbarrier.arrive empty[(n + 1) % 2]\n      if first", "      if first"),
    "the slot that is read is given back instead of the one before": edited(
        TWO_SLOTS, "        if i > 0 {\n          mbarrier.arrive empty[(n + 1) % 2]",
        "        if i > 0 {\n          mbarrier.arrive empty[n % 2]",
    ),
    "the last slot of a tile is not given back": edited(
        TWO_SLOTS, "      mbarrier.arrive empty[(n + 1) % 2]\n      if first", "      if first"
    ),
    "the slot of the next tile is the other one": edited(TWO_SLOTS, "stage = q % 2", "stage = (q + 1) % 2"),
    "the phase stays from tile to tile": edited(
        TWO_SLOTS, "        phase = (phase + q // 2) % 2\n", ""
    ),
    "the loader waits for the phase after": edited(TWO_SLOTS, "empty[s], h ^ 1", "empty[s], h"),
}  # fmt: skip
#: This one is found soonest.
QUICK = ("the last slot of a tile is not given back",)


@pytest.mark.parametrize(
    "text", [BARE, pytest.param(TWO_SLOTS, marks=pytest.mark.slow)], ids=["bare", "whole"]
)
def test_a_slot_that_is_given_back_a_step_late_is_the_one_before(text: str) -> None:
    found = of_text(text)
    assert found.accepted, found
    late = {str(o.index) for p, _ in found.known for r in p.roles for t in r.body if isinstance(t, Tiles)
            for x in t.body if isinstance(x, Loop) for o in x.body
            if o.kind is Kind.ARRIVE and o.ring == "empty"}  # fmt: skip
    assert late == {"n - 1"}


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in MISTAKES]
)
def test_a_mistake_is_not_accepted(what: str) -> None:
    (kernel,) = parse(MISTAKES[what], "wrong.syncir")
    assert check_kernel(kernel, SIZE).verdict is Verdict.REFUTED
    found = of_text(MISTAKES[what])
    assert not found.accepted and found.cause != "no kernel", found
