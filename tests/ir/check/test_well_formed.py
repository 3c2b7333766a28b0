"""What is well formed, what is not, and what is left to the checker."""

from __future__ import annotations

import pytest

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.check.well_formed import problems, verify
from syncverify.ir.expr import Expr, Int, Var
from syncverify.ir.text.parser import parse
from tests.ir.text.test_parser import EXAMPLE

HEADER = """
  launch grid [4] block [256] cluster [2] registers 128
  param N : i32 = 8
  tensor a : f32[64] in
  tensor o : f32[64] inout
  tensor m : bf16[128, 64] inout
  tensormap M of m box [64, 64]
  shared t : f32[2, 64]
  shared q : bf16[64, 64]
  shared p : bf16[64, 32]
  mbarrier full[2]
  mbarrier one
  fragment acc : f32[64, 64]
  fragment odd : f32[64, 60]
"""


def kernel(text: str) -> nodes.Kernel:
    return parse(f"kernel k {{{HEADER}{text}\n}}")[0]


def found(text: str) -> list[str]:
    return [p.message for p in problems(kernel(text)) if p.level == "error"]


def test_the_documented_example_is_well_formed() -> None:
    assert problems(parse(EXAMPLE)[0]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # names and kinds
        ("mbarrier.wait fulk[0], 0", "there is no mbarrier named fulk (did you mean full?)"),
        ("mbarrier.wait t[0], 0", "t is a shared buffer, not a mbarrier"),
        ("mbarrier.wait full, 0", "full is an array of mbarriers; which one"),
        ("ld.shared x, full", "full is a mbarrier, not a shared buffer"),
        ("st.shared t[0], x", "x is not declared, or not set before this place"),
        ("bar.sync r", "r is not declared"),
        ("r = 3", "r is set before it is declared; write: let r = ..."),
        ("N = 3", "N is a parameter and cannot be set"),
        ("let t = 3", "t is a shared buffer and cannot be set"),
        ("for i in 0..4 {\n i = 2\n}", "loop variable i cannot be set"),
        ("for i in 0..4 {\n let i = 2\n}", "loop variable i cannot be set"),
        ("for i in 0..4 {\n for i in 0..4 {\n}\n}", "loop variable i is that of a loop around it"),
        ("for i in 0..4 {\n}\nbar.sync i", "i is not declared"),
        ("let r = 1\nlet r = 2", "r hides the r of line"),
        ("let r = 1\nif tid == 0 {\n let r = 2\n}", "r hides the r of line"),
        ("let r = 1\nif tid == 0 {\n} else {\n let r = 2\n}", "set that one (r = ...), or use two names"),
        ("let r = 1\nfor i in 0..4 {\n let r = i\n}", "r hides the r of line"),
        ("let r = 1\nrole x warps 0..1 {\n for i in 0..4 {\n let r = i\n}\n}", "r hides the r of line"),
        ("let i = 1\nfor i in 0..4 {\n}", "i hides the i of line"),
        ("let r = 1\nif tid == 0 {\n elect r\n}", "r hides the r of line"),
        ("for i in 0..4 step 0 {\n}", "the step of loop i must be at least 1"),
        ("for i in 0..4 unroll 0 {\n}", "the unroll factor of loop i"),
        ("ld.shared x, t[0]\nbar.sync x", "x is a value; control, indices and sizes need an integer"),
        ("ld.shared x, t[0]\nlet x = 1", "x is an integer in one place and a value in another"),
        ("elect a", "a is a tensor and cannot be set"),
        ("bar.sync 1.5", "an index expression has integers only"),
        ("let r = 4 / 2", "'/' divides values"),
        ("let r = exp(2)", "exp is a function of values"),
        ("let r = abs(2, 3)", "abs takes 1 arguments, not 2"),
        ("compute y = fma(1, 2)", "fma takes 3 arguments, not 2"),
        ("compute y = t", "t is a shared buffer and has no value here"),
        ("ld.shared x, t[0, 0, 0]", "t has 2 dimensions, not 3"),
        ("tma.load q, M[0], one", "tensor map M has 2 dimensions"),
        ("frag.read x, t", "t is a shared buffer, not a fragment"),
        ("tensormap.replace a, rank, 1", "a is a tensor, not a tensor map"),
        ("tensormap.replace M, adress, 1", "there is no tensor map field adress"),
        # immediates
        ("bar.sync 16", "a barrier id must be 0 to 15, not 16"),
        ("bar.sync 1, 48", "a multiple of 32"),
        ("bar.arrive 1, 0", "a multiple of 32"),
        ("barrier.sync 1, 2048", "a multiple of 32"),
        ("mbarrier.init one, 0", "the count of an mbarrier must be 1 to"),
        ("mbarrier.arrive one, count 0", "an arrival count must be 1 to"),
        ("mbarrier.arrive.expect_tx one, 0 - 4", "cannot be negative"),
        ("mbarrier.expect_tx one, -4", "cannot be negative"),
        ("mbarrier.arrive.expect_tx one, 4, count 2", "it takes no count"),
        ("mbarrier.arrive.expect_tx.no_complete one, 4", "has no .no_complete form"),
        ("let k2 = mbarrier.arrive one @ 1", "returns no token"),
        ("mbarrier.wait one, 2", "a parity must be 0 to 1, not 2"),
        ("mbarrier.wait.token one, 1", "names the register that holds it"),
        ("setmaxnreg.inc 20", "a multiple of 8 from 24 to 256, not 20"),
        ("setmaxnreg.inc 100", "a multiple of 8 from 24 to 256, not 100"),
        ("setmaxnreg.dec N", "setmaxnreg takes a number"),
        ("wgmma.wait 8", "wgmma.wait leaves 0 to 7 groups"),
        ("bulk.wait -1", "0 or more groups"),
        ("cp.async.wait 0 - 1", "0 or more groups"),
        # types, directions and orders
        ("bulk.load q, a[0 : 64], one", "shared q holds bf16, tensor a holds f32"),
        ("cp.async q, a[0 : 64]", "shared q holds bf16, tensor a holds f32"),
        ("tma.load t, M[0, 0], one", "shared t holds f32, tensor m holds bf16"),
        ("bulk.store a[0 : 64], t[0]", "tensor a is declared 'in' and written here"),
        ("st.global a[0], 1.0", "tensor a is declared 'in' and written here"),
        ("bulk.reduce.exch o[0 : 64], t[0]", "there is no exch reduction of this kind"),
        ("ld.global.release.gpu x, a[0]", "ld.global cannot be .release"),
        ("st.global.acquire.gpu o[0], 1.0", "st.global cannot be .acquire"),
        ("atom.global.add.acquire.gpu o[0], 1", "a reduction without result cannot be .acquire"),
        ("spin.global.weak.gpu a[0] >= 1", "spin.global cannot be .weak"),
        ("multimem.red.inc o[0], 1", "there is no inc reduction of this kind"),
        ("fence.proxy.tensormap.acquire.gpu", "names the tensor map"),
        ("fence.proxy.tensormap.release.gpu M", "names no tensor map"),
        # roles and wgmma
        ("role r warps 6..9 {\n}", "role r ends at 9, but the block has 8 warps"),
        ("role r warpgroups 0..3 {\n}", "the block has 2 warpgroups"),
        ("role r threads 0..257 {\n}", "the block has 256 threads"),
        ("role r warps -1..2 {\n}", "role r starts at -1"),
        ("wgmma.mma odd, q, q", "N of odd must be a multiple of 8 up to 256, not 60"),
        ("wgmma.mma acc, t[0], q", "wgmma cannot multiply f32 and bf16"),
        ("wgmma.mma acc, p, q", "B of wgmma.mma holds 4096 elements, but K is 32 and N is 64"),
        ("wgmma.mma acc, q[][0 : 512], q", "its K is not a multiple of 16"),
        ("wgmma.mma t, q, q", "t is a shared buffer, not a fragment"),
    ],
)
def test_errors(text: str, message: str) -> None:
    messages = found(text)
    assert len(messages) == 1 and message in messages[0], messages


@pytest.mark.parametrize(
    "text",
    [
        # bugs for the checker
        "mbarrier.init one, 77",
        "mbarrier.wait one, 1",
        "mbarrier.wait full[7], 0",
        "mbarrier.wait one @ 1, 0",
        "mbarrier.init one @ 1, 1",
        "mbarrier.inval one @ 1",
        "bulk.load t[0][1 : 3], a[1 : 3], one",
        "bulk.load t[9][0 : 64], a[0 : 64], one",
        "mbarrier.arrive.expect_tx one, 12345",
        "bulk.copy t[0], t[1], one",
        "cp.async t[0][0 : 3], a[0 : 3]",
        "tma.store M[0, 0], q",
        "bar.sync 1, 512",
        "setmaxnreg.inc 240",
        "role r threads 3..5 {\n elect e\n}",
        "frag.read x, acc",
        # names
        "let r = 1\nr = r + N\nbar.sync r",
        "role u warps 0..1 {\n elect e\n}\nrole v warps 1..2 {\n elect e\n}",
        "if warp == 0 {\n let r = 1\n}\nbar.sync r",
        "if warp == 0 {\n let r = 1\n} else {\n let r = 2\n}\nlet r = 3",
        "for i in 0..4 {\n let r = i\n}\nfor i in 0..4 {\n let r = i\n}",
        "let ph = mbarrier.arrive one\nfor i in 0..2 {\n let ph = mbarrier.arrive one\n}",
        "ld.shared x, t[0]\ncompute y = max(x, 0.0) * tid + N\nst.shared t[0], y",
        "for i in 0..4 {\n}\nfor i in 0..2 {\n}",
        "x = atom.global.add.acq_rel.gpu o[0], 1\nst.global o[1], x",
        "let done = mbarrier.try one, 0\nif done {\n exit\n}",
        "let ph = mbarrier.arrive one\nmbarrier.wait.token one, ph",
        "ldmatrix acc, q",
        "ldmatrix x, q\nstmatrix q, x",
        "wgmma.mma acc, q, q",
    ],
)
def test_accepted(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("launch block [1025]", "block x must be 1 to 1024, not 1025"),
        ("launch block [64, 32]", "a block has at most 1024 threads, not 2048"),
        ("launch block [0]", "block x must be 1 to 1024, not 0"),
        ("launch cluster [17]", "a cluster has 1 to 16 blocks, not 17"),
        ("launch grid [3] cluster [2]", "grid x is 3, which is not a multiple of cluster x, 2"),
        ("launch grid [0]", "grid x must be 1 to"),
        ("launch grid [tid]", "depend on numbers and parameters only"),
        ("launch registers 300", "a thread has 1 to 255 registers"),
        ("launch block [1024] registers 128", "exceed 65536"),
        ("arch sm_80", "is for sm_80; known are sm_90 and sm_90a"),
        ("tensor a : f32[4] in\n tensormap A of a box [4, 4]", "the box of A has 2 sizes, tensor a has 1"),
        ("tensor a : f32[512] in\n tensormap A of a box [257]", "must be 1 to 256"),
        ("tensormap A of a box [4]", "there is no tensor named a"),
        ("tensor a : f32[4, -4] in", "the sizes of tensor a must not be negative"),
        ("shared s : f32[0]", "must be at least 1"),
        ("shared s : f32[M]", "M is not declared"),
        ("shared s : f32[tid]", "depend on numbers and parameters only"),
        ("shared s : f32[4] align 12", "must be a power of two"),
        ("mbarrier b[0]", "must be at least 1"),
        ("fragment f : f32[4]", "has two sizes"),
        ("assume Q > 1", "Q is not declared"),
    ],
)
def test_headers(header: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        verify(parse(f"kernel k {{\n {header}\n}}")[0])
    assert message in caught.value.message
    assert caught.value.span.line >= 1


def test_wgmma_needs_the_a_variant() -> None:
    (k,) = parse("kernel k {\n arch sm_90\n wgmma.commit\n}")
    assert [p.message for p in problems(k)] == ["wgmma needs arch sm_90a"]


def test_the_first_error_is_reported_with_their_number() -> None:
    with pytest.raises(InputError) as caught:
        verify(kernel("bar.sync 16\nbar.sync 17"))
    assert caught.value.message.endswith("not 16 (the first of 2 problems in kernel k)")
    assert caught.value.span.line == 15


def test_long_chains_of_else_if() -> None:
    chain = "if tid == 0 {\n}" + " else if tid == 1 {\n}" * 3000
    assert found(chain) == ["blocks and else-ifs nest deeper than 100"]
    assert found("if tid == 0 {\n}" + " else if tid == 1 {\n}" * 90) == []


def test_nodes_built_by_hand() -> None:
    deep: Expr = Var("tid")
    for _ in range(3000):
        deep = deep + 1
    twice = (nodes.Shared("s", "f32", (Int(1),)), nodes.Shared("s", "f32", (Int(1),)))
    for k, message in [
        (nodes.Kernel("k", body=(nodes.BarrierSync(deep),)), "nests deeper than 200"),
        (nodes.Kernel("k", shared=twice), "s is declared twice, as a shared buffer and as a shared buffer"),
        (nodes.Kernel("k", shared=(nodes.Shared("if", "f32", (Int(1),)),)), "'if' cannot be the name"),
        (nodes.Kernel("k", shared=(nodes.Shared("s", "f99", (Int(1),)),)), "there is no type f99"),
        (nodes.Kernel("k", body=(nodes.Let("not", Int(1)),)), "'not' cannot be the name of a register"),
        (nodes.Kernel("k", shared=twice[:1], body=(nodes.LdShared("x", nodes.Region("s", (), Int(0))),)),
         "a range of s has a start and a count"),
        (nodes.Kernel("k", shared=twice[:1], body=(nodes.LdShared("x", nodes.Region("s", rows=Int(0))),)),
         "rows of s come with a range and a pitch"),
    ]:  # fmt: skip
        assert message in problems(k)[0].message


# ---------------------------------------------------------------- what the solver adds


def notes(text: str) -> list[str]:
    header = "launch grid [N] block [256]\n param N : i32\n assume N >= 4"
    header += "\n shared t : f32[4, 16]\n mbarrier full[4]"
    (k,) = parse(f"kernel k {{\n {header}\n{text}\n}}")
    out = problems(k, prove=True)
    assert all(p.level == "note" for p in out), out
    return [p.message for p in out]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("let r = N % 4\nif r > 4 {\n exit\n}", "this condition never holds"),
        ("if N < 4 {\n exit\n}", "this condition never holds"),
        ("if tid // 32 > 7 {\n exit\n}".replace("tid // 32", "(tid // 32)"), "this condition never holds"),
        ("if block >= grid and block.y > 0 {\n exit\n}", "this condition never holds"),
        ("if tid >= 0 {\n} else {\n exit\n}", "its else is never entered"),
        ("role x warps N..4 {\n}", "no thread is in role x"),
        ("for i in N..4 {\n}", "the loop over i never runs"),
        ("for i in 0..N step 2 {\n if i % 2 == 1 {\n exit\n}\n}", "this condition never holds"),
        ("for i in 4..N + 4 {\n mbarrier.wait full[i], 0\n}", "index i of full is out of bounds"),
        ("ld.shared x, t[N]", "index N of t is out of bounds"),
        ("ld.shared x, t[0][N * 4 : 4]", "the range of t is out of bounds"),
        ("ld.shared x, t[0][15 : 2]", "the range of t is out of bounds"),
    ],
)
def test_notes(text: str, message: str) -> None:
    (note,) = notes(text)
    assert message in note


@pytest.mark.parametrize(
    "text",
    [
        "let r = 0\nif r == 1 {\n exit\n}\nr = 1",
        "if tid == 255 {\n exit\n} else {\n exit\n}",
        "for i in 0..N {\n mbarrier.wait full[i % 4], (i // 4) % 2\n}",
        "role a warps 0..1 {\n elect p\n if p {\n exit\n}\n}\n"
        "role b warps 1..2 {\n elect p\n if not p {\n exit\n}\n}",
        "ld.shared x, t[N - 4][tid % 16 : 1]",
        "for i in 0..N {\n let r = i\n if r == 3 {\n exit\n}\n}\nif N == 4 {\n exit\n}",
    ],
)
def test_no_notes(text: str) -> None:
    assert notes(text) == []


def test_contradicting_assumptions() -> None:
    (k,) = parse("kernel k {\n param N : u32\n assume N < 0\n}")
    assert [p.message for p in problems(k, prove=True)] == [
        "the assumptions of this kernel contradict each other"
    ]
