"""What a program launches on a GPU is on record, and is checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from syncverify import check_file
from syncverify.base.diagnostics import Verdict
from syncverify.codegen import driver
from syncverify.frontends.launch_facts import facts_for
from tests.record.test_record import PTX

pytestmark = pytest.mark.skipif(not driver.available(), reason="needs a GPU")

PROGRAM = f'''
import ctypes

from cuda.bindings import driver as cu

PTX = """{PTX}"""


def must(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) == 2 else None


must(cu.cuInit(0))
context = must(cu.cuDevicePrimaryCtxRetain(0))
must(cu.cuCtxSetCurrent(context))
data = must(cu.cuMemAlloc(4096))
must(cu.cuMemsetD8(data, 0, 4096))
kernel = must(cu.cuModuleGetFunction(must(cu.cuModuleLoadData(PTX.encode() + bytes(1))), b"copy"))
place = ctypes.create_string_buffer(192)
map_ = (ctypes.addressof(place) + 63) // 64 * 64
long, short = ctypes.c_uint64 * 2, ctypes.c_uint32 * 2
float32, ranks, plain = 7, 2, 0
failed = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
    ctypes.c_void_p(map_), float32, ranks, ctypes.c_void_p(int(data)), long(16, 8), long(64), short(16, 4),
    short(1, 1), plain, plain, plain, plain,
)
assert not failed


class S(ctypes.Structure):
    _fields_ = [("p", ctypes.c_void_p), ("n", ctypes.c_int), ("m", ctypes.c_int)]
class Map(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 128)]
values = [
    ctypes.c_uint64(int(data)), Map.from_buffer_copy(ctypes.string_at(map_, 128)),
    ctypes.c_uint32(5), ctypes.c_float(0.5), S(int(data), 7, 9),
]
places = (ctypes.c_void_p * 5)(*map(ctypes.addressof, values))
for _ in range(3):
    must(cu.cuLaunchKernel(kernel, 2, 1, 1, 64, 1, 1, 0, 0, ctypes.addressof(places), 0))
must(cu.cuCtxSynchronize())
'''


def test_a_program_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "syncverify", "record", "-o", "out", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "3 launches; 1 written to out\n"
    path = tmp_path / "out" / "copy.ptx"
    said = Path(f"{path}.launch.toml").read_text()
    assert 'dtype = "f32", box = [16, 4], swizzle = "none"' in said and "registers = " in said
    assert "3 = 0.5\n4 = [" in said
    (report,) = check_file(path, facts=facts_for(path))
    assert report.verdict is Verdict.PROVED
