"""Launch facts of PTX kernels: what a table means, what it leaves open, and what is wrong with it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.source import InputError
from syncverify.frontends.launch_facts import LaunchFacts, read_facts
from syncverify.frontends.ptx.decode.effects import MapFacts
from syncverify.frontends.ptx.launch.facts import PtxFacts, ptx_facts
from syncverify.frontends.ptx.launch.parameters import Leaf
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.ir.expr import Expr, Int, Var, evaluate
from syncverify.ir.text.expressions import parse_expr
from tests.frontends.ptx.execute_helpers import module_text

PARAMS = """
.param .align 8 .b8 tensor[40], .param .u64 .ptr .global .align 1 out, .param .u32 n,
.param .align 64 .b8 map[128], .param .f32 alpha, .param .u64 any"""


def facts(toml: str, params: str = PARAMS, bounds: str = ".reqntid 128", body: str = "") -> PtxFacts:
    text = f".version 8.4\n.target sm_90a\n.address_size 64\n.entry k({params}) {bounds} {{\n"
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;"
    (entry,) = parse(f"{text}{registers}{body}\nret; }}").entries
    return ptx_facts(LaunchFacts({"k": tomllib.loads(toml)}, "facts.toml"), entry)


def wrong(toml: str, match: str, **more: str) -> None:
    with pytest.raises(InputError, match=match) as e:
        facts(toml, **more)
    assert e.value.span.file == "facts.toml"


def kinds(found: PtxFacts, index: int) -> list[tuple[int, int, str, object]]:
    return [(x.offset, x.size, x.kind, x.name or x.value) for x in found.params[index]]


def test_a_struct_by_value_is_laid_out_as_in_c() -> None:
    found = facts('params.0 = [{ptr = "T"}, {i8 = 1}, {i32 = -2}, [{i8 = 3}, {i64 = "C"}], {i16 = 5}]')
    assert kinds(found, 0) == [
        (0, 8, "ptr", "T"),
        (8, 1, "i8", 1),
        (12, 4, "i32", -2),
        (16, 1, "i8", 3),
        (24, 8, "i64", Var("C")),
        (32, 2, "i16", 5),
    ]


def test_arrays_inside_structs() -> None:
    found = facts('params.0 = [{ptr = "T"}, {i64 = [1, "C"]}, {i32 = [4, 5, 6, 7]}]')
    assert [x.offset for x in found.params[0]] == [0, 8, 16, 24, 28, 32, 36]


def test_fields_with_places_leave_the_others_open() -> None:
    found = facts('params.0 = [{i32 = 7, at = 12}, {i32 = 8}, {bytes = "00ff", at = 38}]')
    assert kinds(found, 0) == [(12, 4, "i32", 7), (16, 4, "i32", 8), (38, 2, "bytes", b"\0\xff")]


def test_bare_values_have_the_type_of_the_parameter() -> None:
    found = facts('params = {2 = 64, 4 = 1.5, 5 = "N * 2"}')
    assert kinds(found, 2) == [(0, 4, "u32", 64)]
    assert kinds(found, 4) == [(0, 4, "f32", 0x3FC00000)]
    assert kinds(found, 5)[0][2] == "u64"


def test_parameters_by_name() -> None:
    assert kinds(facts("params.n = 3"), 2) == [(0, 4, "u32", 3)]


def test_a_null_pointer() -> None:
    assert facts("params.1 = {ptr = 0}").leaf(1, 0, 8) == Leaf(0, 8, "ptr", 0)


def test_pointers_are_aligned_to_16_unless_given() -> None:
    assert facts('params.1 = {ptr = "A"}').leaf(1, 0, 8).align == 16
    assert facts('params.1 = {ptr = "A", align = 128}').leaf(1, 0, 8).align == 128


def test_tensor_maps() -> None:
    found = facts('params.3 = {tensormap = "A", dtype = "bf16", box = [64, 128], swizzle = "128B"}')
    assert found.leaf(3, 0, 128).map == MapFacts("A", (64, 128), 2, 128, 16384)


def test_a_tensor_map_behind_a_pointer_and_by_bytes_alone() -> None:
    found = facts('params.1 = {ptr = "D", bytes = 4096}')
    assert found.leaf(1, 0, 8).map == MapFacts("D", None, None, 0, 4096)


def test_bfloat16_rounds_to_nearest_even() -> None:
    found = facts("params.0 = [{bf16 = [1.0, 1.00390625, 1.01171875], at = 0}]")
    assert [x.value for x in found.params[0]] == [0x3F80, 0x3F80, 0x3F82]


def test_what_is_left_out_has_a_name_by_its_place() -> None:
    found = facts("")
    assert found.leaf(2, 0, 4).value == Var("param2")
    assert found.leaf(0, 8, 8).name == "param0[8:16]"
    assert (found.leaf(1, 0, 8).kind, found.leaf(1, 0, 8).name) == ("ptr", "param1")
    assert (found.leaf(4, 0, 4).kind, found.leaf(4, 0, 4).value) == ("f32", None)
    assert not found.leaf(2, 0, 4).given


LOADS = (
    "ld.param.b64 %rd1, [tensor+8]; ld.param.v2.b32 {%r1, %r2}, [tensor+16]; ld.param.b32 %r3, [tensor+12];"
)


def test_loads_of_the_kernel_name_the_open_places() -> None:
    found = facts("", body=LOADS)
    assert found.leaf(0, 8, 8).name == "param0[8]"
    assert [found.leaf(0, at, 4).name for at in (16, 20)] == ["param0[16]", "param0[20]"]


def value(leaf: Leaf, **sizes: int) -> int:
    assert isinstance(leaf.value, int | Expr)
    return leaf.value if isinstance(leaf.value, int) else evaluate(leaf.value, sizes)


def test_a_part_of_an_open_place_is_computed_from_it() -> None:
    half = facts("", body=LOADS).leaf(0, 12, 4)
    assert evaluate(half.value, {"param0[8]": 0x1_2345_6789}) == 1


def test_open_places_make_up_a_wider_load() -> None:
    both = facts("", body=LOADS).leaf(0, 16, 8)
    assert evaluate(both.value, {"param0[16]": 7, "param0[20]": 1}) == 7 + (1 << 32)


def test_loads_across_given_fields() -> None:
    found = facts('params.0 = [{i32 = -1, at = 0}, {i32 = 2}, {i64 = "C"}, {bytes = "0102030405060708"}]')
    assert found.leaf(0, 0, 8) == Leaf(0, 8, "u64", 0x2_FFFF_FFFF)
    assert found.leaf(0, 17, 2).value == 0x0302
    assert value(found.leaf(0, 12, 4), C=-1) == 0xFFFFFFFF
    assert value(found.leaf(0, 4, 8), C=5) == 2 + (5 << 32)


def test_a_load_beyond_a_given_field_keeps_the_rest_open() -> None:
    found = facts("params.0 = [{i32 = 9, at = 0}]")
    joined = found.leaf(0, 0, 8).value
    assert isinstance(joined, Expr)
    assert evaluate(joined, {"param0[4:8]": 3}) == 9 + (3 << 32)


def test_part_of_a_pointer_is_a_symbol() -> None:
    assert facts('params.1 = {ptr = "A"}').leaf(1, 0, 4).name == "param1[0:4]"


def test_directives_give_block_and_cluster() -> None:
    found = facts("", bounds=".reqntid 64, 2 .reqnctapercluster 2")
    assert (found.block, found.cluster) == ((64, 2, 1), (2, 1, 1))
    assert facts("", bounds=".maxntid 256").block == (256, 1, 1)


def test_without_directives_block_and_cluster_are_not_known() -> None:
    found = facts("", bounds="")
    assert (found.block, found.cluster) == (None, None)
    assert facts("block = [32]\ncluster = [2]", bounds="").cluster == (2, 1, 1)


def test_a_grid_of_numbers_expressions_or_nothing() -> None:
    assert facts('grid = ["cdiv(M, 128)", 2]').grid == (parse_expr("cdiv(M, 128)"), 2, 1)
    assert facts("").grid == (Var("grid.x"), Var("grid.y"), Var("grid.z"))


SIZED = """
grid = ["G"]
cluster = [2]
dynamic_smem = "16*C + 256"
assume = ["C % 128 == 0", "128 <= C <= 8192"]
params.0 = [{ptr = "T"}, {i64 = ["R", "C", "C", 1]}]
params.2 = {i32 = "R + 1"}
"""


def test_symbols_have_the_ranges_of_their_types() -> None:
    symbols = facts(SIZED, body="ld.param.u64 %rd1, [any];").symbols()
    assert symbols == {
        "G": (1, 2**31 - 1),
        "C": (-(2**63), 2**63 - 1),
        "R": (-(2**63), 2**63 - 1),
        "param5": (0, 2**64 - 1),
    }


def test_constraints_are_ranges_clusters_and_assumptions() -> Any:
    constraints = facts(SIZED).constraints()

    def hold(**sizes: int) -> bool:
        return all(evaluate(c, sizes) for c in constraints)

    assert hold(G=2, C=256, R=1)
    assert not hold(G=3, C=256, R=1)  # half a cluster
    assert not hold(G=2, C=100, R=1)  # assume
    assert not hold(G=2, C=256, R=2**31 - 1)  # R + 1 is an i32


def test_numbers_for_symbols() -> None:
    bound = facts(SIZED).bind({"G": 4, "C": 256, "R": 3})
    assert (bound.grid, bound.dynamic_smem) == ((4, 1, 1), 4352)
    assert [x.value for x in bound.params[0][1:]] == [3, 256, 256, 1]
    assert bound.leaf(2, 0, 4).value == 4
    assert not bound.assume


def test_numbers_for_open_places() -> None:
    bound = facts("", body=LOADS + "ld.param.u32 %r3, [n];").bind({"param0[8]": 5, "param2": 6})
    assert (bound.leaf(0, 8, 8).value, bound.leaf(2, 0, 4).value) == (5, 6)


def test_some_numbers_leave_the_other_symbols() -> None:
    bound = facts(SIZED).bind({"C": 256})
    assert set(bound.symbols()) == {"G", "R"}


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"c": 1}, "no open size 'c': open: C, G, R"),
        ({"C": 100}, "C = 100 breaks"),
        ({"G": 3}, "G = 3 breaks G % 2 == 0"),
        ({"R": 2**31 - 1}, "breaks"),
    ],
)
def test_numbers_that_cannot_be(values: dict[str, int], match: str) -> None:
    with pytest.raises(InputError, match=match):
        facts(SIZED).bind(values)


@pytest.mark.parametrize(
    ("toml", "match"),
    [
        ("block = [64]", r"block = \[64, 1, 1\], but kernel k has .reqntid 128, 1, 1"),
        ("block = [0]", "not positive"),
        ("block = [1, 1, 1, 1]", "one to three"),
        ("grid = [0]", "0 is not from 1"),
        ("grid = [1, 70000]", "70000"),
        ("grid = [3]\ncluster = [2]", "no multiple of its cluster's 2"),
        ("cluster = [32]", "at most 16 blocks"),
        ("registers = 300", "at most 255"),
        ("dynamic_smem = 300000", "not from 0"),
        ('dynamic_smem = "16 / C"', "write //"),
        ('dynamic_smem = "16 ** C"', "not understood"),
        ('dynamic_smem = "f(C)"', "not understood"),
        ('dynamic_smem = "16 *"', "no expression"),
        ("dynamic_smem = 1.5", "expression in quotes"),
        ('assume = "C > 1"', "a list of conditions"),
        ('assume = ["1 == 2"]', "does not hold"),
        ('assume = ["1 // 0 == 2"]', "division by zero"),
        ('params.2 = {i32 = "Cols"}\nassume = ["Col > 1"]', "no size .* called 'Col': did you mean 'Cols'"),
        ("params.6 = 1", "parameters 0 to 5"),
        ("params.x = 1", "parameters 0 to 5"),
        ("params = {2 = 1, n = 2}", "given twice"),
        ("params.2 = {i64 = 1}", "i64 at byte 0 ends at 8, beyond 4"),
        ("params.5 = {i32 = 1}", r"i32 has 4 bytes, the kernel's parameter 8 \(.u64\)"),
        ('params.0 = [{ptr = "T"}, {i64 = 1}]', "the struct has 16 bytes, the kernel's parameter 40"),
        ("params.0 = [{i32 = 1, at = 4}, {i32 = 1, at = 6}]", "overlap"),
        ("params.0 = [{i32 = 1, at = 40}]", "ends at 44, beyond 40"),
        ("params.0 = 7", "give the fields of 40 bytes"),
        ("params.2 = {i32 = 3000000000}", "3000000000 is no i32"),
        ("params.2 = {int32 = 3}", "unknown key 'int32': did you mean 'i32'"),
        (
            "params.1 = {tensormap = 'A', ptr = 'T'}",
            "both 'tensormap' and 'ptr'; a ptr to a tensor map takes",
        ),
        ("params.2 = {i32 = 1, u32 = 1}", "both 'i32' and 'u32'$"),
        ("params.2 = {at = 0}", "say what it is"),
        ("params.2 = [3]", "give a table such as"),
        ("params.1 = {ptr = 'A', align = 12}", "no power of two"),
        ("params.1 = {ptr = true}", "give a name"),
        ("params.3 = {tensormap = 'A', dtype = 'int4'}", "none of u8"),
        ("params.3 = {tensormap = 'A', swizzle = '16B'}", "none of none, 32B"),
        ("params.3 = {tensormap = 'A', box = [0]}", "from 1 to 256"),
        ("params.3 = {tensormap = 'A', box = 64}", "one to five sizes"),
        ("params.3 = {tensormap = 'A', dtype = 'u8', box = [64], bytes = 65}", "the box has 64 bytes"),
        ("params.3 = {tensormap = 'A', dtype = 'u8', box = [40]}", "no multiple of 16"),
        ("params.3 = {tensormap = 'A', dtype = 'f16', box = [128], swizzle = '128B'}", "swizzle spans 128"),
        ("params.0 = [{bytes = 'xyz', at = 0}]", "hexadecimal"),
        ("params.4 = 1e40", "beyond the largest f32"),
        ("params.4 = 'x'", "give a number"),
    ],
)
def test_wrong_facts(toml: str, match: str) -> None:
    wrong(toml, match)


def test_maxntid_bounds_the_block() -> None:
    wrong("block = [256]", ".maxntid 128, 1, 1", bounds=".maxntid 128, 1, 1")
    assert facts("block = [64]", bounds=".maxntid 128").block == (64, 1, 1)


def test_a_cluster_other_than_the_kernel_s() -> None:
    wrong("cluster = [4]", ".reqnctapercluster 2, 1, 1", bounds=".reqnctapercluster 2, 1, 1")


def test_more_registers_than_the_kernel_has() -> None:
    wrong("registers = 200", "at most 168", bounds=".maxnreg 168")


def test_a_table_may_have_the_name_without_its_mangling() -> None:
    (entry,) = parse(".version 8.0\n.target sm_90a\n.entry _Z4ringPfi(.param .u64 p) { ret; }").entries
    tables = {
        "*": {"grid": 1, "registers": 24, "block": [32]},
        "ring": {"grid": 2, "params": {"0": {"ptr": "A"}}},
        "_Z4ringPfi": {"block": [64]},
    }
    found = ptx_facts(LaunchFacts(tables), entry)
    assert (found.grid, found.registers, found.block) == ((2, 1, 1), 24, (64, 1, 1))
    assert found.leaf(0, 0, 8).name == "A"


def test_one_file_serves_every_kind_of_input(tmp_path: Path) -> None:
    path = tmp_path / "k.toml"
    path.write_text('[kernel."*"]\ngrid = [4]\n[kernel.k.params]\n0 = {i32 = "N"}\n')
    (entry,) = parse(".version 8.0\n.target sm_90a\n.entry k(.param .u32 n) .reqntid 32 { ret; }").entries
    found = ptx_facts(read_facts(path), entry)
    assert (found.grid, found.leaf(0, 0, 4).value) == ((4, 1, 1), Var("N"))


@pytest.mark.parametrize(
    ("text", "sizes", "expected"),
    [
        ("-7 // 2", {}, -4),
        ("-7 % 4", {}, 1),
        ("1 <= C <= 3 and not C == 2", {"C": 3}, 1),
        ("min(C, 2) + max(1, 2) + abs(-3) + cdiv(C, 2)", {"C": 5}, 10),
        ("3 if C > 1 else 4", {"C": 1}, 4),
        ("(C << 2 | 1) ^ 3 & ~2", {"C": 1}, 4),
        ("grid.x + param1[8] + param1[8:12]", {"grid.x": 1, "param1[8]": 2, "param1[8:12]": 3}, 6),
    ],
)
def test_expressions_of_launch_files(text: str, sizes: dict[str, int], expected: int) -> None:
    assert evaluate(parse_expr(text), sizes) == expected


@pytest.mark.parametrize(
    "text", ["", "a b", "[1]", "a.b.c", "x[y]", "1.5", "'s'", "(" * 500, "a" * 2000, "lambda: 1"]
)
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_expr(text)


def test_a_constant_expression_is_its_value() -> None:
    assert parse_expr("-5") == Int(-5)


DYNAMIC = """
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tail;
    ld.param.u32 %r3, [k_n];
    mad.lo.u32 %r4, %r3, 512, %r2;
    mad.lo.u32 %r5, %r1, 4, %r4;
    st.shared.u32 [%r5], %r1;
    ret;
"""


@pytest.mark.parametrize(
    ("most", "bytes_", "verdict"),
    [(9, "512*n + 512", "proved"), (9, "512*n + 256", "refuted"), (40, "512*min(n, 39) + 512", "refuted")],
)
def test_accesses_stay_inside_the_bytes_that_sizes_give(
    check: Any, most: int, bytes_: str, verdict: str
) -> None:
    """The last is wrong for the largest size alone."""
    facts = f'[kernel.k]\ngrid = [1]\nblock = [128]\ncluster = [1]\ndynamic_smem = "{bytes_}"\n'
    facts += f'assume = ["0 <= n <= {most}"]\n[kernel.k.params]\n0 = "n"\n'
    text = module_text(DYNAMIC, outside=".extern .shared .align 16 .b8 tail[];")
    assert check(text, facts=facts)["verdict"] == verdict
