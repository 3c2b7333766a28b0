"""What PTX text means as nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from syncverify.base.source import InputError, Span
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Function,
    Imm,
    Instr,
    Label,
    Mem,
    Module,
    Not,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Vector,
)
from syncverify.frontends.ptx.syntax.parser import parse, parse_file
from tests.frontends.ptx.execute_helpers import HEAD
from tests.frontends.ptx.syntax import printing

SOURCES = Path(__file__).parent / "sources"
DECLARED = """
.shared .align 16 .b8 buf[64];
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
"""


def kernel(body: str, declared: str = DECLARED) -> Function:
    (entry,) = parse(f"{HEAD}.entry k(.param .u64 a, .param .u32 n)\n{{{declared}{body}\n}}").entries
    return entry


def one(text: str) -> Instr:
    return kernel(text).body[0]


def operands(text: str) -> tuple[object, ...]:
    return one(text).operands


def test_opcode_and_modifiers_are_parted_at_the_dots() -> None:
    i = one("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];")
    assert i.op == "cp"
    assert i.mods == ("async", "bulk", "shared::cluster", "global", "mbarrier::complete_tx::bytes")


def test_blanks_before_a_modifier() -> None:
    assert one("cp.async.bulk.commit_group .one\n.two;").mods == (
        "async",
        "bulk",
        "commit_group",
        "one",
        "two",
    )


def test_an_unknown_instruction_is_read_like_any_other() -> None:
    assert one("frobnicate.b32 %r1, [%r2], {%r3, 4};").name == "frobnicate.b32"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("-8", -8),
        ("0x1F", 31),
        ("0b101", 5),
        ("017", 15),
        ("7U", 7),
        ("0xFFFFFFFFFFFFFFFFU", 2**64 - 1),
        ("(3+4)*2", 14),
        ("1<<4|1", 17),
        ("~0", -1),
        ("-7/2", -3),
        ("-7%2", 1),  # remainders are those of unsigned numbers
        ("-7%3U", 0),
        ("-7/2U>>60", 7),
        ("-8>>1", -4),
        ("-8U>>63", 1),
        ("-1>0", 0),
        ("-1>0U", 1),
        ("(1<<3)|2", 10),
        ("-4|1", -3),
        ("~1|1", -1),
        ("10-4-3", 3),
        ("1?2:3", 2),
        ("(.u64)-1", -1),  # the same bits
        ("(.u64)-1>>63", 1),
        ("(.s64)0xFFFFFFFFFFFFFFFF>>1", -1),
        ("!5", 0),
        ("WARP_SZ", 32),
        ("WARP_SZ*4", 128),
        ("WARP_SZ | 1", 33),
    ],
)
def test_integer_constants(text: str, value: int) -> None:
    assert operands(f"mov.b64 %rd1, {text};")[1] == Imm(value)


@pytest.mark.parametrize(
    ("text", "bits", "width"),
    [
        ("0f3F800000", 0x3F800000, 32),
        ("0F3F800000", 0x3F800000, 32),
        ("0d4000000000000000", 0x4000000000000000, 64),
        ("1.0", 0x3FF0000000000000, 64),
        ("-0f00000000", 0x80000000, 32),
        ("1e2", 0x4059000000000000, 64),
    ],
)
def test_floating_point_constants_are_their_bits(text: str, bits: int, width: int) -> None:
    assert operands(f"mov.b32 %r1, {text};")[1] == FloatImm(bits, width)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[%r1]", Mem(Reg("%r1"))),
        ("[%r1+16]", Mem(Reg("%r1"), 16)),
        ("[ %r1 + 0x10 ]", Mem(Reg("%r1"), 16)),
        ("[%r1+-8]", Mem(Reg("%r1"), -8)),
        ("[%r1-8]", Mem(Reg("%r1"), -8)),
        ("[buf]", Mem(Sym("buf"))),
        ("[buf+4*2]", Mem(Sym("buf"), 8)),
        ("[n+4]", Mem(Sym("n"), 4)),
        ("[64]", Mem(Imm(64))),
        ("[%rd1, {%r1, 0, %r2}]", Mem(Reg("%rd1"), 0, (Reg("%r1"), Imm(0), Reg("%r2")))),
    ],
)
def test_addresses(text: str, expected: Mem) -> None:
    assert operands(f"ld.shared.b32 %r1, {text};")[1] == expected


def test_operands_of_an_im2col_copy() -> None:
    i = one(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [buf], [%rd1, {%r1, %r2, %r3, %r4}], [%r5], {%r6, %r7};"
    )
    assert [type(o) for o in i.operands] == [Mem, Mem, Mem, Vector]
    assert len(i.operands[1].coords) == 4


def test_destinations_sinks_and_negated_sources() -> None:
    assert operands("setp.lt.and.s32 %p1|%p2, %r1, 3, !%p3;") == (
        Pair(Reg("%p1"), Reg("%p2")),
        Reg("%r1"),
        Imm(3),
        Not(Reg("%p3")),
    )
    assert operands("elect.sync _|%p1, 0xffffffff;")[0] == Pair(Sink(), Reg("%p1"))
    assert operands("mov.b64 {%r1, _}, %rd1;")[0] == Vector((Reg("%r1"), Sink()))


def test_guards() -> None:
    plain, negated = one("@%p1 ret;"), one("@!%p1 ret;")
    assert (plain.guard, plain.negated) == (Reg("%p1"), False)
    assert (negated.guard, negated.negated) == (Reg("%p1"), True)


def test_special_registers_are_told_from_registers() -> None:
    assert operands("mov.u32 %r1, %cluster_ctaid.x;")[1] == Special("%cluster_ctaid.x")
    assert operands("mov.u64 %rd1, %clock64;")[1] == Special("%clock64")


def test_the_address_of_a_variable_with_an_offset() -> None:
    assert operands("mov.b32 %r1, buf+32;")[1] == Sym("buf", 32)


def test_a_statement_may_span_lines_and_hold_comments() -> None:
    k = kernel("\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 // a comment; with a semicolon\n"
               "{%f1, %f2,\n /* more */ %f3, %f4}, %rd1, %rd2, 1, 1, 1, 0, 0;\nret;")  # fmt: skip
    assert k.body[0].operands[0] == Vector(tuple(Reg(f"%f{i}") for i in (1, 2, 3, 4)))
    assert k.body[1].line - k.body[0].line == 3


def test_instructions_know_their_line() -> None:
    text = (SOURCES / "pipeline.ptx").read_text()
    for i in parse(text).entries[0].body:
        assert i.name in text.splitlines()[i.line - 1]


def test_ranges_declare_their_registers() -> None:
    k = kernel("ret;", ".reg .b32 %r<3>; .reg .f32 x, y;")
    assert k.registers == {"%r0": "b32", "%r1": "b32", "%r2": "b32", "x": "f32", "y": "f32"}


def test_vector_registers_are_expanded() -> None:
    k = kernel("st.global.v2.f32 [a], v; mov.f32 v.y, v.r;", ".reg .v2 .f32 v;")
    assert k.registers == {"v.x": "f32", "v.y": "f32"}
    assert k.body[0].operands[1] == Vector((Reg("v.x"), Reg("v.y")))
    assert k.body[1].operands == (Reg("v.y"), Reg("v.x"))


def test_an_inner_declaration_gets_a_name_of_its_own() -> None:
    k = kernel("{ .reg .b32 t; mov.b32 t, 1; { .reg .b64 t; mov.b64 t, 2; } mov.b32 t, 3; } { .reg .f32 t; }")
    inner = [i.operands[0].name for i in k.body]
    assert inner[0] == inner[2] != inner[1]
    assert [k.registers[name] for name in inner] == ["b32", "b64", "b32"]
    assert list(k.registers.values()).count("f32") == 9 + 1


def test_a_declaration_hides_the_outer_one_from_its_line_on() -> None:
    k = kernel("{ mov.b32 %r1, 1; .reg .b32 %r1; mov.b32 %r1, 2; }")
    assert k.body[0].operands[0] == Reg("%r1") != k.body[1].operands[0]


def test_sibling_scopes_reuse_labels() -> None:
    k = kernel("{ L: @%p1 bra L; } { L: @%p2 bra L; }")
    assert [i.operands[0].target for i in k.body] == [0, 1]
    assert len(k.labels) == 2


def test_labels_resolve_to_the_innermost_even_if_it_comes_later() -> None:
    k = kernel("bra L; { bra L; mov.b32 %r1, 0; L: ret; } L: exit;")
    assert [i.operands[0].target for i in k.body[:2]] == [4, 3]


def test_a_branch_out_of_a_scope() -> None:
    assert kernel("{ bra OUT; } ret; OUT: ret;").body[0].operands == (Label("OUT", 2),)


def test_a_label_at_the_end_points_behind_the_last_instruction() -> None:
    assert kernel("bra END; END:").body[0].operands[0].target == 1


def test_branch_targets_name_labels() -> None:
    scopes = parse_file(SOURCES / "scopes.ptx").entries[0]
    brx = next(i for i in scopes.body if i.op == "brx")
    assert brx.operands[1] == Sym("targets")
    assert scopes.tables["targets"] == ("A", "B")
    assert scopes.labels["B"] == scopes.labels["A"] + 1


def test_calls_have_results_callee_and_arguments() -> None:
    scopes = parse_file(SOURCES / "scopes.ptx").entries[0]
    direct, indirect = (i for i in scopes.body if i.op == "call")
    results, callee, arguments = direct.operands
    assert (results, callee, arguments) == (Vector((Sym("retval0"),)), Sym("twice"), Vector((Sym("param0"),)))
    assert indirect.operands[1] == Reg("%rd1")
    assert indirect.operands[3] == Sym("prototype_0")


@pytest.mark.parametrize("text", ["call twice;", "call twice, (%r1);", "call (%r1), twice;"])
def test_short_calls(text: str) -> None:
    source = HEAD + ".func twice;\n.entry k() { .reg .b32 %r<2>; " + text + " }"
    results, callee, arguments = parse(source).entries[0].body[0].operands
    assert callee == Sym("twice")
    assert len(results.items) + len(arguments.items) == text.count("(")


def test_call_parameters_are_variables_of_the_function() -> None:
    names = [v.name for v in parse_file(SOURCES / "scopes.ptx").entries[0].variables]
    assert len(names) == len(set(names)) == 4


def test_parameters() -> None:
    (pipeline,) = parse_file(SOURCES / "pipeline.ptx").entries
    tensor_map, out, tiles = pipeline.params
    assert (tensor_map.size, tensor_map.align, tensor_map.ptr) == (128, 64, None)
    assert (out.size, out.align, out.ptr) == (8, 16, "global")
    assert (tiles.type, tiles.size) == ("u32", 4)


def test_a_pointer_without_a_space_is_generic() -> None:
    (k,) = parse(HEAD + ".entry k(.param .u64 .ptr .align 8 p) { ret; }").entries
    assert (k.params[0].ptr, k.params[0].align) == ("generic", 8)


def test_directives_of_an_entry() -> None:
    text = """.visible .entry k()
    .reqntid 256, 2 .reqnctapercluster 2, 1, 1 .explicitcluster .maxnreg 168 .pragma "nounroll";
    { ret; }"""
    assert parse(HEAD + text).entries[0].directives == {
        "reqntid": (256, 2),
        "reqnctapercluster": (2, 1, 1),
        "explicitcluster": (),
        "maxnreg": (168,),
    }


def variables(text: str) -> dict[str, tuple[int, int, bytes | None]]:
    return {v.name: (v.size, v.align, v.init) for v in parse(HEAD + text).variables}


def test_module_variables() -> None:
    assert variables(
        ".extern .shared .align 1024 .b8 dyn[]; .shared .v4 .f32 q[2]; .global .u32 x;"
        ".visible .const .align 8 .b8 c[2][3]; .global .attribute(.managed) .s64 m;"
    ) == {
        "dyn": (0, 1024, None),
        "q": (32, 16, None),
        "x": (4, 4, None),
        "c": (6, 8, None),
        "m": (8, 8, None),
    }


def test_initial_values_are_bytes() -> None:
    assert variables(
        ".global .u16 a[3] = {1, -1}; .const .f32 f = 0f3F800000; .global .b8 s[] = {104, 105};"
        ".global .b16 t[2][2] = {{1, 2}, {3, 4}};"
    ) == {
        "a": (6, 2, b"\x01\0\xff\xff\0\0"),
        "f": (4, 4, b"\0\0\x80\x3f"),
        "s": (2, 1, b"hi"),
        "t": (8, 2, b"\1\0\2\0\3\0\4\0"),
    }


def test_addresses_as_initial_values_are_no_bytes() -> None:
    assert variables(".global .u32 x; .global .u64 p[2] = {generic(x)+4, 0};")["p"] == (16, 8, None)


def test_files_and_debug_sections() -> None:
    m = parse(
        HEAD
        + '.file 3 "dir//k.py"\n.entry k() { .loc 3 7 1\n ret; }\n'
        + ".section .debug_abbrev\n{\n.b8 1 // a; comment\n.b8 17,2\n}\n.section .debug_loc { }\n"
    )
    assert m.files == {3: "dir//k.py"}
    assert m.span(m.entries[0].body[0]) == Span("dir//k.py", 7)


def test_local_memory_is_no_loc() -> None:
    k = kernel("ret;", ".local .align 8 .b8 __local_depot0[64];")
    assert [(v.space, v.size) for v in k.variables] == [("local", 64)]


def test_a_declaration_gives_way_to_the_definition() -> None:
    m = parse(HEAD + ".func f();\n.func f() { ret; }\n.entry k() { call f; ret; }")
    assert [(f.name, len(f.body)) for f in m.functions] == [("f", 1), ("k", 2)]


def test_a_function_declared_inside_another() -> None:
    m = parse(HEAD + ".entry k() {\n.extern .func (.param .b32 r) f ();\nret; }")
    assert [f.name for f in m.functions] == ["f", "k"]


def test_aliases() -> None:
    m = parse(HEAD + ".func f() { ret; }\n.func g();\n.alias g, f;\n.entry k() { call g; ret; }")
    assert m.aliases == {"g": "f"}


@pytest.mark.parametrize("name", ["pipeline", "scopes"])
def test_printed_modules_read_back_the_same(name: str) -> None:
    m = parse_file(SOURCES / f"{name}.ptx")
    again = parse(printing.module(m))
    assert printing.module(again) == printing.module(m)
    assert [_bare(f) for f in again.functions] == [_bare(f) for f in m.functions]


def _bare(f: Function) -> tuple[object, ...]:
    return f.name, f.labels, [replace(i, line=0, loc=(0, 0, 0)) for i in f.body]


def test_printed_instructions_are_the_words_of_the_source() -> None:
    text = (SOURCES / "pipeline.ptx").read_text()
    written = text[text.index(".loc 1 10 3") : text.rindex("}")]
    written = "\n".join(line for line in written.splitlines() if ".loc" not in line)
    assert printing.tokens(printing.body(parse(text).entries[0])) == printing.tokens(written)


def broken(text: str, line: int, match: str) -> None:
    with pytest.raises(InputError, match=match) as e:
        parse(text, "k.ptx")
    assert (e.value.span.file, e.value.span.line) == ("k.ptx", line)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("mov.b32 %r1, %r99;", "%r99 is not declared"),
        ("mov.b32 %r1, %bogus.x;", r"%bogus.x is not declared"),
        ("ld.shared.b32 %r1, %r2;", r"expected \[address\] as operand 2 of ld.shared.b32"),
        ("st.shared.b32 %r1, %r2;", r"expected \[address\] as operand 1"),
        ("ld.shared.b32 %r1;", r"expected \[address\]"),
        ("mov.b32 %r1, %r2.sat;", "expected an operand"),
        ("mov.b32 %r1;", "mov.b32 takes at least 2 operands"),
        ("lop3.b32 %r1, %r2, %r3, 7;", "lop3.b32 takes at least 5 operands"),
        ("bra nowhere;", "label 'nowhere' is not declared"),
        ("L: ret; L: ret;", "label L is declared twice"),
        (".reg .b32 %r1;", "%r1 is declared twice"),
        (".reg .q32 x;", "found .q32"),
        ("@7 ret;", "expected a predicate"),
        ("add.s32 %r1, , 2;", "expected an operand"),
        ("ld.b32 %r1, [%r1;", "expected an operand|declared"),
        ("st.b32 {%r1, [%r2], 1;", "expected a list of operands"),
        ("mov.b32 %r1, 3 4;", "constant"),
        ("mov.b32 %r1, 1/0;", "division by zero"),
        ("mov.b64 %rd1, 0x123456789ABCDEF01;", "wider than 64 bits"),
        ("mov.b32 %r1, 2", "expected"),
        ("brx.idx %r1, nothing;", "expected a list of targets"),
        (".branchtargets A, B;", "expected a label before"),
        ("ret\n.loc 1 2 3;", "expected ';' after 'ret'"),
        (".shared .align 3 .b8 x[4];", "power of two"),
        ("?", "expected an instruction"),
        (".entry inner() {", "expected an instruction"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(body: str, match: str) -> None:
    broken(f"{HEAD}.entry k()\n{{ .reg .b32 %r<4>; .reg .b64 %rd<2>;\nret;\n{body}\n}}", 7, match)


def test_the_line_of_a_statement_without_its_semicolon() -> None:
    broken(f"{HEAD}.entry k() {{ .reg .b32 %r<4>;\nmov.b32 %r1, %r2\nret;\n}}", 5, "expected ',' or ';'")


@pytest.mark.parametrize(
    ("text", "line", "match"),
    [
        ("", 0, "starts with .version"),
        (".target sm_90a\n.address_size 64\n", 0, "starts with .version"),
        (".version eight\n", 1, "expected .version N.N"),
        (HEAD + ".entry k() {\nret;\n", 6, "the file ends inside k"),
        (HEAD + ".entry k()\nret;\n", 4, "expected a directive of the function or its body, found 'ret'"),
        (HEAD + "mov.b32 %r1, 1;", 4, "expected a directive outside of functions"),
        (HEAD + ".entry k() {}\n.entry k() { ret; }\n.entry k() { ret; }", 6, "defined twice"),
        (HEAD + ".global .u32 x;\n.global .u32 x;", 5, "x is declared twice"),
        (HEAD + ".global .b8 x[2] = {1, 2, 3};", 4, "3 initial values for 2 bytes"),
        (HEAD + ".local .u32 x;", 4, "declared inside a function"),
        (HEAD + "}", 4, "expected a function"),
        (HEAD + ".entry k() {" + "{" * 500, 4, "nested deeper"),
        (HEAD + ".entry k() { .reg .b32 %r<999999999>; }", 4, "registers"),
        (HEAD + '.file 1 "x\n', 4, "expected .file"),
        (HEAD + ".entry k() { .loc x\n }", 4, "expected .loc"),
    ],
)
def test_malformed_files(text: str, line: int, match: str) -> None:
    broken(text, line, match)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(b".version 8.4\n\xff\xfe\n")
    with pytest.raises(InputError, match="not UTF-8") as e:
        parse_file(path)
    assert e.value.span.line == 2


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        parse_file(tmp_path / "none.ptx")


def test_target_options_are_no_part_of_the_target() -> None:
    m: Module = parse_file(SOURCES / "scopes.ptx")
    assert (m.target, m.version, m.address_size) == ("sm_90a", (8, 0), 64)
