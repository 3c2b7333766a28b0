"""What ``isspacep`` answers: where the windows of generic addresses begin is the implementation's choice."""

from __future__ import annotations

import pytest

import syncverify
from syncverify.frontends.ptx.analysis.arrays.space_tests import space_answer
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text

BEGIN = "    .shared .align 16 .b8 s[64]; .local .align 16 .b8 l[64]; cvt.u64.u32 %rd9, %tid.x;\n"
SHARED = "mov.u64 %rd1, s; cvta.shared.u64 %rd1, %rd1; add.u64 %rd1, %rd1, %rd9; "
LOCAL = "mov.u64 %rd2, l; cvta.local.u64 %rd2, %rd2; "


@pytest.mark.parametrize(
    ("made", "asked", "answer"),
    [
        (SHARED, "shared", True),
        (SHARED, "shared::cta", True),
        (SHARED, "global", False),
        (LOCAL + "mov.u64 %rd1, %rd2; ", "local", True),
        (LOCAL + "mov.u64 %rd1, %rd2; ", "shared", False),
        ("mov.u64 %rd1, g; cvta.global.u64 %rd1, %rd1; ", "global", True),
        ("mov.u64 %rd1, g; cvta.global.u64 %rd1, %rd1; ", "const", False),
        (SHARED + LOCAL + "setp.lt.u64 %p1, %rd9, 7; selp.b64 %rd1, %rd1, %rd2, %p1; ", "shared", None),
        (SHARED + "mapa.u64 %rd1, %rd1, 1; ", "shared::cta", None),
        ("mov.u64 %rd1, s; ", "shared", None),
        (SHARED + "cvta.to.shared.u64 %rd1, %rd1; ", "shared", None),
        ("mov.u64 %rd1, 5; ", "global", None),
        ("mov.u64 %rd1, 4294967296; ", "shared", None),
        ("ld.param.u64 %rd1, [k_p]; ", "global", None),
        (SHARED + "or.b64 %rd1, %rd1, 4; ", "shared", None),
    ],
)
def test_answers(made: str, asked: str, answer: bool | None) -> None:
    text = module_text(BEGIN + made + f"isspacep.{asked} %p2, %rd1; ret;", ".param .u64 k_p",
                       ".global .align 4 .b8 g[64];\n")  # fmt: skip
    module = parse(text)
    f = module.entries[0]
    flow = Flow(f)
    at = next(k for k, i in enumerate(flow.body) if i.op == "isspacep")
    assert space_answer(flow, at, (*f.params, *f.variables, *module.variables)) is answer


@pytest.mark.parametrize("number", [5, 1 << 32, 1 << 48])
@pytest.mark.parametrize("asked", ["shared", "global"])
@pytest.mark.parametrize("guard", ["@%p2", "@!%p2"])
def test_a_number_decides_nothing(number: int, asked: str, guard: str) -> None:
    """Neither that a warp comes to a barrier alone, nor that it does not."""
    facts = {"kernel": {"k": {"grid": [1], "block": [64], "cluster": [1], "params": {"0": "ptr"}}}}
    body = f"mov.u64 %rd1, {number}; isspacep.{asked} %p2, %rd1; mov.u32 %r1, %tid.x; "
    body += f"setp.gt.u32 %p1, %r1, 31; @%p1 bra X; {guard} bar.sync 1, 64; X: ret;"
    text = module_text(body, ".param .u64 k_p")
    (report,) = syncverify.check(text, facts=facts, replay=False, advice=False)
    assert report.verdict == "unknown"
