"""Products of f32 that steer: computed where their factors are known."""

from itertools import product
from pathlib import Path
from struct import pack, unpack

import numpy as np
import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver import files
from syncverify.frontends.launch_facts import read_facts
from syncverify.frontends.ptx.values.arith import float_product

#: A barrier of the first warp alone where the product is not 0: the block's barrier has another count.
KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .f32 x, .param .f32 y, .param .u64 p)
.maxntid 64, 1, 1
{{
.reg .pred %p<5>;
.reg .f32 %f<5>;
.reg .b32 %r<5>;
.reg .b64 %rd<3>;
ld.param.f32 %f1, [x];
ld.param.f32 %f2, [y];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 32;
setp.ne.s64 %p2, %rd1, 0;
@%p2 bra $DATA;
{multiply}
bra $TEST;
$DATA:
ld.global.f32 %f3, [%rd1];
$TEST:
setp.neu.f32 %p3, %f3, 0f00000000;
and.pred %p4, %p3, %p1;
@%p4 bar.sync 1, 64;
ret;
}}
"""


def check(
    folder: Path, x: float, y: float, multiply: str = "mul.f32 %f3, %f1, %f2;", pointer: str = ""
) -> Verdict:
    (folder / "k.ptx").write_text(KERNEL.format(multiply=multiply))
    p = f'{{ptr = "{pointer}"}}' if pointer else "0"
    facts = '[kernel."*"]\nblock = [64, 1, 1]\ncluster = [1, 1, 1]\ngrid = [1, 1, 1]\n[kernel."*".params]\n'
    (folder / "k.toml").write_text(f"{facts}0 = {{f32 = {x}}}\n1 = {{f32 = {y}}}\n2 = {p}\n")
    (found,) = files.check_source(
        files.read_source(folder / "k.ptx"), facts=read_facts(folder / "k.toml"), repairs=False
    )
    return found.verdict


@pytest.mark.parametrize(
    ("x", "y", "verdict"),
    [
        (0.0, 1.0, Verdict.PROVED),
        (-0.0, 2.5, Verdict.PROVED),
        (0.5, 2.0, Verdict.REFUTED),
        (1e-30, 1e-30, Verdict.PROVED),  # below the smallest number
    ],
)
def test_a_product_decides(tmp_path: Path, x: float, y: float, verdict: Verdict) -> None:
    assert check(tmp_path, x, y) is verdict


@pytest.mark.parametrize("mods", ["rz.f32", "sat.f32", "rp.f32"])
def test_other_roundings_are_data(tmp_path: Path, mods: str) -> None:
    assert check(tmp_path, 0.0, 1.0, f"mul.{mods} %f3, %f1, %f2;") is Verdict.UNKNOWN


def test_nor_is_a_sum_of_products_known(tmp_path: Path) -> None:
    text = "mul.f32 %f3, %f1, %f2; sub.f32 %f3, %f3, %f3;"
    assert check(tmp_path, 0.0, 1.0, text) is Verdict.UNKNOWN


def test_a_loaded_factor_is_not(tmp_path: Path) -> None:
    assert check(tmp_path, 0.0, 1.0, pointer="P") is Verdict.UNKNOWN


NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    3.0e38,
    1e-38,
    1.1754944e-38,
    1.4e-45,
    1e-20,
    7.1e19,
    float("inf"),
    float("nan"),
]


@pytest.mark.parametrize("flushed", [False, True])
def test_products_are_rounded_once(flushed: bool) -> None:
    """As NumPy multiplies; with .ftz numbers below the normal ones are 0 before and after."""

    def flush(x: np.float32) -> np.float32:
        tiny = flushed and abs(x) < np.float32(2.0**-126)
        return np.copysign(np.float32(0), x) if tiny else x

    with np.errstate(all="ignore"):
        for x, y in product(map(np.float32, NUMBERS), repeat=2):
            a, b = (int(v.view(np.uint32)) for v in (x, y))
            expected = flush(np.float32(flush(x) * flush(y)))
            (found,) = unpack("<f", pack("<I", float_product(a, b, flushed)))
            assert np.isnan(found) if np.isnan(expected) else pack("<f", found) == pack("<f", expected), (
                x,
                y,
            )
