"""Whole statements of PTX that repairs add, in registers that the kernel has: the edited text is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import EditHint, EditKind, Mistake, ScopeKind, Severity, TextEdit, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.driver.repairs.ptx_statements import loop_around, other_start, ptx_statements
from syncverify.frontends.launch_facts import LaunchFacts, read_facts

CORPUS = Path(__file__).parents[3] / "corpus" / "ptx"
RING = Path(__file__).parents[1].joinpath("ring.ptx").read_text("utf-8")
FACTS = """[kernel.tmaring]
grid = [1, 1, 1]
block = [160, 1, 1]
dynamic_smem = 12400
[kernel.tmaring.params]
0 = {tensormap = "map", box = [64, 16], dtype = "f32"}
"""
WAIT = (
    "\t{{\n\t.reg .pred complete;\n\twaitLoop:\n\tmbarrier.try_wait.parity.shared.b64 complete, [{}], {};\n"
)
WAIT += "\t@!complete bra.uni waitLoop;\n\t}}\n"
FREED = "\tmbarrier.arrive.shared::cta.b64 _, [%r38];\n"


@pytest.fixture
def facts(tmp_path: Path) -> LaunchFacts:
    (path := tmp_path / "facts.toml").write_text(FACTS)
    return read_facts(path)


def _mended(path: Path, text: str, facts: LaunchFacts, scope: ScopeKind) -> tuple[Mistake, TextEdit]:
    """The class and the edit of the only error, whose text is proved."""
    path.write_text(text, "utf-8")
    (report,) = check_source(read_source(path), facts=facts, scope=scope, replay=False)
    first = next(d for d in report.diagnostics if d.severity is Severity.ERROR)
    assert first.repair is not None and first.repair.edit is not None, first.message
    edit, lines = first.repair.edit, text.split("\n")
    assert tuple(lines[edit.line - 1 : edit.line - 1 + len(edit.old)]) == edit.old
    lines[edit.line - 1 : edit.line - 1 + len(edit.old)] = edit.new
    path.write_text("\n".join(lines), "utf-8")
    (report,) = check_source(read_source(path), facts=facts, scope=scope, replay=False)
    assert report.verdict is Verdict.PROVED
    return first.repair.mistake, edit


def test_the_ring_itself_is_proved(tmp_path: Path, facts: LaunchFacts) -> None:
    (path := tmp_path / "ring.ptx").write_text(RING)
    (report,) = check_source(read_source(path), facts=facts, scope=ScopeKind.ALL, replay=False)
    assert report.verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("old", "new", "mistake", "added"),
    [
        (WAIT.format("%r48", "%r66"), "", Mistake.MISSING_WAIT, "[%r57+12312], %r66;"),
        (WAIT.format("%r28", "%r62"), "", Mistake.MISSING_WAIT, "[%r33+12288], %r62;"),
        (FREED, "", Mistake.MISSING_ARRIVE, "mbarrier.arrive.shared::cta.b64 _, [%r33+12312];"),
        ("mov.u32 \t%r66, 1;", "mov.u32 \t%r66, 0;", Mistake.FIRST_PARITY, "mov.u32 \t%r66, 1;"),
    ],
    ids=["wait for free", "wait for data", "arrival of one lane of each warp", "first parity"],
)
def test_registers_of_the_loop(
    tmp_path: Path, facts: LaunchFacts, old: str, new: str, mistake: Mistake, added: str
) -> None:
    assert RING.count(old) == 1
    found, edit = _mended(tmp_path / "ring.ptx", RING.replace(old, new), facts, ScopeKind.ALL)
    assert found is mistake and any(added in line for line in edit.new), edit


@pytest.mark.parametrize(
    ("name", "line", "mistake", "added"),
    [
        (
            "tensor_tile",
            63,
            Mistake.MISSING_WAIT,
            "[_ZZ11tensor_tileE4full], 0;",
        ),  # before the loop that reads
        (
            "bulk_ring",
            126,
            Mistake.MISSING_WAIT,
            "[_ZZ9bulk_ringE5empty+8], parity;",
        ),  # the second use of a slot
        ("bulk_ring", 204, Mistake.MISSING_WAIT, "[_ZZ9bulk_ringE4full], %r41;"),
        ("bulk_ring", 108, Mistake.BYTES, "_, [_ZZ9bulk_ringE4full+8], 1024;"),  # of this copy, not of all
        ("bulk_ring", 45, Mistake.MISSING_INIT, "mbarrier.init.shared::cta.b64 [_ZZ9bulk_ringE5empty], 128;"),
    ],
)
def test_variables_of_the_kernel(tmp_path: Path, name: str, line: int, mistake: Mistake, added: str) -> None:
    path = CORPUS / f"{name}.good.ptx"
    lines = path.read_text("utf-8").split("\n")
    assert "mbarrier" in lines[line - 1]
    lines[line - 1] = ""
    facts = read_facts(Path(f"{path}.launch.toml"))
    found, edit = _mended(tmp_path / "kernel.ptx", "\n".join(lines), facts, ScopeKind.EXACT)
    assert found is mistake and any(added in x for x in edit.new), edit


def test_a_commit_in_each_turn_of_the_loop(tmp_path: Path) -> None:
    right = Path(__file__).parents[1].joinpath("multistage.ptx").read_text("utf-8")
    commit = "\tcp.async.commit_group;\n\t// end inline asm\n"
    assert right.count(commit) == 3
    parts = right.rsplit(commit, 1)
    text = "\t// end inline asm\n".join(parts)
    found, edit = _mended(tmp_path / "kernel.ptx", text, LaunchFacts(), ScopeKind.ALL)
    assert (found, edit.new) == (Mistake.MISSING_COMMIT, ("\tcp.async.commit_group;",))
    assert "bra" in text.split("\n")[edit.line - 1]


def test_the_wait_is_a_loop_with_names_of_its_own() -> None:
    lines = [".shared .b64 full;", "wait_again: add.u32 %r9, %r9, 1;", "mbarrier.init.b64 [full], 1;", "ld;"]
    hint = EditHint(EditKind.WAIT, name="full", apart=((3, 0),))
    first = next(ptx_statements(hint, lines, 4)).split("\n")
    assert first == [
        "{", ".reg .pred is_over;", "wait_again2:",
        "mbarrier.try_wait.parity.shared::cta.b64 is_over, [full], 0;", "@!is_over bra wait_again2;", "}",
    ]  # fmt: skip


def test_how_far_variables_lie_apart_is_not_known() -> None:
    lines = [
        ".shared .b64 full[2];",
        ".shared .b64 empty[2];",
        "mov.u32 %r1, full;",
        "add.u32 %r2, %r1, %r3;",
    ]
    lines += ["mbarrier.init.b64 [%r2], 1;", "ld;"]
    other = EditHint(EditKind.ARRIVE, name="empty", apart=((5, 16),))
    assert list(ptx_statements(other, lines, 6)) == []
    same = EditHint(EditKind.ARRIVE, name="full", apart=((5, 8),))
    assert list(ptx_statements(same, lines, 6)) == ["mbarrier.arrive.shared::cta.b64 _, [%r2+8];"]


def test_parities_of_a_loop_that_counts_only() -> None:
    lines = [
        ".shared .b64 full;",
        "L: ld;",
        "add.s32 %r5, %r5, 1;",
        "@%p1 bra L;",
        "mbarrier.init.b64 [full], 1;",
    ]
    assert loop_around(lines, 3) == (2, 4) and loop_around(lines, 5) is None
    hint = EditHint(EditKind.WAIT, 1, name="full", size=3, apart=((5, 0),))
    first = next(ptx_statements(hint, lines, 2)).split("\n")
    assert first[2:4] == [".reg .b32 parity;", "div.u32 parity, %r5, 3;"]
    assert first[4:6] == ["add.u32 parity, parity, 1;", "and.b32 parity, parity, 1;"]


def test_a_register_that_begins_as_another() -> None:
    lines = ["mov.u32 %r1, 0;", "mov.u32 %r2, %r1;", "mbarrier.try_wait.parity.b64 p, [a], %r2;", "exit;"]
    assert list(other_start(lines, 3)) == [(2, "mov.u32 %r2, 1;")]
    assert list(other_start(lines, 4)) == []
