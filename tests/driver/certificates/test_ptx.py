"""Certificates of PTX kernels: for numbers and for every size, from the command line and back."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.happens_before.handlers import accesses
from syncverify.cli.main import run
from syncverify.driver import files
from syncverify.driver.certificates import RejectedError, dumps, resealed
from syncverify.frontends.launch_facts import LaunchFacts, facts_for
from tests.driver.certificates.mutate import changed, changes, unordered
from tests.system.small_ptx import read as read_small

PTX = Path(__file__).parents[3] / "corpus" / "ptx"
OPEN = """[kernel.{0}]
block = [160]
grid = ["g"]
[kernel.{0}.params]
0 = "ptr"
1 = "ptr"
2 = {{i32 = "n"}}
"""
#: Changes that are tried in one test, spread evenly.
MOST = 40
HALVES = [0, pytest.param(1, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def open_facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Launch facts of a ring of any length, in a grid of any size."""
    path = tmp_path_factory.mktemp("facts") / "open.toml"
    path.write_text(OPEN.format("bulk_ring"))
    return path


@cache
def source(name: str) -> files.SourceFile:
    return files.read_source(PTX / f"{name}.ptx")


def facts(name: str, path: Path | None = None) -> LaunchFacts:
    return facts_for(str(PTX / f"{name}.ptx"), None if path is None else str(path))


def certificate(name: str, path: Path | None = None) -> str:
    known = facts(name, path)
    reports = files.check_source(source(name), facts=known, scope=ScopeKind.ALL, repairs=False)
    assert [r.verdict for r in reports] == [Verdict.PROVED]
    return dumps(files.certificates(source(name), known, {}, reports))


def judged(data: Any, name: str, path: Path | None = None) -> str | None:
    try:
        files.recheck(json.dumps(resealed(data)), "c.json", source(name), facts(name, path))
    except (RejectedError, InputError) as e:
        return str(e)
    return None


#: Two blocks, of which the second reads what the first writes, with nothing to wait for.
NO_WAIT = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 flag)
.reqntid 32
{
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %d<9>;
  ld.param.u64 %d1, [out]; ld.param.u64 %d4, [flag];
  mov.u32 %r1, %tid.x; mov.u32 %r4, %ctaid.x;
  mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;
  setp.ne.u32 %p1, %r4, 0;
  @%p1 bra R;
  st.global.u32 [%d3], %r1;
  bar.sync 0;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra E;
  red.release.gpu.global.add.u32 [%d4], 1;
  bra E;
R:
  ld.global.u32 %r6, [%d3];
  st.global.u32 [%d3+512], %r6;
E:
  ret;
}
"""
LAST_BLOCKS = Path(__file__).parents[2] / "system" / "small_ptx" / "last_blocks.kernels"
LAST = next(k.text for k in read_small(LAST_BLOCKS) if k.name == "a fence before the count alone")


@pytest.mark.parametrize(
    ("text", "launch", "said"),
    [(NO_WAIT, "grid = [2]\n", "not ordered"), (LAST, "", "brings a race")],
    ids=["no wait", "last block"],
)
def test_what_the_text_contradicts_is_rejected(text: str, launch: str, said: str, tmp_path: Path) -> None:
    """A proof takes for granted that no block reads what another one writes, and that counts order it."""
    path, file = tmp_path / "k.ptx", tmp_path / "k.toml"
    path.write_text(text)
    file.write_text(f"[kernel.k]\nblock = [32]\n{launch}")
    read, known = files.read_source(path), facts_for(str(path), str(file))
    (report,) = files.check_source(read, facts=known, scope=ScopeKind.ALL, repairs=False)
    assert report.verdict is Verdict.REFUTED
    made = files.certificates(read, known, {}, [replace(report, verdict=Verdict.PROVED)])
    with pytest.raises(RejectedError, match=said):
        files.recheck(dumps(made), "c.json", read, known)


@pytest.mark.parametrize("name", ["bulk_ring.good", "wgmma_release.good", "multicast_pair.good"])
def test_numbers(name: str) -> None:
    (done,) = files.recheck(certificate(name), "c.json", source(name), facts(name))
    assert done.kind == "ptx"
    assert sum(done.met.counts.values()) == 1


def test_every_size(open_facts: Path) -> None:
    text = certificate("bulk_ring.good", open_facts)
    (done,) = files.recheck(text, "c.json", source("bulk_ring.good"), facts("bulk_ring.good", open_facts))
    assert done.met.counts["systems"] == 1
    assert done.met.counts["nodes"] > 10
    assert judged(json.loads(text), "bulk_ring.good") is not None  # not with other facts of the launch


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("whole", [False, True])
def test_any_change_is_rejected(whole: bool, half: int, open_facts: Path) -> None:
    path = open_facts if whole else None
    data = json.loads(certificate("bulk_ring.good", path))
    every = [c for c in changes(data) if not unordered(*c)]
    some = every[:: max(1, len(every) // MOST)]
    assert len(some) >= MOST
    assert [c for c in some[half::2] if judged(changed(data, *c), "bulk_ring.good", path) is None] == []


def test_another_kernel_is_rejected() -> None:
    data = json.loads(certificate("bulk_ring.good"))
    assert "no kernel" in str(judged(data, "wgmma_release.good"))
    data["kernels"][0]["kernel"] = "wgmma_release"
    assert "another text" in str(judged(data, "wgmma_release.good"))


def test_what_is_not_proved_has_none() -> None:
    (report,) = files.check_source(source("bulk_ring.bad"), facts=facts("bulk_ring.bad"), repairs=False)
    assert report.verdict is Verdict.REFUTED
    assert files.certificates(source("bulk_ring.bad"), facts("bulk_ring.bad"), {}, [report]) == []


def test_command_line(tmp_path: Path, open_facts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel, out = str(PTX / "bulk_ring.good.ptx"), str(tmp_path / "c.json")
    assert run(["check", kernel, "--launch", str(open_facts), "--certificate", out]) == 0
    assert run(["recheck", out, kernel, "--launch", str(open_facts)]) == 0
    assert "holds for every size" in capsys.readouterr().out
    assert run(["recheck", out, str(PTX / "bulk_ring.bad.ptx"), "--launch", str(open_facts)]) == 1
    assert "another text" in capsys.readouterr().out


GUARDED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 p0)
{
.reg .pred %p<2>;
.reg .b32 %r<4>;
.shared .align 16 .b8 s[16];
mov.u32 %r0, %tid.x;
ld.param.u32 %r1, [p0];
mov.u32 %r2, s;
setp.gt.u32 %p1, %r1, 100;
@%p1 st.shared.u32 [%r2], %r0;
ret;
}
"""


@pytest.mark.parametrize("require", [[], ["--require", "kernel"]])
def test_what_a_proof_rests_on_is_said(
    require: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel, out = tmp_path / "k.ptx", str(tmp_path / "c.json")
    kernel.write_text(GUARDED)
    facts_of = 'block = [32]\ngrid = [1]\nassume = ["n <= 100"]\nparams = {0 = {u32 = "n"}}\n'
    (tmp_path / "k.ptx.launch.toml").write_text(f"[kernel.k]\n{facts_of}")
    assert run(["check", str(kernel), "--certificate", out, *require]) == 0
    capsys.readouterr()
    assert run(["recheck", out, str(kernel)]) == 0
    said = capsys.readouterr().out
    assert "assumed: n <= 100\n" in said and "assumed: arithmetic on open sizes" in said


#: More words than a block has, for large sizes.
LONG = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 v[];
.visible .entry k(.param .u32 p0)
{
.reg .pred %p<2>;
.reg .b32 %r<4>;
ld.param.u32 %r1, [p0];
mov.u32 %r2, v;
mov.u32 %r3, 0;
ROW:
setp.ge.u32 %p1, %r3, %r1;
@%p1 bra END;
st.shared.u32 [%r2], %r3;
bar.sync 0;
add.u32 %r2, %r2, 65536;
add.u32 %r3, %r3, 1;
bra ROW;
END:
ret;
}
"""


def test_recheck_says_where_the_dynamic_memory_has_to_hold_what_is_accessed(tmp_path: Path) -> None:
    kernel = tmp_path / "k.ptx"
    kernel.write_text(LONG)
    known = LaunchFacts({"k": {"block": [1], "grid": [1], "params": {"0": {"u32": "n"}}}}, "")
    found = files.read_source(kernel)
    (report,) = files.check_source(found, facts=known, scope=ScopeKind.ALL, repairs=False)
    assert report.verdict is Verdict.PROVED
    text = dumps(files.certificates(found, known, {}, [report]))
    (done,) = files.recheck(text, "c.json", found, known)
    assert "line 15: the dynamic shared memory holds what is accessed" in done.assumptions


#: Kernels with a race or a missing fence.
RACY = ["wgmma_release", "one_fence", "matrix_store", "signed_steps"]


@pytest.mark.parametrize("sizes", ["numbers", "every size"])
def test_a_checker_that_sees_no_races_has_no_ring_accepted(
    sizes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's judge shares nothing with the handlers, and binds."""
    proved = 0
    open_ = tmp_path / "open.toml"
    open_.write_text(OPEN.format(RACY[0]))
    for name in RACY if sizes == "numbers" else RACY[:1]:
        known = facts(f"{name}.bad", open_ if sizes == "every size" else None)
        reports = files.check_source(source(f"{name}.bad"), facts=known, scope=ScopeKind.ALL, repairs=False)
        assert [r.verdict for r in reports] == [Verdict.REFUTED]
        with monkeypatch.context() as m:
            m.setattr(accesses, "judge", lambda *_, **__: None)
            blind = files.check_source(source(f"{name}.bad"), facts=known, scope=ScopeKind.ALL, repairs=False)
            if [r.verdict for r in blind] != [Verdict.PROVED]:
                continue
            proved += 1
            text = dumps(files.certificates(source(f"{name}.bad"), known, {}, blind))
            try:
                done = files.recheck(text, "c.json", source(f"{name}.bad"), known)
            except RejectedError:
                continue
            assert not any(d.judged for d in done), name
    assert proved >= (3 if sizes == "numbers" else 1)


def test_the_command_line_tells_rejected_from_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, out = str(PTX / "one_fence.bad.ptx"), str(tmp_path / "c.json")
    known = facts_for(bad)
    with monkeypatch.context() as m:
        m.setattr(accesses, "judge", lambda *_, **__: None)
        assert run(["check", bad, "--certificate", out]) == 2
        assert not Path(out).exists()
        assert "is not written: the certificate is rejected" in capsys.readouterr().err
        source = files.read_source(bad)
        Path(out).write_text(
            dumps(files.certificates(source, known, {}, files.check_source(source, facts=known)))
        )
        assert run(["recheck", out, bad]) == 1
    assert "rejected" in capsys.readouterr().out
    good = str(PTX / "bulk_ring.good.ptx")
    assert run(["check", good, "--policy", "strict", "--certificate", out]) == 0
    assert run(["recheck", out, good]) == 3
    assert "not judged by the kernel" in capsys.readouterr().out
