"""Parameters by the names of the CUDA source, in findings, scopes and launch files."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver.files import Options, check_each, check_source, read_source
from syncverify.driver.source_names import with_source_names
from syncverify.frontends.cuda.parameter_names import Definition, definitions
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.report.base import Report
from syncverify.report.text import render

RING = Path(__file__).parents[3] / "corpus" / "gallery" / "ring.cu"


@pytest.mark.parametrize(
    ("declared", "names", "signed"),
    [
        ("", (), ()),
        ("void", (), ()),
        ("const float* __restrict__ a, int n", ("a", "n"), (False, True)),
        ("float *p, unsigned long long k = (1 > 2), int64_t m", ("p", "k", "m"), (False, False, True)),
        ("const __grid_constant__ Pair<float, 3> args", ("args",), (False,)),
        ("void (*fn)(int, int), int", ("fn", ""), (False, True)),
        ("const int, T x", ("", "x"), (True, False)),
        ("std::size_t, std::int32_t rows", ("", "rows"), (False, True)),
        ("int a /* , int b */, // int c\n int d", ("a", "d"), (True, True)),
    ],
)
def test_a_parameter_list(declared: str, names: tuple[str, ...], signed: tuple[bool, ...]) -> None:
    (found,) = definitions(f"\n__global__ void __launch_bounds__(128) f({declared}) {{ }}")
    assert (found.name, found.parameters, found.signed) == ("f", names, signed)
    assert found.first == 2


def test_declarations_and_lists_with_directives_are_no_definitions() -> None:
    text = "__global__ void f(int n);\n__global__ void g(int a\n#if X\n, int b\n#endif\n) {}"
    assert not list(definitions(text))


def test_of_two_kernels_of_one_name_the_one_counts_that_the_lines_lie_in() -> None:
    sources = {"k.cu": "__global__ void f(int a) {\n\n}\nnamespace x { __global__ void f(long b) {\n\n} }"}
    entry = """.visible .entry {name}(.param .u64 p) {{ .loc 1 {line} 1\n bar.sync 0; ret; }}"""
    text = '.version 8.0\n.target sm_90a\n.address_size 64\n.file 1 "k.cu"\n'
    text += entry.format(name="_Z1fi", line=2) + entry.format(name="_ZN1x1fEl", line=5)
    named = with_source_names(parse(text), sources)
    assert [f.params[0].source_name for f in named.entries] == ["a", "b"]


def test_without_a_definition_that_fits_a_parameter_has_its_number() -> None:
    text = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry f(.param .u32 f_param_0) { ret; }"
    named = with_source_names(parse(text), {"k.cu": "__global__ void f(int a, int b) {}"})
    assert named.entries[0].params[0].source_name == ""


def test_a_definition_is_data() -> None:
    assert next(definitions("__global__ void f(int n) {}")) == Definition("f", 1, 1, ("n",), (True,))


def _hangs(tmp_path: Path) -> Path:
    path = tmp_path / "ring.cu"
    path.write_text(RING.read_text("utf-8").replace("(r / STAGES + 1) & 1", "(r / STAGES) & 1"), "utf-8")
    return path


def test_a_report_names_the_parameter(tmp_path: Path) -> None:
    source = read_source(_hangs(tmp_path))
    (report,) = check_each(source, LaunchFacts(), Options(scope=ScopeKind.ALL, repairs=False))
    assert report.verdict is Verdict.REFUTED
    assert (report.scope.values["params.2"], report.scope.named_values["rows"]) == (1, 1)
    assert "rows = 1" in render(Report(Policy.PRACTICAL, (report,)))


@pytest.mark.parametrize("key", ["rows", "2", "ring_param_2"])
def test_launch_files_take_the_name(tmp_path: Path, key: str) -> None:
    facts = LaunchFacts.of({"params": {key: {"i32": 3}}})
    (report,) = check_source(read_source(_hangs(tmp_path)), facts=facts, repairs=False)
    assert report.scope.named_values["rows"] == 3


@pytest.mark.parametrize("name", ["rows", "param2"])
def test_a_size_is_given_by_its_name(tmp_path: Path, name: str) -> None:
    facts = LaunchFacts.of({"assume": [f"{name} >= 2"]})
    source = read_source(_hangs(tmp_path))
    (report,) = check_source(source, facts=facts, values={name: 4}, repairs=False)
    assert report.scope.named_values["rows"] == 4
    with pytest.raises(InputError, match="rows = 1 breaks"):
        check_source(source, facts=facts, values={name: 1}, repairs=False)


def test_a_name_that_the_facts_give_to_something_else_is_not_the_parameters(tmp_path: Path) -> None:
    facts = LaunchFacts.of({"params": {"a": {"ptr": "rows"}}})
    (report,) = check_source(read_source(_hangs(tmp_path)), facts=facts, values={"param2": 4}, repairs=False)
    assert report.scope.values["params.2"] == 4


def test_a_name_that_no_parameter_has_is_an_error_with_those_there_are(tmp_path: Path) -> None:
    facts = LaunchFacts.of({"params": {"row": 3}})
    with pytest.raises(InputError, match=r"has parameters 0 to 2 \(a, out, rows\)"):
        check_source(read_source(_hangs(tmp_path)), facts=facts, repairs=False)
