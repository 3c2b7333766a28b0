"""shfl, vote, match, redux and mma by part of a warp: the lanes of the mask come to them."""

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, Severity, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.ptx.analysis.warps.collectives import is_collective
from syncverify.frontends.ptx.decode.table import decode, refused
from tests.frontends.ptx.isa.samples import all_rows, choices, function, text

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .f32 x)
.reqntid 64, 1, 1
{{
.reg .pred %p<9>;
.reg .f32 %f<30>;
.reg .b32 %r<40>;
.reg .b64 %rd<20>;
.shared .align 16 .b8 s[1024];
ld.param.u64 %rd1, [p];
ld.param.f32 %f9, [x];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %laneid;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd2, %rd1, %rd3;
ld.global.u32 %r3, [%rd2];
setp.lt.u32 %p1, %r2, 16;
{body}
st.global.u32 [%rd2], %r3;
ret;
}}
"""
LOWER = "@!%p1 bra A; {0} A: {1}"
OPERATIONS = {
    "shfl": "shfl.sync.bfly.b32 %r4|%p2, %r3, 1, 31, {mask};",
    "ballot": "vote.sync.ballot.b32 %r4, %p1, {mask};",
    "all": "vote.sync.all.pred %p2, %p1, {mask};",
    "match": "match.any.sync.b32 %r4, %r3, {mask};",
    "redux": "redux.sync.add.u32 %r4, %r3, {mask};",
}


def verdict(folder: Path, body: str, policy: Policy = Policy.PRACTICAL) -> tuple[Verdict, list[str]]:
    (folder / "k.ptx").write_text(KERNEL.format(body=body))
    (found,) = check_source(read_source(str(folder / "k.ptx")), policy=policy, repairs=False)
    errors = [d for d in found.diagnostics if d.severity is Severity.ERROR]
    return found.verdict, [d.rule for d in errors[:1]]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("policy", Policy)
def test_half_of_a_warp(tmp_path: Path, name: str, policy: Policy) -> None:
    whole, half = (OPERATIONS[name].format(mask=m) for m in ("-1", "65535"))
    bad = (Verdict.REFUTED, ["SV303"])
    assert verdict(tmp_path, LOWER.format(whole, "bar.sync 0;"), policy) == bad  # the rest is at the barrier
    assert verdict(tmp_path, LOWER.format(whole, ""), policy) == bad  # or leaves
    assert verdict(tmp_path, LOWER.format(half, "bar.sync 0;"), policy) == (Verdict.PROVED, [])
    assert verdict(tmp_path, half, policy) == bad  # lanes outside their own mask


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # each half with its own mask, and with the mask of both
        ("@!%p1 bra A; {0} bra B; A: {1} B: bar.sync 0;", (("65535", "4294901760"), Verdict.PROVED)),
        ("@!%p1 bra A; {0} bra B; A: {1} B: bar.sync 0;", (("-1", "-1"), Verdict.PROVED)),
        ("@!%p1 bra A; {0} bra B; A: {1} B: bar.sync 0;", (("-1", "4294901760"), Verdict.REFUTED)),
        # one half comes later, and one waits for what the other does after the exchange
        ("@!%p1 bra A; bar.warp.sync 65535; A: {0} bar.sync 0;", (("-1", "-1"), Verdict.PROVED)),
        ("@!%p1 bra A; bar.sync 1, 64; A: {0} @%p1 bra B; bar.sync 1, 64; B:",
         (("-1", "-1"), Verdict.REFUTED)),
        # left for good: not waited for, before and after the others have come
        ("@!%p1 exit; {0}", (("-1", "-1"), Verdict.PROVED)),
        ("@!%p1 exit; {0}", (("65535", "-1"), Verdict.PROVED)),
        ("@%p1 bra A; bar.sync 1, 64; exit; A: bar.sync 1, 64; {0}", (("-1", "-1"), Verdict.REFUTED)),
        ("@%p1 bra A; barrier.sync 1, 64; exit; A: barrier.sync 1, 64; {0}", (("-1", "-1"), Verdict.PROVED)),
        # a mask that the lane's number gives
        ("and.b32 %r5, %r2, 24; shl.b32 %r6, 255, %r5; {0}", (("%r6", "-1"), Verdict.PROVED)),
        ("and.b32 %r5, %r2, 28; shl.b32 %r6, 255, %r5; {0}", (("%r6", "-1"), Verdict.REFUTED)),
    ],
)  # fmt: skip
def test_parts_that_meet(tmp_path: Path, body: str, expected: tuple[tuple[str, str], Verdict]) -> None:
    masks, wanted = expected
    text = body.format(*(OPERATIONS["shfl"].format(mask=m) for m in masks))
    assert verdict(tmp_path, text)[0] is wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        # all lanes decide alike
        ("setp.gt.f32 %p3, %f9, 0f00000000; @%p3 bra A; {0} A: bar.sync 0;", Verdict.PROVED),
        # each lane by what it has loaded: with the mask of those that come, or of all
        ("setp.gt.u32 %p3, %r3, 4; vote.sync.ballot.b32 %r6, %p3, -1; @!%p3 bra A; {1} A: bar.sync 0;",
         Verdict.PROVED),
        ("setp.gt.u32 %p3, %r3, 4; vote.sync.ballot.b32 %r6, %p3, -1; @%p3 bra A; {1} A: bar.sync 0;",
         Verdict.UNKNOWN),
        ("setp.gt.u32 %p3, %r3, 4; @%p3 bra A; activemask.b32 %r6; {1} A: bar.sync 0;", Verdict.PROVED),
        ("setp.gt.u32 %p3, %r3, 4; @%p3 bra A; {0} A: bar.sync 0;", Verdict.UNKNOWN),
    ],
)  # fmt: skip
def test_branches_on_data(tmp_path: Path, body: str, wanted: Verdict) -> None:
    text = body.format(*(OPERATIONS["shfl"].format(mask=m) for m in ("-1", "%r6")))
    assert verdict(tmp_path, text)[0] is wanted


MMA = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, " \
      "{%r14, %r15}, {%f1, %f2, %f3, %f4};"  # fmt: skip


@pytest.mark.parametrize(
    ("before", "wanted"), [("", Verdict.REFUTED), ("setp.lt.u32 %p3, %r5, 4;", Verdict.PROVED)]
)
def test_a_predicate_that_the_first_turn_has_not_set(tmp_path: Path, before: str, wanted: Verdict) -> None:
    text = "mov.u32 %r5, 3; BEFORE T: @%p3 bra A; setp.lt.u32 %p3, %r5, 16; {0} A: add.u32 %r5, %r5, 1; " \
           "setp.lt.u32 %p4, %r5, 6; @%p4 bra T;"  # fmt: skip
    text = text.replace("BEFORE", before).format(OPERATIONS["shfl"].format(mask="-1"))
    assert verdict(tmp_path, text)[0] is wanted


def test_a_product_needs_its_whole_warp(tmp_path: Path) -> None:
    assert verdict(tmp_path, MMA)[0] is Verdict.PROVED
    assert verdict(tmp_path, LOWER.format(MMA, "bar.sync 0;")) == (Verdict.REFUTED, ["SV303"])
    assert verdict(tmp_path, f"@!%p1 exit; {MMA}") == (Verdict.REFUTED, ["SV303"])


@pytest.mark.parametrize(("upper", "wanted"), [("4294901760", Verdict.PROVED), ("-1", Verdict.REFUTED)])
def test_halves_that_elect(tmp_path: Path, upper: str, wanted: Verdict) -> None:
    # PTX ISA, elect.sync: the threads of the mask execute it, not the whole warp
    text = "@!%p1 bra A; elect.sync _|%p4, 65535; bra B; A: elect.sync _|%p4, {}; B: bar.sync 0;"
    assert verdict(tmp_path, text.format(upper))[0] is wanted


@pytest.mark.parametrize("name", sorted({row.name for row in all_rows() if row.mask in ("operand", "warp")}))
def test_what_lanes_execute_together_has_one_event(name: str) -> None:
    """The table says who executes it; either it has an event of its own, or it is a collective."""
    for row in (row for row in all_rows() if row.name == name):
        lines = [
            line for words in choices(row, most=3) if (line := text(row, words, optional=True)) is not None
        ]
        for line, f in ((line, function(line)) for line in lines):
            if refused(f.body[0], f) is None:
                assert is_collective(f.body[0]) is (decode(f.body[0], f) is None), line
