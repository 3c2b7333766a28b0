"""Lengths that a kernel loads: words of memory that nobody writes, as sizes without a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind
from syncverify.cli.main import run
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text

PARAMS = ".param .u64 k_lengths, .param .u64 k_out"
#: Warp 0 fills a slot and warp 1 reads it, as often as the word of their block says.
KERNEL = module_text(
    """
    .shared .align 8 .b64 full;
    .shared .align 8 .b64 empty;
    .shared .align 16 .b8 slot[128];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, slot;
    add.u32 %r4, %r4, %r3;
    ld.param.u64 %rd1, [k_lengths];
    ld.param.u64 %rd2, [k_out];
    mov.u32 %r5, %ctaid.x;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd1, %rd3;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [full], 32;
    mbarrier.init.shared::cta.b64 [empty], 32;
READY:
    bar.sync 0;
    mov.u32 %r6, 0;
    mov.u32 %r7, 0;
    setp.gt.u32 %p2, %r1, 31;
    @%p2 bra READER;
    ld.global.b32 %r8, [%rd4];
FILL:
    setp.ge.s32 %p3, %r6, %r8;
    @%p3 bra END;
    xor.b32 %r9, %r7, 1;
FREE:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [empty], %r9;
    @!%p4 bra FREE;
    st.shared.u32 [%r4], %r6;
    mbarrier.arrive.shared::cta.b64 _, [full];
    xor.b32 %r7, %r7, 1;
    add.u32 %r6, %r6, 1;
    bra FILL;
READER:
    ld.global.b32 %r10, [%rd4];
READ:
    setp.ge.s32 %p3, %r6, %r10;
    @%p3 bra END;
TOLD:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], %r7;
    @!%p4 bra TOLD;
    ld.shared.u32 %r11, [%r4];
    st.global.u32 [%rd2], %r11;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    xor.b32 %r7, %r7, 1;
    add.u32 %r6, %r6, 1;
    bra READ;
END:
    ret;
""",
    params=PARAMS,
)
GIVEN = "grid = [2]\n"


def _check(folder: Path, *changes: tuple[str, str], facts: str = "", replay: bool = True) -> KernelReport:
    text = KERNEL
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (path := folder / "k.ptx").write_text(text)
    (launch := folder / "k.toml").write_text(
        f"[kernel.k]\n{facts}block = [64]\ncluster = [1]\n[kernel.k.params]\n"
        '0 = {ptr = "lengths"}\n1 = {ptr = "out"}\n'
    )
    (report,) = check_source(
        read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, replay=replay, repairs=False
    )
    return report


@pytest.mark.parametrize("facts", ["", GIVEN])
def test_a_length_that_is_loaded(tmp_path: Path, facts: str) -> None:
    report = _check(tmp_path, facts=facts)
    assert report.verdict.value == "proved", report.reason
    assert "what lengths leads to stays the same while the kernel runs" in report.assumptions


OTHER = ("ld.global.b32 %r10, [%rd4];", "ld.global.b32 %r10, [%rd4+4];")
ANYWHERE = "    ld.global.u64 %rd5, [%rd2]; st.global.u32 [%rd5], %r11;"
AS_FLOAT = "ld.global.b32 %r10, [%rd4]; setp.gt.f32 %p5, %r10, 0f00000000; @%p5 bra END;"
WRITTEN = ("    st.global.u32 [%rd2], %r11;", "    st.global.u32 [%rd1], %r11;")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([OTHER], id="two words"),
        pytest.param([WRITTEN], id="a word that is written"),
        pytest.param([("ld.global.b32 %r10,", "ld.relaxed.gpu.global.b32 %r10,")], id="a strong load"),
        pytest.param([("setp.ge.s32 %p3, %r6, %r10;", "add.u32 %r12, %r6, 2; setp.ge.s32 %p3, %r12, %r10;")],
                     id="two turns less"),
        pytest.param([("[full], %r7;", "[full], 0;")], id="a wait that does not alternate"),
        pytest.param([("    mbarrier.arrive.shared::cta.b64 _, [empty];\n", "")], id="never told to be free"),
        pytest.param([("    st.global.u32 [%rd2], %r11;", ANYWHERE)], id="a store that may reach it"),
        pytest.param([("ld.global.b32 %r10, [%rd4];", AS_FLOAT)], id="taken as a float"),
    ],
)  # fmt: skip
def test_words_that_do_not_prove(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    assert _check(tmp_path, *changes, replay=False).verdict.value != "proved"


def test_its_certificate(tmp_path: Path) -> None:
    _check(tmp_path)
    kernel, launch, out = (str(tmp_path / name) for name in ("k.ptx", "k.toml", "c.json"))
    assert run(["check", kernel, "--launch", launch, "--certificate", out]) == 0
    assert run(["recheck", out, kernel, "--launch", launch]) == 0
    Path(launch).write_text(Path(launch).read_text().replace("[64]", "[96]"))
    assert run(["recheck", out, kernel, "--launch", launch]) == 1


def test_its_certificate_where_a_parameter_is_open_too(tmp_path: Path) -> None:
    """Every size is looked at first, which decides nothing, and then what is loaded as sizes too."""
    asked = "    ld.param.u32 %r20, [k_n];\n    setp.lt.s32 %p6, %r20, 1;\n    @%p6 bra END;\n    bar.sync 0;"
    text = KERNEL.replace(PARAMS, f"{PARAMS}, .param .u32 k_n").replace("    bar.sync 0;", asked)
    (path := tmp_path / "k.ptx").write_text(text)
    (launch := tmp_path / "k.toml").write_text(
        "[kernel.k]\nblock = [64]\ncluster = [1]\n[kernel.k.params]\n"
        '0 = {ptr = "lengths"}\n1 = {ptr = "out"}\n2 = {i32 = "N"}\n'
    )
    kernel, facts, out = str(path), str(launch), str(tmp_path / "c.json")
    assert run(["check", kernel, "--launch", facts, "--certificate", out]) == 0
    assert run(["recheck", out, kernel, "--launch", facts]) == 0
    launch.write_text(launch.read_text().replace("[64]", "[96]"))
    assert run(["recheck", out, kernel, "--launch", facts]) == 1
