"""Reasons keep their causes through composition, copies and other processes."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest

from syncverify.base.reason import Cause, Reason, as_data, caused, has, heard, kind_of, made_of, reason_of
from syncverify.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
#: A message whose text is looked into: of a reason, a finding, or what a value depends on.
_MATCHED = re.compile(
    r"\b(why|reason|message)\.split\(|\bin \w+\.message\b|\bin str\((\w+\.)*(reason|e)\)"
    r"|reason( or \"\")?\)?\.(startswith|endswith)\("
)
WHY = Reason("data (ld.shared.u32 at k.ptx:7)", Cause.SHARED_CONTENTS)


def test_a_reason_is_its_text() -> None:
    assert WHY == "data (ld.shared.u32 at k.ptx:7)"
    assert repr(WHY) == repr(str(WHY))
    assert hash(WHY) == hash(str(WHY))


def test_parts_keep_their_causes() -> None:
    longer = Reason(f"a branch depends on {WHY}", parts=(WHY,))
    outer = Reason(f"k.ptx:9: {longer}", Cause.BUDGET, parts=(longer,))
    assert has(outer, Cause.SHARED_CONTENTS)
    assert made_of(outer, WHY) and made_of(WHY, WHY) and not made_of(outer, "data")
    assert outer.kind is Cause.BUDGET and longer.kind is Cause.SHARED_CONTENTS


def test_the_text_alone_has_no_cause() -> None:
    assert not has(str(WHY + "x"), Cause.SHARED_CONTENTS)
    assert kind_of("data (ld.shared)") is Cause.UNDECIDED
    assert kind_of(None) is None


def test_a_cause_is_given_only_to_what_has_none() -> None:
    assert caused(WHY, Cause.UNSUPPORTED).kind is Cause.SHARED_CONTENTS
    assert caused("x", Cause.UNSUPPORTED).kind is Cause.UNSUPPORTED


def test_pickled_and_raised() -> None:
    again = pickle.loads(pickle.dumps(WHY))
    assert (again, again.causes, again.of) == (WHY, WHY.causes, WHY.of)
    assert has(reason_of(ValueError(WHY)), Cause.SHARED_CONTENTS)
    assert reason_of(KeyError(3)) == "3"


def test_as_plain_data() -> None:
    outer = Reason(f"a branch depends on {WHY}", parts=(WHY,))
    again = heard(json.loads(json.dumps(as_data(outer))))
    assert (again, again.causes, again.of) == (outer, outer.causes, outer.of)
    assert heard("a text").causes == heard({"text": "x", "causes": ["magic", 3]}).causes == frozenset()


PTX = """\
.version 8.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {block} {{
  .reg .pred %p<2>; .reg .b64 %rd<2>; .reg .b32 %r<4>; .shared .align 8 .b8 s[64];
  ld.param.u64 %rd0, [p];
  ld.param.u32 %r0, [n];
  mov.u32 %r1, 0;
  {line}
L: setp.ge.u32 %p0, %r1, %r0;
  @%p0 bra E;
  bar.sync 0;
  add.u32 %r1, %r1, 1;
  bra L;
E: ret;
}}
"""


@pytest.mark.parametrize(
    ("line", "block", "kind"),
    [
        ("bar.sync 1, 96;", "", "missing-fact"),  # usual blocks do not agree
        ("ld.volatile.global.u32 %r0, [%rd0];", ".reqntid 32", "data"),
        pytest.param(
            "ld.global.u32 %r0, [%rd0]; mov.u32 %r1, %laneid;",
            ".reqntid 32",
            "global-data",
            marks=pytest.mark.slow,
        ),
        ("stacksave.u32 %r1;", ".reqntid 32", "unsupported"),
    ],
)
def test_json_has_the_kind(
    tmp_path: Path, line: str, block: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(PTX.format(target="sm_90a", block=block, line=line))
    assert run(["check", str(path), "--format", "json"]) == 3
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["reason_kind"] == kind
    assert isinstance(kernel["reason"], str)


def test_no_reason_is_matched_as_text() -> None:
    """Control that reads the text of a message changes when somebody rewords it."""
    found = [
        f"{path.relative_to(ROOT)}:{n}"
        for path in sorted((ROOT / "syncverify").rglob("*.py"))
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if _MATCHED.search(line)
    ]
    assert found == []
