"""Proofs that come with the package: found in an empty cache, and only of the sources that made them."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncverify.codegen import shipped
from syncverify.fusion import Fusion
from syncverify.gate import ahead, fusions
from syncverify.gate.ahead import Provers
from syncverify.gate.shipping import ship
from tests.gate.test_ahead import one

KERNEL = "scaled_shipped"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("package") / "shipped.zip"
    assert ship([one(KERNEL)], place, jobs=2) >= 5
    return place


@pytest.fixture
def installed(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive in a package on another machine, whose cache is empty and whose NVRTC is newer."""
    place = tmp_path / "shipped.zip"
    place.write_bytes(archive.read_bytes())
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SYNCVERIFY_SHIPPED", str(place))
    for module in (fusions, ahead):
        monkeypatch.setattr(module, "nvrtc_version", lambda: "99.0")
    shipped._opened.cache_clear()
    return place


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that were checked again."""
    seen: list[str] = []
    plain = fusions.Program._check

    def check(self: Any, stage: str, values: Any) -> Any:
        seen.append(stage)
        return plain(self, stage, values)

    monkeypatch.setattr(fusions.Program, "_check", check)
    return seen


def test_what_came_with_the_package_is_not_proved_again(installed: Path, checks: list[str]) -> None:
    kernel = one(KERNEL)
    assert isinstance(kernel.kernel, Fusion)
    compiled = ahead.compile_fusion(kernel.kernel, kernel.sizes, kernel.policy, proof_seconds=60.0)
    found = compiled.program(kernel.sizes)
    found.require_proof(dict(compiled.launch_values(kernel.sizes, 132)))
    assert not checks and ".entry" in found.ptx
    assert f"{found.key}.cubin" in (shipped.shipped() or {})


def test_no_worker_is_asked_for_it(installed: Path) -> None:
    provers = Provers(2)
    provers.start([one(KERNEL)])
    assert provers.wait([one(KERNEL)]) == [True] and not provers._workers


def test_what_takes_longer_than_a_compilation_waits_comes_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for with the seconds of a compilation, in which no proof would be found."""
    kernel = replace(one("scaled_longer"), proof_seconds=0.01)
    place = tmp_path / "shipped.zip"
    assert ship([kernel], place, jobs=2, seconds=60.0) >= 5
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))
    for archive, answer in ((tmp_path / "none.zip", None), (place, True)):
        monkeypatch.setenv("SYNCVERIFY_SHIPPED", str(archive))
        shipped._opened.cache_clear()
        assert ahead.answered(kernel) is answer


def rewritten(place: Path, change: Any) -> None:
    """The archive with another manifest or other files."""
    with zipfile.ZipFile(place) as given:
        files = {name: given.read(name) for name in given.namelist()}
    about = json.loads(files.pop(shipped.MANIFEST))
    change(about, files)
    with zipfile.ZipFile(place, "w") as made:
        for name, data in {shipped.MANIFEST: json.dumps(about).encode(), **files}.items():
            made.writestr(name, data)
    shipped._opened.cache_clear()


def test_of_other_sources_nothing_is_taken(installed: Path) -> None:
    rewritten(installed, lambda about, files: about.update(sources="other"))
    assert shipped.shipped() is None
    assert ahead.answered(one(KERNEL)) is None


def test_a_file_that_was_changed_is_not_there(installed: Path) -> None:
    def change(about: Any, files: dict[str, bytes]) -> None:
        for name in files:
            files[name] += b" "

    rewritten(installed, change)
    found = shipped.shipped()
    assert found is not None and found.hashes
    assert all(found.read(name) is None for name in found.hashes)
    assert ahead.answered(one(KERNEL)) is None


def test_a_file_whose_bytes_are_damaged_is_not_there(installed: Path) -> None:
    """The names at the archive's end are whole, the files in front of them are not."""
    with zipfile.ZipFile(installed) as whole:
        places = {i.filename: i.header_offset + 30 + len(i.filename) for i in whole.infolist()}
    data = bytearray(installed.read_bytes())
    name = next(n for n in places if n.endswith(".cubin"))
    for k in range(places[name], places[name] + 40):
        data[k] ^= 0xFF
    installed.write_bytes(bytes(data))
    shipped._opened.cache_clear()
    found = shipped.shipped()
    assert found is not None and name in found and found.read(name) is None


def test_damaged_archives_are_none(installed: Path) -> None:
    for data in (b"", b"PK\3\4", installed.read_bytes()[:200]):
        installed.write_bytes(data)
        shipped._opened.cache_clear()
        assert shipped.shipped() is None and shipped.from_package("x.json") is None
