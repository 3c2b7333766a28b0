"""The text form: what is read, where spans point, and what each mistake is told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.expr import Binary, Call, Expr, Float, Int, Unary, Var
from syncverify.ir.text.forms import FORMS, Form
from syncverify.ir.text.parser import parse, parse_file

DOCUMENT = Path(__file__).parents[3] / "docs" / "syncir.md"
EXAMPLE = DOCUMENT.read_text().split("```")[1]


def body(text: str) -> tuple[nodes.Stmt, ...]:
    return parse(f"kernel k {{\n{text}\n}}")[0].body


def expr(text: str) -> Expr:
    (s,) = body(f"let r = ({text})")
    assert isinstance(s, nodes.Let)
    return s.value


def error(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse(text)
    return str(caught.value)


def mistake(line: str) -> str:
    """The message for one wrong statement, without its place."""
    return error(f"kernel k {{\n  {line}\n}}").partition(": ")[2]


# ---------------------------------------------------------------- what is read


def test_the_documented_example() -> None:
    (k,) = parse(EXAMPLE, "ring.syncir")
    assert k.name == "ring"
    assert k.launch.block == (160, 1, 1)
    assert k.launch.grid[0] == Call("cdiv", (Var("N"), Int(4)))
    assert k.launch.registers == 168
    assert [b.name for b in k.barriers] == ["full", "empty"]
    producer = k.body[2]
    assert isinstance(producer, nodes.Role) and producer.unit == "warps"
    assert (producer.lo, producer.hi) == (Int(4), Int(5))


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.mnemonic)
def test_every_mnemonic_is_documented(form: Form) -> None:
    assert form.mnemonic in DOCUMENT.read_text()


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("i // 2 % 2", Binary("%", Binary("//", Var("i"), Int(2)), Int(2))),
        ("a - b - c", Binary("-", Binary("-", Var("a"), Var("b")), Var("c"))),
        ("a + b * c", Binary("+", Var("a"), Binary("*", Var("b"), Var("c")))),
        ("a & 1 == 0", Binary("==", Binary("&", Var("a"), Int(1)), Int(0))),
        ("not a == b and c or d", Binary("or", Binary("and", Unary("not", Binary("==", Var("a"), Var("b"))),
                                                      Var("c")), Var("d"))),
        ("-1", Int(-1)),
        ("-(1)", Unary("-", Int(1))),
        ("-a * b", Binary("*", Unary("-", Var("a")), Var("b"))),
        ("a - -1", Binary("-", Var("a"), Int(-1))),
        ("a and 0", Binary("and", Var("a"), Int(0))),
        ("0xff", Int(255)),
        ("1e-3 + 0.5", Binary("+", Float(0.001), Float(0.5))),
        ("-inf", Float(float("-inf"))),
        ("nan + x", Binary("+", Float(float("nan")), Var("x"))),
        ("tid.x + block.y", Binary("+", Var("tid.x"), Var("block.y"))),
        ("cast.bf16(x)", Call("cast.bf16", (Var("x"),))),
        ("1 << 2 + 3", Binary("<<", Int(1), Binary("+", Int(2), Int(3)))),
    ],
)  # fmt: skip
def test_expressions(text: str, tree: Expr) -> None:
    assert expr(text) == tree


def test_operators_at_statement_level() -> None:
    assert body("let x = x and 0") == (nodes.Let("x", Binary("and", Var("x"), Int(0))),)
    assert body("x = -1") == (nodes.Assign("x", Int(-1)),)


def test_two_slashes_divide_in_brackets_and_comment_outside() -> None:
    (s,) = body("mbarrier.wait full[i // 2], (i // 2) % 2 // the second half")
    assert isinstance(s, nodes.MbarrierWait)
    assert s.bar.index == Binary("//", Var("i"), Int(2))
    assert s.phase == Binary("%", Binary("//", Var("i"), Int(2)), Int(2))


@pytest.mark.parametrize("line", ["let r = tid // 2", "let r = i // tid", "for j in 0..tid // 4 {\n}"])
def test_a_division_is_not_taken_for_a_comment(line: str) -> None:
    assert "'//' starts a comment here" in mistake(line)


@pytest.mark.parametrize(
    "comment", ["done", "2 groups stay", "see above", "(sic) for now", "1" + " --------- 2" * 40 + " !"]
)
def test_words_after_a_statement_are_a_comment(comment: str) -> None:
    assert body(f"bulk.wait 0 // {comment}") == (nodes.BulkWait(Int(0)),)


def test_lines_continue_in_brackets() -> None:
    load, sync = body("bulk.load tile[\n  s], a[0 :\n 4], full\nbar.sync 0")
    assert isinstance(load, nodes.BulkLoad) and load.src.count == Int(4)
    assert (load.span.line, load.span.end_line) == (2, 4)
    assert sync.span.line == 5


def test_blocks_on_one_line_and_else_on_the_next() -> None:
    (s,) = body("if a { exit }\nelse if b {\n}\n\n else { bar.sync 0 }")
    assert isinstance(s, nodes.If)
    assert s.then == (nodes.Exit(),)
    (inner,) = s.orelse
    assert isinstance(inner, nodes.If) and inner.then == () and inner.orelse == (nodes.BarrierSync(Int(0)),)


def test_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "k.syncir"
    path.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    assert parse_file(path) == parse(EXAMPLE)


def test_names_may_be_words_of_other_places() -> None:
    (s,) = body("mbarrier.init count, step")
    assert s == nodes.MbarrierInit(nodes.BarrierRef("count"), Var("step"))


def test_fragment_or_region() -> None:
    text = "kernel k {\n fragment q : bf16[64, 16]\n wgmma.mma acc, q, b\n wgmma.mma acc, r, b, scale_d 0\n}"
    first, second = parse(text)[0].body
    assert isinstance(first, nodes.Wgmma) and first.a == "q" and first.accumulate == Int(1)
    assert isinstance(second, nodes.Wgmma) and second.a == nodes.Region("r") and second.accumulate == Int(0)


# ---------------------------------------------------------------- places


def test_spans_of_statements_and_declarations() -> None:
    (k,) = parse(
        "kernel k {\n  param N : i32 = 8   // size\n\n  if N {  // only then\n    bar.sync 0  // all\n  }\n}",
        "f",
    )
    assert (k.span.line, k.span.column, k.span.end_line, k.span.end_column) == (1, 1, 7, 2)
    p = k.params[0].span
    assert (str(p), p.end_line, p.end_column) == ("f:2:3", 2, 20)
    (s,) = k.body
    assert (str(s.span), s.span.end_line, s.span.end_column) == ("f:4:3", 6, 4)
    assert isinstance(s, nodes.If)
    inner = s.then[0].span
    assert (inner.line, inner.column, inner.end_line, inner.end_column) == (5, 5, 5, 15)


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bulk.lod t, a[0 : 4], b", "there is no operation bulk.lod (did you mean bulk.load?)"),
        ("mbarrier.arrive.relxed b", "takes no suffix .relxed (did you mean relaxed?)"),
        ("bulk.load t, a[0 : 4]", "bulk.load lacks a barrier"),
        ("bulk.load t, a, b", "bulk.load wants a global region"),
        ("bulk.commit 3", "takes fewer operands; its form is: bulk.commit"),
        ("bar.sync", "bar.sync lacks an integer expression; its form is: bar.sync e[, e]"),
        ("fence.acq_rel", "lacks a suffix, one of .cta, .cluster, .gpu, .sys"),
        ("parm N : i32", "did you mean param?"),
        ("mbarrier.test b, 0", "the result of mbarrier.test needs a name"),
        ("let p = elect q", "this is not how elect is written"),
        ("let x = atom.shared.add t, 1", "this is not how atom.shared.add is written"),
        ("if a < b < c {\n}", "comparisons do not chain"),
        ("let r = foo(1)", "there is no function foo"),
        ("let tid = 1", "tid is a builtin"),
        ("let a.b = 1", "a name has no dots"),
        ("bar.sync 0 bar.sync 0", "unexpected 'bar.sync'"),
        ("st.shared t[0 : 4], v", "write t[][start : count]"),
        ("st.shared t[0][4], v", "the second bracket of t is a range"),
        ("for i in 0..3 exit", "unexpected 'exit'"),
        ("wait full[0], 0", "did you mean"),
        ("bar.sync (0", "this bracket is never closed"),
        ("bar.sync $", "unexpected '$'"),
        ("let r = 123456789012345678901", "a number has at most 20 digits"),
        ("exit\n param N : i32", "before the first statement"),
        ("launch block [1]\n launch block [2]", "launch is given twice"),
        ("launch block [1] block [2]", "block is given twice"),
        ("launch block [1, 2, 3, 4]", "block takes one to three numbers"),
        ("launch block [N]", "the sizes of block must be numbers"),
        ("shared t : f23[4]", "there is no type f23 (did you mean f32?)"),
        ("shared t : f32[4] align 8 align 8", "align is given twice"),
        ("param N : f32", "a parameter is of type i32, i64, u32 or u64"),
        ("param N : i32 = N", "must be a number"),
        ("param N : i32\n tensor N : f32[1] in", "N is declared twice"),
        ("mbarrier b[2, 2]", "a barrier array has one dimension"),
    ],
)
def test_mistakes(line: str, message: str) -> None:
    assert message in mistake(line)


def test_the_place_of_a_mistake() -> None:
    assert error("kernel k {\n  exit\n  bulk.lod x\n}").startswith("<string>:3:3: ")


@pytest.mark.parametrize("text", ["", "\n\n", "// nothing\n", "  "])
def test_a_file_without_a_kernel(text: str) -> None:
    assert "holds no kernel" in error(text)


def test_duplicate_kernels() -> None:
    assert "there are two kernels named k" in error("kernel k {\n}\nkernel k {\n}")


def test_nesting_is_limited() -> None:
    assert "blocks nest deeper" in error("kernel k {\n" + "if 1 {\n" * 5000 + "}\n" * 5001)
    assert "brackets nest deeper" in mistake("let r = " + "(" * 5000 + "1" + ")" * 5000)
    assert "operators in one statement" in mistake("let r = " + "1+" * 5000 + "1")
    assert "operators in one statement" in mistake("let r = " + "-" * 5000 + "x")
    assert "operators in one statement" in mistake("let r = " + "not " * 5000 + "x")


def test_every_truncation_is_one_clear_error() -> None:
    end = EXAMPLE.rindex("}")
    start = EXAMPLE.index("kernel")
    for cut in range(start, end, 7):
        with pytest.raises(InputError) as caught:
            parse(EXAMPLE[:cut], "cut.syncir")
        assert caught.value.span.file == "cut.syncir"


def test_random_edits_never_crash() -> None:
    chance = random.Random(1)
    junk = "{}()[]/,.:=+-%&|^<>@ \n\tax01\"'#\\\x00\xe9"
    for _ in range(400):
        text = list(EXAMPLE)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text))
            text[at : at + chance.randint(0, 3)] = chance.choice(junk)
        try:
            parse("".join(text))
        except InputError as e:
            assert e.message and e.span.file == "<string>"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "junk.syncir"
    binary.write_bytes(bytes(range(256)))
    for path in (binary, tmp_path / "missing.syncir", tmp_path):
        with pytest.raises(InputError) as caught:
            parse_file(path)
        assert caught.value.span.file == str(path)
