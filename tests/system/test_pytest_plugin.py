"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.watch.test_watch import FAKE, RIGHT, WRONG

pytest_plugins = "pytester"
#: The plugin by its module, whether or not this checkout is installed with its entry point.
PLUGIN = ("-p", "no:syncverify", "-p", "syncverify.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def compiler(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a package that compiles as Triton does."""
    package = Path(pytester.mkpydir("triton")) / "compiler"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "compiler.py").write_text(FAKE, "utf-8")
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}:{root}")
    (pytester.path / "kernels.py").write_text(
        "from triton.compiler.compiler import CompiledKernel\n"
        f"right = lambda: CompiledKernel({RIGHT!r})\nwrong = lambda: CompiledKernel({WRONG!r})\n",
        "utf-8",
    )
    return pytester


TESTS = """
import pytest
import kernels

def test_right(verified_kernels):
    kernels.right()
    assert [str(r.verdict) for r in verified_kernels.reports] == ["proved"]

def test_wrong(verified_kernels):
    kernels.wrong()

def test_unwatched():
    kernels.wrong()

@pytest.mark.syncverify(skip=True)
def test_skipped(verified_kernels):
    kernels.wrong()

def test_text(verified_kernels):
    verified_kernels.check("kernel k {\\n  bar.sync 0\\n}\\n")

def test_wrong_text(verified_kernels):
    text = "kernel k {\\n  launch grid [1] block [64]\\n  if warp == 0 {\\n bar.sync 0\\n }\\n}\\n"
    verified_kernels.check(text)

@pytest.mark.syncverify(speed=3)
def test_marker(verified_kernels):
    pass
"""


def test_the_fixture_fails_a_test_whose_kernel_is_refuted(compiler: pytest.Pytester) -> None:
    compiler.makepyfile(TESTS)
    done = compiler.runpytest_subprocess(*PLUGIN, "-rA")
    text = done.stdout.str()
    for name in ("right", "unwatched", "skipped", "text"):
        assert f"PASSED test_the_fixture_fails_a_test_whose_kernel_is_refuted.py::test_{name}" in text, text
    # a refuted kernel is told when its test is over: an error after one that passed
    done.assert_outcomes(passed=5, failed=1, errors=2)
    assert "SV301" in text and "speed; known: policy, skip, timeout, unknown" in text


def test_the_option_reports_at_the_end(compiler: pytest.Pytester) -> None:
    compiler.makepyfile("import kernels\ndef test_a(): kernels.right()\ndef test_b(): kernels.wrong()\n")
    done = compiler.runpytest_subprocess(*PLUGIN, "--syncverify")
    done.assert_outcomes(passed=2)
    summary = "syncverify: 2 kernels compiled: 1 proved, 1 refuted"
    done.stdout.fnmatch_lines(["*= syncverify =*", "*SV301*", summary])


def test_the_option_fails_the_test_that_compiles_a_refuted_kernel(compiler: pytest.Pytester) -> None:
    compiler.makepyfile("import kernels\ndef test_a(): kernels.right()\ndef test_b(): kernels.wrong()\n")
    compiler.makeini("[pytest]\nsyncverify = fail\n")
    done = compiler.runpytest_subprocess(*PLUGIN)
    done.assert_outcomes(passed=1, failed=1)


def test_without_the_option_nothing_is_loaded(compiler: pytest.Pytester) -> None:
    compiler.makepyfile(
        "import sys\ndef test_a(): assert 'z3' not in sys.modules and 'syncverify.api' not in sys.modules\n"
    )
    compiler.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


def test_the_entry_point_names_the_plugin() -> None:
    import tomllib
    from importlib import import_module

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    module = tomllib.loads(text)["project"]["entry-points"]["pytest11"]["syncverify"]
    assert hasattr(import_module(module), "verified_kernels")
