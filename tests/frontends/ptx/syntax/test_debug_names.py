"""Names of parameters from DWARF: written by hand here, and by NVRTC."""

from __future__ import annotations

import pytest

from syncverify.base import nvrtc
from syncverify.frontends.ptx.syntax.debug_names import with_debug_names
from syncverify.frontends.ptx.syntax.parser import parse

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
ENTRY = ".visible .entry _Z1fi(.param .u32 _Z1fi_param_0) { ret; }\n"
#: A unit with one subprogram of linkage name ``_Z1fi`` and one parameter ``rows`` (DWARF 2).
ABBREVIATIONS = """.section .debug_abbrev {
.b8 1,17,1,0,0
.b8 2,46,1,135,64,8,3,8,0,0
.b8 3,5,0,3,8,51,10,0,0
.b8 0 }
"""
INFO = """.section .debug_info {
.b32 33
.b8 2,0
.b32 .debug_abbrev
.b8 8
.b8 1
.b8 2,95,90,49,102,105,0,102,0
.b8 3,114,111,119,115,0,1,9
.b8 0,0,0,0,0,0,0,0 }
"""


def _names(text: str) -> list[str]:
    return [p.source_name for f in with_debug_names(parse(text), text).entries for p in f.params]


def test_names_stand_below_their_function() -> None:
    assert _names(HEAD + ENTRY + ABBREVIATIONS + INFO) == ["rows"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".b8 2,0\n", ".b8 5,0\n"),  # a version that is not known
        ("3,114", "7,114"),  # an entry of a kind that is not declared
        ("95,90,49,102,105,0,102", "95,90,49,103,105,0,102"),  # of another function
        (".b8 2,95", ".b8 1,95"),  # no subprogram
    ],
)
def test_what_is_not_understood_leaves_numbers(old: str, new: str) -> None:
    assert old in INFO
    assert _names(HEAD + ENTRY + ABBREVIATIONS + INFO.replace(old, new)) == [""]


def test_a_form_that_is_not_known_ends_the_reading() -> None:
    assert _names(HEAD + ENTRY + ABBREVIATIONS.replace("51,10", "51,99") + INFO) == [""]


def test_what_nvrtc_writes_is_read() -> None:
    source = "__global__ void f(const float* a, int rows) { if (rows) __syncthreads(); }"
    try:
        code = nvrtc.compile_file(source, "k.cu", "ptx", ["-G", "-default-device"], {}, nvrtc.ARCH).code
    except (nvrtc.CompileError, ImportError, OSError) as e:
        pytest.skip(f"no NVRTC: {e}")
    assert _names(code.rstrip(b"\0").decode()) == ["a", "rows"]
