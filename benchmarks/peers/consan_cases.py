"""The kernels of ConSan's tests, compiled without a GPU, with the labels that the tests themselves give.

    python benchmarks/peers/consan_cases.py TEST_CONSAN.PY FOLDER

The file is python/test/gluon/test_consan.py of github.com/triton-lang/triton. Python needs triton, torch and
pytest. Each test is called twice. First as if its kernel had run without a complaint, which a test of a wrong
kernel does not accept. Then to compile the kernel, which syncverify's driver does not launch. FOLDER gets a
PTX file, a launch file and the label for each case (``labelled_suites.py --consan FOLDER``).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest
import torch

from syncverify.watch import triton_kernels
from syncverify.watch.caught import Caught, launch_file
from syncverify.watch.no_gpu import stand_in

CAPABILITY = (9, 0)


class Still:
    """A monkeypatch that changes nothing: kernels are compiled without instrumentation."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: None


class Cases:
    """A plugin of pytest that compiles instead of testing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.caught: list[Caught] = []
        self.labels: dict[str, str] = {}

    @pytest.fixture
    def device(self) -> str:
        return "cpu"

    @pytest.fixture
    def fresh_knobs(self) -> Still:
        return Still()

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool:
        function = pyfuncitem.obj
        names = pyfuncitem._fixtureinfo.argnames
        given = {n: pyfuncitem.funcargs[n] for n in names}
        if "run_wrapper" not in given:
            return True
        if "monkeypatch" in given:
            given["monkeypatch"] = Still()
        fine = SimpleNamespace(exc=None, driver_stderr_output="")
        module = sys.modules[function.__module__]
        module.run_in_process = lambda *args, **named: fine  # type: ignore[attr-defined]
        try:
            function(**{**given, "run_wrapper": True})
            label = "right"
        except AssertionError:
            label = "wrong"
        self.caught.clear()
        try:
            function(**{**given, "run_wrapper": False})
        except pytest.skip.Exception:
            return True
        except Exception as e:
            self.labels[pyfuncitem.name] = f"{label}: {type(e).__name__}: {str(e)[:200]}"
        self._write(re.sub(r"[^\w.-]+", "_", pyfuncitem.name).strip("_"), label)
        return True

    def _write(self, name: str, label: str) -> None:
        for n, kernel in enumerate(self.caught):
            path = self.folder / f"{name}{f'.{n}' if n else ''}.ptx"
            path.write_text(kernel.text)
            Path(f"{path}.launch.toml").write_text(launch_file(kernel))
            self.labels[path.stem] = label


def main() -> None:
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    stand_in()
    torch.cuda.get_device_capability = lambda *args: CAPABILITY  # type: ignore[assignment]
    import triton._internal_testing as testing
    import triton.compiler.compiler as compiler
    import triton.runtime.jit as jit

    testing.is_cuda = lambda: True
    cases = Cases(folder)
    triton_kernels.catch(compiler, cases.caught.append)
    triton_kernels.catch_grids(jit)
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(source.parent), str(source)]
    pytest.main([*options, *sys.argv[3:]], plugins=[cases])
    (folder / "labels.json").write_text(json.dumps(cases.labels, indent=1) + "\n")
    print(len(cases.labels), "cases")


if __name__ == "__main__":
    main()
