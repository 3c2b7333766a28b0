"""Contested points: what strict refuses and practical accepts with a warning."""

from __future__ import annotations

import pytest

from syncverify.base.contested import CONTESTED
from syncverify.base.diagnostics import Policy, Severity
from syncverify.checker.exact_check import check
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse, parse_file
from syncverify.simulate import ir
from tests.corpus.entries import CORPUS
from tests.fixtures.events import system

FENCED = "ax(f,64) c(f,64,x) w(e,0) pf ax(f,64) c(f,64,x) w(f,1)"
REFILL = "ax(f,64) c(f,64,x) w(e,0) ax(f,64) c(f,64,x) w(f,1)"

#: A copy into another block follows that block's bulk store; its arrival and the wait have the scope given.
COPIED = "w{0}(e,0) cc(y,x@1,b@1,64) ca cw || ax(b,64) s(x) sc sw.read(0) a{0}(e@0) w(b,0) ca cw"

POINTS = [
    # point, program, practical, strict
    ("K1 fence", f"{REFILL} | w(f,0) ld(x,r) pf a(e) use(r)", "proved", "proved"),
    ("K1 used before", f"{REFILL} | w(f,0) ld(x,r) use(r) a(e)", "proved", "refuted"),
    ("K1 acq_rel fence", f"{REFILL} | w(f,0) ld(x,r) fence a(e) use(r)", "proved", "refuted"),
    ("K1 nothing", f"{REFILL} | w(f,0) ld(x,r) a(e) use(r)", "refuted", "refuted"),
    ("K1 producer fences", f"{FENCED} | w(f,0) ld(x,r) a(e) use(r)", "proved", "refuted"),
    ("K2 writer", "st(x) pf a(b) | w(b,0) s(x) sc sw.read(0)", "proved", "proved"),
    ("K2 issuer", "st(x) a(b) | w(b,0) pf s(x) sc sw.read(0)", "proved", "refuted"),
    ("K2 one writer of two", "b=2 :: st(x[0:16]) pf a(b) | st(x[16:32]) a(b) | w(b,0) s(x) sc sw.read(0)",
     "refuted", "refuted"),
    ("K6", "g(x) gc gw(0) a(b) | w(b,0) s(x) sc sw.read(0)", "proved", "refuted"),
    ("K9 .read", "s(x) sc sw.read(0) st(x)", "proved", "proved"),
    ("K10 no fence after init", "ax(b,64) c(b,64,x) | w(b,0) ld(x)", "proved", "proved"),
    ("K3 async access's block", "st(x@1) ca cw || ca cw pf.c s(x) sc sw.read(0)", "proved", "proved"),
    ("K3 writer's block", "st(x@1) pf.c ca cw || ca cw s(x) sc sw.read(0)", "proved", "refuted"),
    ("K3 nothing", "st(x@1) ca cw || ca cw s(x) sc sw.read(0)", "refuted", "refuted"),
    ("K3 another space", "st(x@1) pf ca cw || ca cw s(x) sc sw.read(0)", "refuted", "refuted"),
    ("K4 cta scope, copies", COPIED.format(""), "proved", "refuted"),
    ("K4 cluster scope, copies", COPIED.format(".cl"), "proved", "proved"),
    ("K4 cta scope, generic data", "w(e,0) st(x@1) ca cw || ld(x) a(e@0) ca cw", "refuted", "refuted"),
    ("K5", "w.cl(e,0) cc(y,x@1,b@1,64) ca cw || ax(f,64) c(f,64,x) w(f,0) a.cl(e@0) ax(b,64) w(b,0) ca cw",
     "proved", "proved"),
    ("K11 expect after the issue", "c(b,64,x) ax(b,64) | w(b,0) ld(x)", "proved", "proved"),
    ("K11 expect after the arrival", "a(b) c(b,64,x) e(b,64) | w(b,0) ld(x)", "refuted", "refuted"),
    ("K18 left alone", "ax(b,64) c(b,64,x) w(b,0)", "proved", "proved"),
    ("K18 initialized again", "a(b) w(b,0) init(b,1)", "refuted", "refuted"),
    ("K19", "ax(b,64) c(b,64,x) | w(b,0) ld(x)", "proved", "proved"),
    ("K20", "st(x) fence.sc a.r(b) | w.r(b,0) fence.sc ld(x)", "proved", "proved"),
    ("K20 no fence", "st(x) a.r(b) | w.r(b,0) ld(x)", "refuted", "refuted"),
    ("K21", "s(x) sc sw.read(0)", "proved", "proved"),
    ("K21 not drained", "s(x) sc", "refuted", "refuted"),
    ("K14", "b=2 :: a(b) bar(1,64) a(b) | a(b) bar(1,64) a(b)", "proved", "refuted"),
]  # fmt: skip


@pytest.mark.parametrize(("point", "text", "practical", "strict"), POINTS, ids=[p[0] for p in POINTS])
def test_point(point: str, text: str, practical: str, strict: str) -> None:
    assert check(system(text), Policy.PRACTICAL).verdict.value == practical
    assert check(system(text), Policy.STRICT).verdict.value == strict


@pytest.mark.parametrize(("point", "text", "practical", "strict"), POINTS, ids=[p[0] for p in POINTS])
def test_what_only_strict_refuses_is_a_warning(point: str, text: str, practical: str, strict: str) -> None:
    o = check(system(text), Policy.PRACTICAL)
    contested = {d.contested for d in o.diagnostics if d.severity is Severity.WARNING}
    if (practical, strict) == ("proved", "refuted"):
        assert point.split()[0] in contested
    elif practical == "proved":
        assert not contested


def test_a_remote_arrive_at_cta_scope_names_the_contested_point() -> None:
    path = CORPUS / "rulebook" / "E50_remote_arrive_at_cta_scope.bad.syncir"
    (kernel,) = parse_file(path)
    error = check_kernel(kernel, file=str(path)).diagnostics[0]
    assert (error.rule, error.contested) == ("SV115", "K4")


def _with(text: str, **parts: str) -> str:
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


HANDED_ON = """
kernel handed_on {
  launch grid [2] block [64] cooperative
  tensor ws : f32[64] inout
  tensor flag : u32[1] inout
  shared t : f32[64] align 128
  mbarrier b
  if tid == 0 {
    mbarrier.init b, 1
    fence.mbarrier_init
  }
  bar.sync 0
  if block == 0 {
    WRITE
    bar.sync 0
    if tid == 0 {
      BEFORE
      atom.global.add.release.gpu flag[0], 1
    }
  } else {
    if tid == 0 {
      EARLY
      spin.global.acquire.gpu flag[0] >= 1
      LATE
      USE
    }
  }
}
"""
SHARED = "fence.proxy.async.shared_cta"
STORED = f"st.shared t[][tid:1], 1.0\n    {SHARED}"
STORE = "bulk.store ws[0:64], t\n      bulk.commit\n      bulk.wait 0"
LOADED = "mbarrier.arrive.expect_tx b, 256\n      bulk.load t, ws[0:64], b\n      mbarrier.wait b, 0"
READ = "ld.global x, ws[0:1]\n      st.global ws[1:1], x"
WRITTEN = "st.global ws[tid:1], 1.0"
FENCE = "fence.proxy.async.global"
HANDED = [
    # what, write, before the release, before and after the acquire, use, practical, strict, strict's point
    ("no fence", STORED, STORE, "", "", LOADED, "proved", "refuted", "K16"),
    ("after the acquire", STORED, STORE, "", FENCE, LOADED, "proved", "proved", None),
    ("before the acquire", STORED, STORE, FENCE, "", LOADED, "proved", "refuted", "K16"),
    ("by the writer", STORED, f"{STORE}\n      {FENCE}", "", "", LOADED, "proved", "refuted", "K16"),
    ("shared memory", STORED, STORE, "", SHARED, LOADED, "proved", "refuted", "K16"),
    ("second store", STORED, STORE, "", "", STORE, "proved", "refuted", "K16"),
    ("second store, fenced", STORED, STORE, "", FENCE, STORE, "proved", "proved", None),
    ("generic read", STORED, STORE, "", "", READ, "proved", "proved", None),
    ("generic write", f"{WRITTEN}\n    {FENCE}", "", "", "", LOADED, "proved", "refuted", "K3"),
    ("generic write, fenced", WRITTEN, "", "", FENCE, LOADED, "proved", "proved", None),
    ("generic write, no fence", WRITTEN, "", "", "", LOADED, "refuted", "refuted", None),
]  # fmt: skip


@pytest.mark.parametrize("row", HANDED, ids=[row[0] for row in HANDED])
def test_global_memory_of_another_block(row: tuple[str, ...]) -> None:
    """Which fence counts, by the checker and by the simulator, whose bookkeeping is another one."""
    _, *parts, practical, strict, point = row
    names = ("WRITE", "BEFORE", "EARLY", "LATE", "USE")
    (kernel,) = parse(_with(HANDED_ON, **dict(zip(names, parts, strict=True))), "handed_on.syncir")
    for policy, verdict in ((Policy.PRACTICAL, practical), (Policy.STRICT, strict)):
        report = check_kernel(kernel, {}, policy, "handed_on.syncir")
        assert report.verdict.value == verdict, report.reason
        result = ir.explore(kernel, policy=policy)
        assert result.complete or result.harms
        assert bool(result.harms) == (verdict == "refuted")
    if practical != strict:
        assert {d.contested for d in report.diagnostics if d.severity is Severity.ERROR} == {point}


PRODUCT = """
kernel product {
  launch grid [1] block [160]
  tensor a : bf16[4096] in
  shared x : bf16[64, 64] align 1024 swizzle 128B
  shared y : bf16[64, 64] align 1024 swizzle 128B
  mbarrier full
  fragment acc : f32[64, 64]
  if tid == 128 {
    mbarrier.init full, 1
    fence.mbarrier_init
  }
  bar.sync 0
  if tid == 128 {
    mbarrier.arrive.expect_tx full, 16384
    bulk.load x, a[0 : 4096], full
    bulk.load y, a[0 : 4096], full
  }
  role math warps 0..4 {
    BEFORE
    wgmma.fence
    wgmma.mma acc, x, y, scale_d 0
    wgmma.commit
    AFTER
  }
}
"""
BOX = """
kernel box {
  launch grid [1] block [32]
  tensor a : f32[24, 32] in
  tensor out : f32[64] out
  tensormap A of a box [16, 32]
  shared t : f32[16, 32] align 128
  mbarrier full
  if tid == 0 {
    mbarrier.init full, 1
    fence.mbarrier_init
    mbarrier.arrive.expect_tx full, BYTES
    tma.load t, A[16, 0], full
  }
  warp.sync
  mbarrier.wait full, 0
  ld.shared x, t[0][tid : 1]
  st.global out[tid : 1], x
}
"""
ROLES = """
kernel roles {
  launch grid [1] block [64]
  shared t : f32[32] align 128
  role a warps 0..1 {
    st.shared t[][tid:1], 1.0
    MEET
    ld.shared x, t[][31 - tid:1]
    st.shared t[][31 - tid:1], x
  }
  role b warps 1..2 {
    bar.sync 2, 32
  }
}
"""
WAIT, OVER = "mbarrier.wait full, 0", "wgmma.wait 0"
WROTE = f"{WAIT}\n    st.shared x[][tid * 32 : 32], 1.0"
PART = "if tid < 16 {\n      bar.sync 1, 32\n    }"
KERNELS = [
    # point, kernel, practical, strict
    ("K7 fence of registers", _with(PRODUCT, BEFORE=f"{WROTE}\n    bar.sync 1, 128", AFTER=OVER),
     "refuted", "refuted"),
    ("K7 proxy fence", _with(PRODUCT, BEFORE=f"{WROTE}\n    {SHARED}\n    bar.sync 1, 128", AFTER=OVER),
     "proved", "proved"),
    ("K12 full box", _with(BOX, BYTES="2048"), "proved", "proved"),
    ("K12 bytes inside", _with(BOX, BYTES="1024"), "refuted", "refuted"),
    ("K13 a warp", _with(ROLES, MEET="bar.sync 1, 32"), "proved", "proved"),
    ("K13 part of a warp", _with(ROLES, MEET=PART), "refuted", "refuted"),
    ("K15 wait, then wgmma", _with(PRODUCT, BEFORE=WAIT, AFTER=OVER), "proved", "proved"),
    ("K15 wgmma, then wait", _with(PRODUCT, BEFORE="", AFTER=f"{OVER}\n    {WAIT}"), "refuted", "refuted"),
    ("K24 in flight at the end", _with(PRODUCT, BEFORE=WAIT, AFTER=""), "proved", "refuted"),
]  # fmt: skip


@pytest.mark.parametrize(("point", "text", "practical", "strict"), KERNELS, ids=[k[0] for k in KERNELS])
def test_kernel(point: str, text: str, practical: str, strict: str) -> None:
    (kernel,) = parse(text, "kernel.syncir")
    assert check_kernel(kernel, {}, Policy.PRACTICAL, "kernel.syncir").verdict.value == practical
    report = check_kernel(kernel, {}, Policy.STRICT, "kernel.syncir")
    assert report.verdict.value == strict
    if practical != strict:
        errors = {d.contested for d in report.diagnostics if d.severity is Severity.ERROR}
        assert errors == {point.split()[0]}


#: Points of which something else than this module tests both policies.
ELSEWHERE = {
    "K8": "checker/happens_before/handlers/test_wgmma_rows.py",
    "K22": "frontends/ptx/exec/test_early_exit.py",
    "K23": "frontends/ptx/exec/test_early_exit.py",
    "K25": "frontends/ptx/analysis/warps/test_wgmma_register_hazards.py",
    "K26": "frontends/ptx/analysis/polls/test_fenced_signals.py",
    "K27": "driver/test_collectives_at_two_lines.py",
    "K28": "frontends/ptx/analysis/handover/test_first_guesses.py",
}


def test_every_point_is_tested_by_both_policies() -> None:
    here = {p[0].split()[0] for p in (*POINTS, *KERNELS)} | {row[-1] for row in HANDED if row[-1]}
    assert here | ELSEWHERE.keys() == CONTESTED.keys()
    for place in ELSEWHERE.values():
        text = (CORPUS.parent / "tests" / place).read_text(encoding="utf-8")
        assert "Policy.STRICT" in text or '"strict"' in text
