"""Vector accesses are only as wide as their address surely allows."""

from hypothesis import given
from hypothesis import strategies as st

from syncverify.base.nvrtc import compile_source
from syncverify.codegen.alignment import divisor, known_divisors
from syncverify.codegen.cuda import emit
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var, evaluate
from syncverify.ir.text.parser import parse

NAMES = ("a", "b", "c")


def expressions() -> st.SearchStrategy[Expr]:
    leaves = st.one_of(st.integers(-70, 70).map(Int), st.sampled_from(NAMES).map(Var))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(Binary, st.sampled_from(["+", "-", "*", "%", "//", "&", "|", "^"]), inner, inner),
            st.builds(lambda a: Unary("-", a), inner),
            st.builds(lambda a, s: Binary("<<", a, Int(s)), inner, st.integers(0, 6)),
            st.builds(lambda f, a, b: Call(f, (a, b)), st.sampled_from(["min", "max", "cdiv"]), inner, inner),
        ),
        max_leaves=8,
    )


@given(expressions(), st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), min_size=3, max_size=3))
def test_the_divisor_divides_every_value(e: Expr, parts: list[tuple[int, int]]) -> None:
    values = {n: x << s for n, (x, s) in zip(NAMES, parts, strict=True)}
    known = {n: 1 << s for n, (_, s) in zip(NAMES, parts, strict=True)}
    try:
        v = evaluate(e, values)
    except ZeroDivisionError:
        return
    assert v % divisor(e, known) == 0


KERNEL = """
kernel shifted {
  launch grid [1] block [64]
  param C : i32 = 8
  assume C % 4 == 0
  tensor a : f32[1024] in
  tensor out : f32[1024] out
  shared row : f32[260]
  ld.global x, a[(tid * 4 + C) % C : 4]
  st.shared row[][tid * 4 : 4], x
  bar.sync 0
  ld.shared y, row[][tid * 4 + SHIFT : 4]
  st.global out[tid * 4 : 4], y
}
"""


def test_an_odd_shift_narrows_the_access_and_only_that_one() -> None:
    for shift, narrowed in (("0", ""), ("1", "load<1>(y"), ("2", "load<2>(y"), ("4", "")):
        (kernel,) = parse(KERNEL.replace("SHIFT", shift))
        source = emit(kernel)
        body = source[source.index('extern "C"') :]
        assert ("load<" in body or "store<" in body) == bool(narrowed)
        assert narrowed in body
        assert compile_source(source, "shifted").code


def test_a_register_has_the_common_divisor_of_all_it_is_set_to() -> None:
    (kernel,) = parse(
        """
        kernel k {
          launch grid [1] block [32]
          param N : i32 = 3
          let p = 16
          let q = 0
          for i in 0..N {
            p = p + 8
            q = q + N
          }
        }
        """
    )
    known = known_divisors(kernel, {"p", "q"})
    assert (known["p"], known["q"]) == (8, 1)
