"""Proofs in processes of their own: the caller finds what they stored."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.fusion import Fusion, Tensor, trace
from syncverify.gate import ahead
from syncverify.gate.ahead import Ahead, Provers, compile_fusion, prove, prove_ahead
from syncverify.gate.matmul import Matmul
from syncverify.matmul.problem import product


def scaled(x: Any, y: Any) -> Any:
    return {"z": x * 2.0 + y}


def one(name: str = "scaled_ahead") -> Ahead:
    scaled.__name__ = name
    fusion = trace(scaled, {"x": Tensor("f32", ("c",)), "y": Tensor("f32", ("c",))})
    return Ahead(fusion, {"c": 4096}, Policy.PRACTICAL, 132, 60.0)


def test_what_was_proved_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    kernel = pickle.loads(pickle.dumps(one()))
    prove(kernel)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    assert before
    compiled = compile_fusion(kernel.kernel, kernel.sizes, kernel.policy, proof_seconds=1e-9)
    compiled.program(kernel.sizes).require_proof(dict(compiled.launch_values(kernel.sizes, 132)))


def test_a_worker_loads_what_nvrtc_opens_before_nvrtc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"]
    for name in (*names, "libnvrtc-builtins.alt.so.13.0"):
        (tmp_path / name).touch()
    loaded: list[str] = []
    monkeypatch.setattr(ahead.ctypes, "CDLL", lambda path, mode: loaded.append(Path(path).name))
    ahead._load(str(tmp_path / names[1]))
    assert loaded == names


@pytest.fixture
def proving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of kernels in the order in which workers got them; the processes only answer."""
    seen: list[str] = []
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))

    def answer(self: Any, kernel: Ahead) -> dict[str, Any]:
        seen.append(kernel.kernel.name)
        if seen[-1] == "broken":
            raise BrokenPipeError("the process died")
        return {"proved": seen[-1] != "unknown", "why": "no proof", "tools": ahead._tools()}

    monkeypatch.setattr(ahead._Worker, "_begin", lambda self: None)
    monkeypatch.setattr(ahead._Worker, "_answer", answer)
    return seen


def test_each_kernel_is_proved_once(proving: list[str]) -> None:
    provers = Provers(2)
    provers.start([one("first"), one("second")])
    provers.start([one("second"), one("third")])
    provers.wait([one("third"), one("first"), one("second"), one("not begun")])
    assert sorted(proving) == ["first", "second", "third"]


def test_a_worker_that_fails_says_so_and_goes_on(
    proving: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "syncverify.gate")
    prove_ahead([one("broken"), one("unknown"), one("good")], jobs=2)
    assert sorted(proving) == ["broken", "good", "unknown"]
    assert [ahead.answered(one(name)) for name in ("good", "unknown", "broken")] == [True, False, None]
    assert "broken could not be proved ahead: BrokenPipeError" in caplog.text
    assert "unknown is not proved ahead: no proof" in caplog.text and "good" not in caplog.text


def test_another_process_asks_no_worker_again(proving: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    prove_ahead([one("first"), one("unknown")], jobs=2)
    later = Provers(2)
    later.start([one("first"), one("unknown")])
    later.wait([one("first"), one("unknown")])
    assert sorted(proving) == ["first", "unknown"] and not later._workers
    monkeypatch.setattr(ahead, "_tools", lambda *_: ["another NVRTC", "another checker"])
    prove_ahead([one("first")], jobs=2)
    assert sorted(proving) == ["first", "first", "unknown"]


def test_proofs_of_other_tools_are_told(
    proving: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answered = {"proved": True, "why": "", "tools": ["0.0", "another"]}
    monkeypatch.setattr(ahead._Worker, "_answer", lambda self, kernel: answered)
    prove_ahead([one("foreign")], jobs=2)
    assert "foreign was proved ahead with other tools" in caplog.text


def _busy(monkeypatch: pytest.MonkeyPatch) -> tuple[Provers, threading.Event]:
    """Provers at work on a first kernel until the event is set, and no process but theirs."""
    proved = ahead._Worker._answer
    begun, go_on = threading.Event(), threading.Event()

    def answer(self: Any, kernel: Ahead) -> dict[str, Any]:
        begun.set()
        go_on.wait(20)
        return proved(self, kernel)

    monkeypatch.setattr(ahead._Worker, "_answer", answer)
    provers = Provers(2)
    provers.start([one("first")])
    begun.wait(20)
    monkeypatch.setattr(Provers, "warm", lambda self, count: None)
    return provers, go_on


def test_what_gains_most_for_its_time_is_proved_first(
    proving: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product's proof takes six times as long as one of elements, so four times the gain comes later."""
    provers, go_on = _busy(monkeypatch)
    long = product_of(8192, 2048, 2048)
    later = [one("small"), long, one("large"), one("last")]
    provers.start(later, [0.1, 0.4, 0.3])
    go_on.set()
    provers.wait(later)
    assert proving == ["first", "large", "small", long.kernel.name, "last"]


def test_what_a_proof_gains_for_all_its_sizes_counts(
    proving: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sizes of a product gain 0.9 and 0.8 by one proof, which is 0.28 for its time; elements gain 0.2."""
    provers, go_on = _busy(monkeypatch)
    first, alike = (product_of(8192, 2048, k) for k in (2048, 4096))
    assert first.key == alike.key
    later = [one("small"), first, alike]
    provers.start(later, [0.2, 0.9, 0.8])
    go_on.set()
    provers.wait(later)
    assert proving == ["first", first.kernel.name, "small"]


def test_rows_do_not_wait_for_products(proving: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Five workers for four jobs: one of them proves no products."""
    proved = ahead._Worker._answer
    busy, go_on = threading.Semaphore(0), threading.Event()

    def answer(self: Any, kernel: Ahead) -> dict[str, Any]:
        if not isinstance(kernel.kernel, Fusion):
            busy.release()
            go_on.wait(20)
        return proved(self, kernel)

    monkeypatch.setattr(ahead._Worker, "_answer", answer)
    provers = Provers(4)
    products = [product_of(8192, 2048, 2048), product_of(8192, 2049, 2048), product_of(64, 2048, 8192)]
    products += [product_of(64, 64, 16384), product_of(2048, 2048, 512), product_of(128, 4096, 512)]
    assert len({x.key for x in products}) == 6
    provers.start(products)
    for _ in range(4):
        assert busy.acquire(timeout=20)
    provers.start([one("rows")])
    assert provers.wait([one("rows")], 20) == [True] and proving == ["rows"]
    go_on.set()
    assert all(provers.wait(products, 20))


def test_workers_are_copies_of_one_process_and_a_new_one_follows_one_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    provers = Provers(2)
    provers.start([one("before")])
    provers.wait([one("before")])
    process = provers._forks._process
    (worker,) = provers._workers
    assert worker._pipe is not None
    provers._forks.end(worker._number)
    assert worker._pipe.read(1) == b""
    monkeypatch.setattr(Provers, "warm", lambda self, count: None)
    provers.start([one("dies")])
    provers.wait([one("dies")])
    provers.start([one("after")])
    provers.wait([one("after")])
    provers._forks.close()
    assert process is not None and process is provers._forks._process and process.wait(20) == 0
    assert [ahead.answered(one(name)) for name in ("before", "dies", "after")] == [True, None, True]


def test_a_mistake_of_the_checker_is_said_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the process goes on; one that ends says so."""
    answers: list[bytes] = []

    def fails(kernel: Ahead) -> None:
        raise RecursionError("too deep")

    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(ahead, "prove", fails)
    own, other = socket.socketpair()
    with own, other:
        ahead._send(own.makefile("rwb"), pickle.dumps(one("deep")))
        own.shutdown(socket.SHUT_WR)
        ahead._prove_all(other)
        answers.append(ahead._received(own.makefile("rwb")) or b"")
    (found,) = map(json.loads, answers)
    assert not found["proved"] and found["failed"] == "RecursionError: too deep"
    monkeypatch.setattr(ahead._Worker, "_begin", lambda self: None)
    monkeypatch.setattr(ahead._Worker, "_answer", lambda self, kernel: found)
    prove_ahead([one("deep")], jobs=2)
    assert "deep could not be proved ahead: RecursionError: too deep" in caplog.text
    assert ahead.answered(one("deep")) is None


def test_one_core_proves_nothing_ahead(proving: list[str]) -> None:
    prove_ahead([one("first")], jobs=0)
    assert proving == []


def test_of_two_cores_one_proves(proving: list[str]) -> None:
    """Else the process itself would prove, while its compilation waits."""
    prove_ahead([one("first")], jobs=1)
    assert proving == ["first"]


def test_a_worker_proves_with_the_callers_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a package of the same name lies in the working directory."""
    other = tmp_path / "elsewhere" / "syncverify"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise RuntimeError('another package')\n")
    monkeypatch.chdir(other.parent)
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))
    kernel = one("in_a_worker")
    prove_ahead([kernel], jobs=2)
    compiled = compile_fusion(kernel.kernel, kernel.sizes, kernel.policy, proof_seconds=1e-9)
    compiled.program(kernel.sizes).require_proof(dict(compiled.launch_values(kernel.sizes, 132)))


def product_of(m: int, n: int, k: int) -> Ahead:
    return Ahead(product("bf16", "KK"), {"M": m, "N": n, "K": k}, Policy.PRACTICAL, 132, 60.0)


def test_a_layer_asks_for_few_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels are as fast as the model can tell, the one that is asked for already is taken."""
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(ahead, "_SCHEDULES", {})
    monkeypatch.setattr(ahead, "_SETTLED", {})
    layer = [product_of(8192, *nk) for nk in ((1024, 3072), (1024, 4096), (1024, 1024), (4096, 1024))]
    assert len({x.key for x in layer}) < len({Matmul(x.kernel).schedule(x.sizes) for x in layer})
    asked = list(ahead._SCHEDULES.values())
    monkeypatch.setattr(ahead, "_SETTLED", {})  # as in a worker, which finds the choice on disk
    for one, wanted in zip(layer, asked, strict=True):
        own = ahead.with_few_proofs(one.kernel, one.policy)
        assert own.schedule(one.launched, one.multiprocessors) == wanted


def test_sizes_that_one_proof_shows_are_asked_once() -> None:
    """Products of one schedule share a kernel that is proved for every size."""
    first, alike, odd = (product_of(8192, n, k) for n, k in ((2048, 2048), (2048, 4096), (2049, 2048)))
    schedules = [Matmul(x.kernel).schedule(x.sizes) for x in (first, alike)]
    assert schedules[0] == schedules[1] and not schedules[0].proved_by_launch
    assert first.key == alike.key != odd.key
