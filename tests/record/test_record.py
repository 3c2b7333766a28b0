"""Calls of the driver become launch files that ``check`` reads. The calls are made by hand here, as CUPTI
tells of them; ``test_on_gpu`` has real ones."""

from __future__ import annotations

import ctypes
import struct
import tomllib
from collections.abc import Sequence
from ctypes import addressof, c_uint32, c_void_p, cast
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import facts_for
from syncverify.record import driver
from syncverify.record.launches import Image, Journal, Launch, TensorMap
from syncverify.record.listen import Listener
from syncverify.record.ptx_files import PtxFiles, has_entry
from syncverify.record.recording import write

PTX = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 in, .param .align 64 .b8 map[128], .param .u32 n, .param .f32 x,
  .param .align 8 .b8 s[16])
{
  .reg .b32 %r<4>;
  .shared .align 128 .b8 tile[512];
  .shared .align 8 .b64 full;
  .reg .pred %p;
  .reg .b64 %rd<2>;
  mov.u32 %r0, %tid.x;
  mov.u32 %r3, 0;
  mov.b64 %rd0, map;
  cvta.param.u64 %rd1, %rd0;
  setp.ne.u32 %p, %r0, 0;
  @%p bra WAIT;
  mbarrier.init.shared.b64 [full], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared.b64 _, [full], 256;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
    [tile], [%rd1, {%r3, %r3}], [full];
WAIT:
  bar.sync 0;
LOOP:
  mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
  @!%p bra LOOP;
  ld.shared.u32 %r1, [tile];
  ret;
}
"""
IN = 0x7F0000010000
#: A struct by value: an address and two numbers.
STRUCT = struct.pack("<QII", IN, 7, 9)


class Driver:
    """Parameters as in the PTX; one allocation."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] | None = [(0, 8), (64, 128), (192, 4), (196, 4), (200, 16)]
        self.required: tuple[int, ...] = ()

    def param_sizes(self, function: int) -> list[tuple[int, int]] | None:
        return self.sizes

    def registers(self, function: int) -> int:
        return 40

    def cluster(self, function: int) -> tuple[int, ...]:
        return self.required

    def is_address(self, value: int) -> bool:
        return IN <= value < IN + 4096


class Program:
    """A program whose calls a listener is told of."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.listener = Listener(self.driver)
        self.kept: list[Any] = []

    def keep(self, data: bytes) -> int:
        """The address of some bytes, which stay."""
        self.kept.append(ctypes.create_string_buffer(data, len(data)))
        return addressof(self.kept[-1])

    def left(self, call: str, arguments: ctypes.Structure) -> None:
        self.listener.left(call, addressof(arguments))

    def load(self, image: bytes, name: str = "copy", function: int = 77, module: int = 5) -> None:
        handle = c_void_p(module)
        self.left("cuModuleLoadData", driver.Load(ctypes.pointer(handle), self.keep(image)))
        found = c_void_p(function)
        self.left("cuModuleGetFunction", driver.GetFunction(ctypes.pointer(found), module, name.encode()))

    def encode(
        self, box: Sequence[int], swizzle: int = 3, dtype: int = 7, steps: Sequence[int] = (1, 1)
    ) -> bytes:
        """Encodes a tensor map; its bytes."""
        data = bytes([dtype, swizzle, *box, *steps]).ljust(128, b"\3")
        arrays = [(c_uint32 * len(x))(*x) for x in (box, steps)]
        boxes, skips = (cast(a, ctypes.POINTER(c_uint32)) for a in arrays)
        rest = (boxes, skips, 0, swizzle, 0, 0)
        arguments = driver.EncodeTiled(self.keep(data), dtype, len(box), IN, None, None, *rest)
        self.left("cuTensorMapEncodeTiled", arguments)
        return data

    def launch(self, values: Sequence[bytes], grid: tuple[int, int, int] = (2, 1, 1)) -> None:
        places = (c_void_p * len(values))(*map(self.keep, values))
        arguments = driver.LaunchKernel(
            77,
            driver.Dim3(*grid),
            driver.Dim3(64, 1, 1),
            0,
            None,
            cast(places, ctypes.POINTER(c_void_p)),
            None,
        )
        self.listener.entered("cuLaunchKernel_ptsz", addressof(arguments))

    @property
    def journal(self) -> Journal:
        return self.listener.journal


def _values(program: Program, box: Sequence[int] = (16, 4), **said: Any) -> list[bytes]:
    map_ = program.encode(box, **said)
    return [struct.pack("<Q", IN), map_, struct.pack("<I", 5), struct.pack("<f", 0.5), STRUCT]


def _written(program: Program, folder: Path) -> dict[str, Any]:
    done = write(program.journal, folder, PtxFiles([]))
    (path,) = done.files
    (table,) = tomllib.loads(Path(f"{path}.launch.toml").read_text())["kernel"].values()
    assert isinstance(table, dict)
    return table


@pytest.mark.parametrize(("count", "verdict"), [(256, Verdict.PROVED), (128, Verdict.REFUTED)])
def test_what_was_recorded_is_checked(count: int, verdict: Verdict, tmp_path: Path) -> None:
    """The box of the map tells how many bytes come: 16 x 4 elements of 4 bytes."""
    program = Program()
    program.load(PTX.replace("256;", f"{count};").encode() + b"\0")
    program.launch(_values(program, swizzle=0))
    (path,) = write(program.journal, tmp_path, PtxFiles([])).files
    (report,) = check_source(read_source(path), facts=facts_for(path), repairs=False)
    assert (report.verdict, report.scope.kind.value) == (verdict, "exact")


def test_a_launch_file_holds_it_all(tmp_path: Path) -> None:
    program = Program()
    program.load(PTX.encode() + b"\0")
    program.launch(_values(program))
    table = _written(program, tmp_path)
    assert table.pop("params") == {
        "0": {"ptr": "p0"},
        "1": {"tensormap": "p1", "dtype": "f32", "box": [16, 4], "swizzle": "128B"},
        "2": 5,
        "3": 0.5,
        "4": [{"ptr": "p0", "at": 0}, {"bytes": "0700000009000000", "at": 8}],
    }
    assert table == {"grid": [2, 1, 1], "block": [64, 1, 1], "dynamic_smem": 0, "registers": 40}


def test_a_box_that_skips_elements_is_as_large_as_what_arrives(tmp_path: Path) -> None:
    """The innermost stride is ignored where nothing is interleaved (cuTensorMapEncodeTiled)."""
    program = Program()
    program.load(PTX.encode() + b"\0")
    program.launch(_values(program, (32, 7), steps=(2, 2)))
    assert _written(program, tmp_path)["params"]["1"]["box"] == [32, 4]


def test_a_map_without_words_for_it_is_left_open(tmp_path: Path) -> None:
    program = Program()
    program.load(PTX.encode() + b"\0")
    program.launch(_values(program, dtype=13))
    assert _written(program, tmp_path)["params"]["1"] == {"tensormap": "p1"}


def test_launches_that_are_alike_are_one_and_others_have_files_of_their_own(tmp_path: Path) -> None:
    program = Program()
    program.load(PTX.encode() + b"\0")
    for x in (1, 1, 2, 3, 4):
        program.launch(_values(program), (x, 1, 1))
    done = write(program.journal, tmp_path, PtxFiles([]), most=3)
    assert [p.name for p in done.files] == ["copy.ptx", "copy-2.ptx", "copy-3.ptx"]
    assert done.left == (("copy", "1 further launches, of 4 that differ"),)
    assert "# 2 launches alike" in (tmp_path / "copy.ptx.launch.toml").read_text()


def test_launches_that_differ_in_addresses_are_alike(tmp_path: Path) -> None:
    program = Program()
    program.load(PTX.encode() + b"\0")
    one = _values(program)
    for address in (IN, IN + 1024):
        program.launch([struct.pack("<Q", address), *one[1:4], struct.pack("<QII", address, 7, 9)])
    program.launch([struct.pack("<Q", IN), *one[1:4], struct.pack("<QII", IN + 8, 7, 9)])
    done = write(program.journal, tmp_path, PtxFiles([]))
    first, second = (Path(f"{p}.launch.toml").read_text() for p in done.files)
    assert "# 2 launches alike" in first and first.count('{ptr = "p0"') == 2
    assert '{ptr = "p4", align = 8, at = 0}' in second


def test_what_differs_is_left_open(tmp_path: Path) -> None:
    program = Program()
    program.load(PTX.encode() + b"\0")
    one = _values(program, swizzle=0)
    for n, grid in ((5, (2, 1, 1)), (6, (3, 1, 1)), (6, (4, 1, 1))):
        program.launch([*one[:2], struct.pack("<I", n), *one[3:]], grid)
    wider = program.encode((16, 4), dtype=6)
    program.launch([one[0], wider, *one[2:]])
    same, other = write(program.journal, tmp_path, PtxFiles([]), open_=True).files
    text = Path(f"{same}.launch.toml").read_text()
    assert "# 3 launches; what differs between them is left out" in text
    assert "grid" not in text and "\n2 = " not in text and "\n3 = 0.5\n" in text
    assert 'dtype = "f16"' in Path(f"{other}.launch.toml").read_text()
    (report,) = check_source(read_source(same), facts=facts_for(same), repairs=False)
    assert (report.verdict, report.scope.kind.value) == (Verdict.PROVED, "all")  # it reads no size


def test_parameters_in_one_buffer(tmp_path: Path) -> None:
    program = Program()
    program.load(PTX.encode() + b"\0")
    one, map_, *others = _values(program)
    data = one.ljust(64, b"\0") + map_ + b"".join(others)
    size = ctypes.c_size_t(len(data))
    extra = (c_void_p * 5)(driver.BUFFER_POINTER, program.keep(data), driver.BUFFER_SIZE, addressof(size), 0)
    config = driver.LaunchConfig(driver.Dim3(4, 1, 1), driver.Dim3(64, 1, 1), 1024, None, None, 0)
    cluster = (driver.LaunchAttribute * 1)(driver.LaunchAttribute(driver.CLUSTER_DIMENSION, 0, (2, 1, 1)))
    config.attributes, config.count = cast(cluster, ctypes.POINTER(driver.LaunchAttribute)), 1
    arguments = driver.LaunchKernelEx(ctypes.pointer(config), 77, None, cast(extra, ctypes.POINTER(c_void_p)))
    program.listener.entered("cuLaunchKernelEx", addressof(arguments))
    table = _written(program, tmp_path)
    assert (table["grid"], table["cluster"], table["dynamic_smem"]) == ([4, 1, 1], [2, 1, 1], 1024)
    assert table["params"]["2"] == 5


@pytest.mark.parametrize("required", [(), (1, 1, 1), (2, 1, 1)])
def test_the_cluster_of_a_launch_that_gives_none(tmp_path: Path, required: tuple[int, ...]) -> None:
    """A kernel written for clusters is checked without asking for what the driver knows."""
    program = Program()
    program.driver.required = required
    program.load(PTX.encode() + b"\0")
    program.launch(_values(program))
    assert tuple(_written(program, tmp_path).get("cluster", ())) == required


def _elf(size: int) -> bytes:
    """What a cubin of some bytes is, to a loader: sections behind all else."""
    head = b"\x7fELF".ljust(32, b"\0") + struct.pack("<QQ", 0, size - 128) + b"\0" * 6
    return (head + struct.pack("<HHHH", 56, 0, 64, 2)).ljust(size, b"\7")


def test_ptx_lies_beside_the_cubin_that_was_loaded(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for folder, text in (("a", PTX.replace("256;", "512;")), ("b", PTX)):
        (cache / folder).mkdir(parents=True)
        (cache / folder / "copy.ptx").write_text(text)
        (cache / folder / "copy.cubin").write_bytes(_elf(400 if folder == "a" else 500))
    program = Program()
    program.load(_elf(500))
    program.launch(_values(program))
    (path,) = write(program.journal, tmp_path, PtxFiles([cache])).files
    assert path.read_text() == PTX
    program = Program()
    program.load(_elf(600))
    program.launch(_values(program))
    done = write(program.journal, tmp_path, PtxFiles([cache]))
    assert done.left == (("copy", "2 different PTX files have an entry of that name"),)


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    program = Program()
    program.load(b"// nothing\n.version 8.5\n.target sm_90a\n.address_size 64\n\0")
    program.launch(_values(program))
    assert write(program.journal, tmp_path, PtxFiles([])).left == (("copy", "its PTX has no such entry"),)
    program = Program()
    program.load(PTX.replace("map[128]", "map[64]").encode() + b"\0")
    program.launch(_values(program))
    ((_, why),) = write(program.journal, tmp_path, PtxFiles([])).left
    assert why == "its parameters have [8, 128, 4, 4, 16] bytes, those of the PTX [8, 64, 4, 4, 16]"


def test_kernels_of_libraries_are_counted(tmp_path: Path) -> None:
    journal = Journal()
    journal.add(Launch("elementwise", (1, 1, 1), (32, 1, 1), 0, ()))
    assert write(journal, tmp_path, PtxFiles([])).built_in == 1
    assert write(journal, tmp_path, PtxFiles([]), ["elem*"]).left == (("elementwise", "no PTX was found"),)
    assert write(journal, tmp_path, PtxFiles([]), ["other"]).built_in == 0


def test_a_driver_that_does_not_tell_sizes() -> None:
    program = Program()
    program.listener.driver.sizes = None  # type: ignore[attr-defined]
    program.load(PTX.encode() + b"\0")
    program.launch([])
    assert program.journal.unreadable == {"copy": "the driver does not tell the sizes of its parameters"}


@pytest.mark.parametrize(
    ("text", "has"),
    [(".entry copy(", True), (".entry copy (", True), (".entry copy2(", False), (".entry copy\n{", True)],
)
def test_an_entry_is_found_by_its_whole_name(text: str, has: bool) -> None:
    assert has_entry(text, "copy") == has


def test_ptx_that_was_loaded_is_text() -> None:
    assert Image(b".version 8.5\0\0").ptx == ".version 8.5"
    assert Image(_elf(300)).ptx is None
    assert TensorMap("f32", (1,), "none").unsaid == ""
