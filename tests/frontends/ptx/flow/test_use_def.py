"""What values are computed of, by whatever path and guard."""

from __future__ import annotations

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.syntax.parser import parse

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p<2>;
.reg .b32 %r<6>;
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [p];
ld.global.u32 %r1, [%rd1];
mov.u32 %r2, 3;
L:
add.u32 %r2, %r2, %r1;
setp.lt.u32 %p1, %r2, 9;
@%p1 bra L;
mov.u32 %r3, %r2;
@%p1 mov.u32 %r3, 0;
mov.u32 %r4, 5;
st.global.u32 [%rd1], %r3;
ret;
}
"""


def made_of(name: str, **options: object) -> set[str]:
    """The registers that are behind one where it is stored."""
    flow = Flow(parse(TEXT, "k.ptx").entries[0])
    k = next(k for k, i in enumerate(flow.body) if i.op == "st")
    return {flow.versions.name[v] for v in behind(flow, [flow.versions.read(name, k)], **options)}  # type: ignore[arg-type]


def test_guards_what_they_leave_and_turns_of_loops_are_followed() -> None:
    assert made_of("%r3") == {"%r3", "%r2", "%r1", "%rd1", "%p1"}


def test_registers_that_do_not_count_are_left_out() -> None:
    """What a guarded write leaves counts in any case."""
    assert made_of("%r3", names=lambda i: ()) == {"%r3"}
    assert made_of("%r4") == {"%r4"}


def test_each_version_comes_once() -> None:
    flow = Flow(parse(TEXT, "k.ptx").entries[0])
    k = next(k for k, i in enumerate(flow.body) if i.op == "st")
    found = list(behind(flow, [flow.versions.read("%r3", k)]))
    assert len(found) == len(set(found))
