"""Blocks that hand on flags, each to the next, in grids of any size; relatives that must not be proved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.certificates import RejectedError, certify, dumps, recheck, resealed
from syncverify.driver.ir import check_kernel
from syncverify.driver.verdicts import text_hash
from syncverify.frontends.ir.flag_chain import flag_tensors
from syncverify.ir.text.parser import parse, parse_file
from syncverify.ir.text.printer import print_kernel
from tests.checker.prover.parametric.brute import assert_exact_alone, checked, fallback
from tests.corpus.entries import CORPUS
from tests.driver.certificates.mutate import changed, changes, unordered

_CHAIN = """kernel chain {{
  launch grid [S] block [64] {launch}
  param S : i32
  {params}
  tensor ws : f32[S * 128 + 256] inout
  tensor flag : u32[S * 4 + 8] inout
  tensor out : f32[S * 128 + 256] inout
  shared tile : f32[128]

  elect p
  {wait}
  {work}
  {go}
}}
"""
_WAIT = """if block > 0 {
    if tid == 0 {
      spin.global.acquire.gpu flag[0] >= block
    }
    bar.sync 0
  }"""
_WORK = """ld.global y, ws[tid * 2 : 2]
  st.global ws[tid * 2 : 2], y + 1.0"""
_GO = """bar.sync 0
  if tid == 0 {
    fence.acq_rel.gpu
    st.global.relaxed.gpu flag[0], block + 1
  }"""
_STORE = """st.shared tile[][tid * 2 : 2], 1.0
  fence.proxy.async.shared_cta
  bar.sync 0
  if warp == 0 and p {
    bulk.store ws[0 : 128], tile
    bulk.commit
    bulk.wait 0
  }"""
_OWN = "st.global ws[block * 128 + tid * 2 : 2], 1.0"
_BEFORE = "if block > 0 {\nld.global y, ws[(block - 1) * 128 + tid * 2 : 2]\n}"
_NEXT = "ld.global y, ws[(block + 1) * 128 + tid * 2 : 2]"
_LAST = "if block == 0 {\nld.global y, ws[(grid - 1) * 128 + tid * 2 : 2]\n}"
_OUT = "st.global out[{} + tid * 2 : 2], 1.0"
_ADDED = "atom.global.add.release.gpu flag[block]"
_RAISE = "if tid == 0 {{\nst.global.release.gpu flag[{}], 1\n}}"
_OTHER = _GO.replace("flag[0]", "flag[1]").replace("tid == 0", "tid == 32")
_ADD = _GO.replace("st.global.relaxed.gpu flag[0], block + 1", "atom.global.add.release.gpu flag[0], 1")


def _chain(
    wait: str = _WAIT, work: str = _WORK, go: str = _GO, launch: str = "cooperative", params: str = ""
) -> str:
    return _CHAIN.format(wait=wait, work=work, go=go, launch=launch, params=params)


def _own(
    look: str = "block - 1", compare: str = ">= 1", at: str = "block", left: str = "1", work: str = _WORK,
    more: str = "",
) -> str:  # fmt: skip
    """A chain in which each block has a flag of its own."""
    wait = _WAIT.replace("flag[0] >= block", f"flag[{look}] {compare}")
    return _chain(wait, work, _GO.replace("flag[0], block + 1", f"flag[{at}], {left}") + "\n" + more)


GOOD = {
    "as it is": _chain(),
    "not all at once": _chain(launch=""),
    "a value that is left again": _chain(wait=_WAIT.replace(">=", "==")),
    "the block after the one before": _chain(wait=_WAIT.replace(">= block", "> block - 1")),
    "the first looks too": _chain(wait=_WAIT.replace("block > 0", "tid >= 0")),
    "everybody looks": _chain(wait="spin.global.acquire.gpu flag[0] >= block"),
    "a fence acquires": _chain(
        wait=_WAIT.replace("acquire.gpu flag[0] >= block", "relaxed.gpu flag[0] >= block\nfence.acq_rel.gpu")
    ),
    "a counter": _chain(go=_ADD),
    "the last says nothing": _chain(go=_GO.replace("tid == 0", "tid == 0 and block + 1 < grid")),
    "the last sets it back": _chain(go=_GO.replace("block + 1", "select(block + 1 == grid, 0, block + 1)")),
    "two flags": _chain(wait=_WAIT + "\n" + _WAIT.replace("flag[0]", "flag[1]"), go=_GO + "\n" + _OTHER),
    "by the async proxy": _chain(work=_STORE),
    "results of their own": _chain(go=f"{_GO}\n{_OUT.format('block * 128')}"),
    "results with gaps": _chain(wait=f"let at = block * 200\n{_WAIT}", go=f"{_GO}\n{_OUT.format('at')}"),
    "parts of their own": _chain(work=f"{_BEFORE}\n{_OWN}"),
    "parts before the wait": _chain(wait=f"{_OWN}\n{_WAIT}", work=_BEFORE),
    "parts of two before": _chain(work=f"{_BEFORE.replace('- 1', '- 2').replace('> 0', '> 1')}\n{_OWN}"),
    "the first one's part": _chain(work=f"ld.global y, ws[tid * 2 : 2]\n{_OWN}"),
    "flags of their own": _own(work=f"{_BEFORE}\n{_OWN}"),
    "left as it is": _own(compare="== 1"),
    "above nothing": _own(compare="> 0"),
    "of another value": _own(compare=">= 2", left="2"),
    "of more than is asked": _own(compare=">= 1", left="7"),
    "of anything": _own(compare="!= 0", left="block + 1"),
    "the flag of the next": _own("block", at="block + 1"),
    "flags with gaps": _own("block * 4 - 4", at="block * 4"),
    "flags that count": _own(compare=">= block", left="block + 1"),
    "added to": _own().replace("st.global.relaxed.gpu flag[block]", _ADDED),
    "any number of turns": _chain(work=f"for i in 0..K {{\n{_WORK}\n}}", params="param K : i32"),
}
#: None may be proved; those with sizes are refuted there.
BAD = {
    "the flag first": (_chain(work="", go=f"{_GO}\n{_WORK}"), {"S": 2}),
    "written before the wait": (_chain(wait=f"st.global ws[tid * 2 : 2], 1.0\n{_WAIT}"), {"S": 2}),
    "a higher block": (
        _chain(wait=_WAIT.replace("> 0", "+ 1 < grid").replace(">= block", ">= block + 2")), {"S": 3}
    ),
    "no acquire": (_chain(wait=_WAIT.replace("acquire", "relaxed")), {"S": 2}),
    "no fence": (_chain(go=_GO.replace("fence.acq_rel.gpu\n", "")), {"S": 2}),
    "a fence of one CTA": (_chain(go=_GO.replace("acq_rel.gpu", "acq_rel.cta")), {"S": 2}),
    "an acquire of one CTA": (_chain(wait=_WAIT.replace("acquire.gpu", "acquire.cta")), {"S": 2}),
    "the others do not wait": (_chain(wait=_WAIT.replace("bar.sync 0", "")), {"S": 2}),
    "the others are not waited for": (_chain(go=_GO.replace("bar.sync 0\n", "")), {"S": 2}),
    "the last waits for more": (
        _chain(wait=_WAIT.replace(">= block", ">= select(block + 1 == grid, block + 1, block)")), {"S": 2}
    ),
    "the last waits for less": (
        _chain(wait=_WAIT.replace(">= block", ">= select(block + 1 == grid, block - 1, block)")), {"S": 2}
    ),
    "the last does not wait": (_chain(wait=_WAIT.replace("> 0", "> 0 and block + 1 < grid")), {"S": 2}),
    "one lets two go": (_chain(go=_GO.replace("block + 1", "select(block == 3, 5, block + 1)")), {"S": 6}),
    "odd ones do not wait": (_chain(wait=_WAIT.replace("> 0", "% 2 == 0 and block > 0")), {"S": 2}),
    "the last but one sets it back": (
        _chain(go=_GO.replace("block + 1", "select(block + 2 == grid, 0, block + 1)")), {"S": 2}
    ),
    "every lane adds": (_chain(go=_ADD.replace("if tid == 0", "if tid >= 0")), {"S": 3}),
    "by steps of two": (_chain(go=_ADD.replace("], 1", "], 2")), {"S": 3}),
    "read after the flag": (_chain(go=f"{_GO}\nld.global z, ws[tid * 2 : 2]"), {"S": 2}),
    "one of two flags": (_chain(wait=_WAIT, go=_OTHER), {"S": 2}),
    "the store's source only": (_chain(work=_STORE.replace("bulk.wait", "bulk.wait.read")), {"S": 2}),
    "all write one result": (_chain(go=f"{_GO}\nst.global out[tid * 2 : 2], 1.0"), {"S": 2}),
    "results that overlap": (_chain(go=f"{_GO}\n{_OUT.format('block * 127')}"), {"S": 2}),
    "results for every other": (_chain(go=f"{_GO}\n{_OUT.format('block % 2 * 128')}"), {"S": 3}),
    "the last one's with the first": (
        _chain(go=f"{_GO}\n{_OUT.format('select(block + 1 == grid, 0, block * 128)')}"), {"S": 2}
    ),
    "results of the next as well": (
        _chain(go=f"{_GO}\n{_OUT.format('block * 128')}\n{_OUT.format('block * 128 + 128')}"), {"S": 2}
    ),
    "a part after the flag": (_chain(work=_BEFORE, go=f"{_GO}\n{_OWN}"), {"S": 2}),
    "a part before the wait": (_chain(wait=f"{_BEFORE}\n{_WAIT}", work=_OWN), {"S": 2}),
    "the next one's part": (_chain(work=_OWN, go=f"{_GO}\n{_NEXT}"), {"S": 2}),
    "the last one's part": (_chain(work=_OWN, go=f"{_GO}\n{_LAST}"), {"S": 2}),
    "a part that is still stored": (
        _chain(work=_STORE.replace("ws[0", "ws[block * 128").replace("wait", "wait.read") + f"\n{_BEFORE}"),
        {"S": 2},
    ),
    "parts without an acquire": (
        _chain(wait=_WAIT.replace("acquire", "relaxed"), work=f"{_BEFORE}\n{_OWN}"), {"S": 2}
    ),
    "no flag before the first": (_own().replace("if block > 0", "if tid >= 0"), {"S": 1}),
    "its own flag": (_own("block"), {"S": 2}),
    "the flag of two before": (_own("block - 2").replace("if block > 0", "if block > 1"), {"S": 2}),
    "true at launch": (_own(compare=">= 0"), {"S": 2}),
    "anything but what it is left with": (_own(compare="!= 1"), {"S": 2}),
    "less than nothing": (_own(compare="< 1"), {"S": 2}),
    "nothing at the first": (_own(compare=">= 1", left="block"), {"S": 2}),
    "added to by one, and counted": (
        _own(compare=">= block").replace("st.global.relaxed.gpu flag[block]", _ADDED), {"S": 3}
    ),
    "more than it is left with": (_own(compare=">= 2"), {"S": 2}),
    "one flag that is up": (_own("0", at="0"), {"S": 3}),
    "flags of two": (_own("(block - 1) // 2", at="block // 2"), {"S": 3}),
    "strides that differ": (_own("block * 2 - 2"), {"S": 3}),
    "one raises another's": (_own(at="select(block == 3, 4, block)"), {"S": 5}),
    "the first raises another's too": (
        _own(more=f"if block == 0 {{\n{_RAISE.format('5')}\n}}"), {"S": 7}
    ),
    "all raise the next one's too": (_own(more=_RAISE.format("block + 1")), {"S": 3}),
    "a count among flags": (_chain(go=f"{_GO}\n{_RAISE.format('block + 9')}"), {}),
    "a count and flags at one place": (
        _chain(go=f"{_GO}\n{_RAISE.format('block')}").replace("flag[0]", "flag[7]"), {}
    ),
    "own flags without a fence": (_own().replace("fence.acq_rel.gpu\n", ""), {"S": 2}),
    "own flags first": (_own(work="", more=_WORK), {"S": 2}),
    "written in a loop after it": (
        _chain(go=f"{_GO}\nfor i in 0..K {{\n{_WORK}\n}}", params="param K : i32"), {"S": 2, "K": 1}
    ),
    "some do not let go": (_chain(go=_GO.replace("tid == 0", "tid == 0 and block != 2")), {}),
    "twice": (_chain(go=f"{_GO}\n{_GO}"), {}),
    "no flag but data": (_chain(go=_GO.replace(".relaxed.gpu", "")), {}),
    "another lane lets go": (
        _chain(
            wait="if tid == 0 and block > 0 {\nspin.global.acquire.gpu flag[0] >= block\n}", work="",
            go="if tid == 32 {\nfence.acq_rel.gpu\nst.global.relaxed.gpu flag[0], block + 1\n}",
        ), {},
    ),
    "stored in boxes": (
        _chain(work=_STORE.replace("bulk.store ws[0 : 128]", "tma.store box[0]")).replace(
            "  shared", "  tensormap box of ws box [128]\n  shared"
        ), {},
    ),
    "a flag of few bits": (_chain().replace("flag : u32", "flag : u8"), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_blocks_that_hand_on(name: str) -> None:
    report = checked(GOOD[name], name)
    assert (report.verdict, report.scope.kind, fallback(report)) == (Verdict.PROVED, ScopeKind.ALL, None)
    assert len(report.assumptions) == (2 if name == "not all at once" else 1)
    (kernel,) = parse(GOOD[name], name)
    for blocks in (1, 2, 5):
        values = {"S": blocks} | {p.name: 2 for p in kernel.params if p.name != "S"}
        assert check_kernel(kernel, values).verdict is Verdict.PROVED


@pytest.mark.parametrize("name", BAD)
def test_blocks_that_do_not(name: str) -> None:
    text, sizes = BAD[name]
    assert_exact_alone(checked(text, name), sizes)


def test_which_tensors_hold_flags() -> None:
    named = ("let here = block\n  let look = here - 1", "let half = (block // 2)\n  let look = half + 1")
    for text, found in (
        (GOOD["as it is"], {"flag"}),
        (_own("look", at="here").replace("elect p", f"elect p\n  {named[0]}"), {"flag"}),
        (BAD["flags of two"][0], set()),
        (_own("look").replace("elect p", f"elect p\n  {named[1]}"), set()),
        (BAD["stored in boxes"][0], set()),
    ):
        (kernel,) = parse(text)
        assert flag_tensors(kernel) == found, text


def test_a_chain_of_the_corpus_for_every_grid() -> None:
    (kernel,) = parse_file(CORPUS / "idioms/D10b_stream_k_fixup.syncir")
    report = check_kernel(kernel, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("as it is", 9),
        ("flags of their own", 6),
        pytest.param("any number of turns", 9, marks=pytest.mark.slow),
    ],
)
def test_its_certificate(name: str, left: int, half: int) -> None:
    """``left``: so many of its systems the judge leaves to the checker: chains, and flags stored to again."""
    (kernel,) = parse(GOOD[name], name)
    data = json.loads(dumps([certify(kernel, check_kernel(kernel, scope=ScopeKind.ALL))]))
    (done,) = recheck(json.dumps(data), "c.json", {kernel.name: kernel})
    assert (done.kind, done.scope, len(done.met.reasons)) == ("sizes", ScopeKind.ALL, left)
    every = [c for c in changes(data) if not unordered(*c)]
    some = every[:: max(len(every) // 40, 1)]
    for path, how in some[half::2]:
        with pytest.raises((RejectedError, InputError)):
            recheck(json.dumps(resealed(changed(data, path, how))), "c.json", {kernel.name: kernel})


def test_a_certificate_of_another_chain() -> None:
    """The graph of the good kernel proves none of the bad ones that ask the same."""
    (kernel,) = parse(GOOD["as it is"], "good")
    data = json.loads(dumps([certify(kernel, check_kernel(kernel, scope=ScopeKind.ALL))]))
    for name in (
        "the flag first",
        "no acquire",
        "no fence",
        "written before the wait",
        "all write one result",
        "results that overlap",
    ):
        (wrong,) = parse(BAD[name][0], name)
        with pytest.raises((RejectedError, InputError)):
            recheck(json.dumps(_moved(data, wrong.name, BAD[name][0])), "c.json", {wrong.name: wrong})


def _moved(data: Any, name: str, text: str) -> Any:
    """The certificate with the digest of another kernel's text."""
    (kernel,) = parse(text, name)
    out = json.loads(json.dumps(data))
    out["kernels"][0]["text"] = text_hash(print_kernel(kernel))
    return resealed(out)
