"""Proofs of several kernels in processes side by side: what each finds is stored, and found by the caller.

Example: a graph needs eight products. ``Provers.start`` hands them to worker processes and returns. The
caller compiles something else, then ``wait`` returns when all eight are proved or given up. The caller's own
request for a proof finds it on disk.

``python -m syncverify.gate.ahead`` is what workers are copies of (``base/forks.py``). Each proves what comes
on its socket, one by one.

What may gain most in the shortest time is proved first. Example: the loss of GPT-2 may save a tenth of a
forward pass, and is proved in 1.5 s; a product with a gelu saves less, and takes 10 s. Some workers prove no
products: a loss that is asked for while all others are busy with products waits for none of them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import heapq
import importlib
import json
import logging
import math
import os
import pickle
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from io import BufferedRWPair
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from syncverify.base.cache_dir import digest
from syncverify.base.diagnostics import Policy
from syncverify.base.forks import Forks, can_fork, serve
from syncverify.base.nvrtc import version as nvrtc_version
from syncverify.base.source import InputError
from syncverify.codegen.cache import Cache, tool_fingerprint
from syncverify.codegen.shipped import shipped
from syncverify.fusion import Fusion, RowSchedule, Schedule
from syncverify.gate import compiler, fusions, matmul
from syncverify.gate.padded import padded_sizes
from syncverify.matmul.problem import Problem
from syncverify.matmul.schedule import Schedule as MatmulSchedule

log = logging.getLogger("syncverify.gate")

#: What a process may take beyond the seconds of its proofs: to begin, to make schedules, to compile.
_MORE_SECONDS = 60.0
#: Proofs of one kernel, at most: of its IR and its PTX, in some schedules.
_PROOFS = 4
#: How far workers stand back behind other processes.
_NICE = 10
#: Worker processes, at most.
_MOST_WORKERS = 16
#: What a product's proof takes by that of rows or elements: 5 to 10 s beside 0.6 to 1.5.
_PRODUCT = 6.0
#: For so many workers there is one more, which proves no products.
_QUICK_SHARE = 4
#: What a file of an answer holds where the kernel is proved.
_PROVED = b"proved"
#: The length of a message, before it.
_LENGTH = struct.Struct("<Q")


#: The schedules that were chosen, by product, sizes, policy and multiprocessors: a choice takes milliseconds.
_SCHEDULES: dict[tuple[object, ...], MatmulSchedule] = {}
#: The same by product and policy, whatever the sizes: one proof may serve several.
_SETTLED: dict[tuple[str, Policy], list[MatmulSchedule]] = {}


@dataclass(frozen=True)
class Ahead:
    """A kernel that will be needed for these sizes, on a card with so many multiprocessors."""

    kernel: Fusion | Problem
    sizes: dict[str, int]
    policy: Policy
    multiprocessors: int
    proof_seconds: float

    @cached_property
    def key(self) -> str:
        """The same for what one proof shows."""
        what = kernel_signature(self.kernel), self._proved_for, self.policy.value, self.multiprocessors
        return digest(str(what))

    @property
    def takes(self) -> float:
        """What the proof takes, as far as its kind says."""
        return _PRODUCT if isinstance(self.kernel, Problem) else 1.0

    @property
    def launched(self) -> dict[str, int]:
        """The sizes that a kernel is launched for: rows of factors are made longer where they have to be."""
        return padded_sizes(self.kernel, self.sizes) if isinstance(self.kernel, Problem) else self.sizes

    @property
    def _proved_for(self) -> object:
        """What the proof depends on besides: of products that are proved for every size, their schedule and
        how wide their results are accessed; else the sizes."""
        sizes = tuple(sorted(self.launched.items()))
        if not isinstance(self.kernel, Problem):
            return sizes
        asked = kernel_signature(self.kernel), sizes, self.policy, self.multiprocessors
        if asked not in _SCHEDULES:
            product = with_few_proofs(self.kernel, self.policy)
            _SCHEDULES[asked] = product.schedule(self.launched, self.multiprocessors)
        schedule = _SCHEDULES[asked]
        return sizes if schedule.proved_by_launch else (schedule, self.launched["N"] % 2)


def signature(fusion: Fusion) -> str:
    """What makes two fusions the same kernel."""
    nodes = [(i, str(fusion.node(i))) for i in fusion.order()]
    return str((fusion.name, fusion.inputs, fusion.outputs, fusion.dims, nodes))


def kernel_signature(kernel: Fusion | Problem) -> str:
    """The same of fusions and products."""
    if isinstance(kernel, Fusion):
        return signature(kernel)
    more = "" if kernel.prologue is None else signature(kernel.prologue)
    stored = f"{kernel.layout} {kernel.batched} {kernel.by_columns} {kernel.grouped} {kernel.anywhere}"
    return f"{kernel.dtype} {stored} {signature(kernel.epilogue)} {more}"


def compile_fusion(
    fusion: Fusion, sizes: dict[str, int], policy: Policy, schedule: Schedule | RowSchedule | None = None,
    proof_seconds: float = fusions.PROOF_SECONDS,
) -> fusions.CompiledKernel:  # fmt: skip
    """The fusion, proved for the row length that is needed first; InputError or VerificationError."""
    if schedule is None and fusion.reduced:
        schedule = RowSchedule(width=sizes[fusion.dims[-1]])
    compiled = compiler.compile(fusion, schedule, policy, proof_seconds=proof_seconds)
    if not isinstance(compiled, fusions.CompiledKernel):
        raise InputError(f"{fusion.name} takes several kernels")
    return compiled


def with_few_proofs(
    problem: Problem, policy: Policy, proof_seconds: float = fusions.PROOF_SECONDS
) -> matmul.Matmul:
    """The product, whose schedule for some sizes may be one that other sizes have, so that fewer kernels have
    to be proved. Workers find the caller's choice in the cache directory."""
    settled = _SETTLED.setdefault((kernel_signature(problem), policy), [])
    return matmul.Matmul(problem, policy, proof_seconds=proof_seconds, settled=settled)


def prove(one: Ahead) -> None:
    """Proves a kernel as the caller will; InputError or VerificationError, which it will meet again."""
    if isinstance(one.kernel, Fusion):
        compiled = compile_fusion(one.kernel, one.sizes, one.policy, proof_seconds=one.proof_seconds)
        values = compiled.launch_values(one.sizes, one.multiprocessors)
        compiled.program(one.sizes).require_proof(dict(values))
        return
    product = with_few_proofs(one.kernel, one.policy, one.proof_seconds)
    product.proved(one.launched, one.multiprocessors)


# ---------------------------------------------------------------- the caller's side


@dataclass(frozen=True, order=True)
class _Asked:
    """A kernel in the queue: those that are worth more come first, else as they were asked for."""

    rank: float
    place: int
    kernel: Ahead = field(compare=False)
    done: threading.Event = field(compare=False)


class _Queue:
    """What is still to be proved: products, and what takes less."""

    def __init__(self) -> None:
        self._products: list[_Asked] = []
        self._others: list[_Asked] = []
        self._more = threading.Condition()

    def put(self, asked: _Asked) -> None:
        with self._more:
            product = isinstance(asked.kernel.kernel, Problem)
            heapq.heappush(self._products if product else self._others, asked)
            self._more.notify_all()

    def get(self, *, products: bool) -> _Asked:
        """The first of all, or of those that are no products; waits for one."""
        with self._more:
            while True:
                some = [q for q in (self._others, self._products)[: 1 + products] if q]
                if some:
                    return heapq.heappop(min(some, key=lambda q: q[0]))
                self._more.wait()


@dataclass
class Provers:
    """Worker processes that prove kernels, ``jobs`` at a time; none where there is no core to spare.

    A worker that fails leaves its kernel to the caller, and the log says why.
    """

    jobs: int = field(default_factory=lambda: min(_MOST_WORKERS, _cores() - 1) if can_fork() else 0)
    _begun: dict[str, threading.Event] = field(default_factory=dict, repr=False)
    _queue: _Queue = field(default_factory=lambda: _Queue(), repr=False)
    _workers: list[_Worker] = field(default_factory=list, repr=False)

    @cached_property
    def _forks(self) -> Forks:
        """What workers are copies of."""
        # -P: a package of the same name in the working directory is not this one
        command = [sys.executable, "-P", "-m", "syncverify.gate.ahead", _loaded_nvrtc()]
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        # no threads of numpy's: proofs need none, and copies of a process have none of its threads
        return Forks(command, {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"})

    def warm(self, count: int) -> None:
        """Begins processes until there are so many, or as many as there may be."""
        while len(self._workers) < min(self.jobs + self.jobs // _QUICK_SHARE, count):
            number = len(self._workers)
            take = partial(self._queue.get, products=(number + 1) % (_QUICK_SHARE + 1) > 0)
            self._workers.append(_Worker(take, self._forks, number))

    def start(self, kernels: Iterable[Ahead], worth: Iterable[float] = ()) -> None:
        """Hands kernels to workers, each once, and returns.

        ``worth`` of each is what it may gain; what gains most for the time of its proof comes first, and one
        proof may serve several.
        """
        if self.jobs < 1:
            return
        asked: dict[str, Ahead] = {}
        gains: dict[str, float] = {}
        for one, gain in zip(kernels, chain(worth, repeat(0.0)), strict=False):
            asked.setdefault(one.key, one)
            gains[one.key] = gains.get(one.key, 0.0) + gain
        count = 0
        for key, one in asked.items():
            if key not in self._begun:
                done = self._begun[key] = threading.Event()
                if answered(one) is None:
                    self._queue.put(_Asked(-gains[key] / one.takes, len(self._begun), one, done))
                    count += 1
                else:  # another process has asked for it, or it came with the package
                    done.set()
        if count:
            self.warm(len(self._workers) + count)

    def wait(self, kernels: Iterable[Ahead], seconds: float = math.inf) -> list[bool]:
        """Returns when all of these that were started are proved, or given up, or after some seconds.

        Of each: whether there is nothing to wait for any more.
        """
        until = time.monotonic() + seconds
        return [self._done(one, max(0.0, until - time.monotonic())) for one in kernels]

    def _done(self, one: Ahead, seconds: float) -> bool:
        done = self._begun.get(one.key)
        if done is None:
            return True
        patience = _patience(one)
        return done.wait(min(patience, seconds)) or seconds >= patience


@lru_cache(maxsize=1)
def provers() -> Provers:
    """Those of this process."""
    return Provers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=provers.cache_clear)


def prove_ahead(kernels: Sequence[Ahead], jobs: int | None = None) -> None:
    """Proves all kernels, ``jobs`` at a time, and returns when all are done."""
    own = provers() if jobs is None else Provers(jobs)
    own.start(kernels)
    own.wait(kernels)


def _answered(one: Ahead, tools: Sequence[str]) -> str:
    """The name of the file that says that a worker has proved a kernel, or has found no proof in time."""
    return digest(str((one.key, one.proof_seconds, *tools))) + ".ahead"


def answered(one: Ahead) -> bool | None:
    """Whether a worker has proved a kernel, with these tools or those of what came with the package.

    None: none has answered yet.
    """
    own = shipped()
    tools = [_tools(), *([] if own is None else [_tools(own.compiler)])]
    found = [data for t in tools if (data := Cache.default().read(_answered(one, t))) is not None]
    return _PROVED in found if found else None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 2


def _patience(one: Ahead) -> float:
    return _PROOFS * one.proof_seconds + _MORE_SECONDS


class _Worker:
    """A process and the thread that feeds it. A process that dies or takes too long is begun again."""

    def __init__(self, take: Callable[[], _Asked], forks: Forks, number: int) -> None:
        self._take, self._forks, self._number = take, forks, number
        self._over = False
        self._pipe: BufferedRWPair | None = None
        self._begin()
        threading.Thread(target=self._feed, daemon=True).start()
        atexit.register(self._finish)

    def _begin(self) -> BufferedRWPair:
        with self._forks.begin(self._number) as own:
            found = self._pipe = own.makefile("rwb")
        return found

    def _finish(self) -> None:
        """The caller's process ends: what is not proved by now is of no use, and no fault."""
        self._over = True
        self._forks.end(self._number)

    def _feed(self) -> None:
        while True:
            asked = self._take()
            one = asked.kernel
            try:
                answer = self._answer(one)
                if answer.get("failed"):
                    log.warning("%s could not be proved ahead: %s", one.kernel.name, answer["failed"])
                    continue
                if answer["tools"] == _tools():
                    Cache.default().write(_answered(one, _tools()), _PROVED if answer["proved"] else b"")
                if not answer["proved"]:
                    log.info("%s is not proved ahead: %s", one.kernel.name, answer["why"])
                elif answer["tools"] != _tools():
                    log.warning(
                        "%s was proved ahead with other tools, %s and not %s: it is proved again",
                        one.kernel.name, answer["tools"], _tools(),
                    )  # fmt: skip
            except Exception as e:  # the caller proves it, or says why it cannot
                if not self._over:
                    log.warning("%s could not be proved ahead: %r", one.kernel.name, e)
                    self._forget()
            finally:
                asked.done.set()

    def _forget(self) -> None:
        """Ends the process; the next kernel gets another one."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            self._forks.end(self._number)
            with contextlib.suppress(OSError):
                pipe.close()

    def _answer(self, one: Ahead) -> dict[str, Any]:
        pipe = self._pipe or self._begin()
        late = threading.Timer(_patience(one), self._forks.end, [self._number])
        late.daemon = True
        late.start()
        try:
            _send(pipe, pickle.dumps(one))
            message = _received(pipe)
        finally:
            late.cancel()
        if message is None:
            raise EOFError("its process ended without an answer")
        answer: dict[str, Any] = json.loads(message)
        return answer


def _send(to: BufferedRWPair, message: bytes) -> None:
    to.write(_LENGTH.pack(len(message)) + message)
    to.flush()


def _received(source: BufferedRWPair) -> bytes | None:
    """A message; None at the end."""
    head = source.read(_LENGTH.size)
    return source.read(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else None


def _tools(compiler: str = "") -> list[str]:
    """What a proof's key depends on besides the kernel."""
    return [compiler or nvrtc_version(), tool_fingerprint()[:16]]


def _loaded_nvrtc() -> str:
    """The library that this process compiles with, so that workers compile with the same one."""
    with contextlib.suppress(OSError, InputError):
        nvrtc_version()
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if os.path.basename(path).startswith("libnvrtc.so"):
                    return f"/{path}"
    return ""


# ---------------------------------------------------------------- a worker


def _load(library: str) -> None:
    """Loads the caller's NVRTC, and first what it opens by name when it compiles.

    Some wheels of NVRTC (13.0) do not say that this lies beside them: they would not find it.
    """
    if library:
        built_in = sorted(map(str, Path(library).parent.glob("libnvrtc-builtins.so*")))
        for path in (*built_in, library):
            with contextlib.suppress(OSError):
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def _prepare() -> None:
    """Imports what proofs need, and reads the grammar of the IR, while the caller looks for what is to be
    proved."""
    for name in ("driver.ir", "fusion.pipeline", "gate.ptx_check", "ir.text.parser", "matmul.pipeline"):
        importlib.import_module(f"syncverify.{name}")
    from syncverify.ir.text.parser import parse

    with contextlib.suppress(InputError):
        parse("kernel", "none.syncir")
    with contextlib.suppress(InputError, OSError):
        _tools()


def _prove_all(own: socket.socket) -> None:
    """What a worker does. The caller's own work goes before products, which take long: it waits for proofs
    only a while."""
    pipe, aside = own.makefile("rwb"), False
    while (message := _received(pipe)) is not None:
        one = pickle.loads(message)
        if isinstance(one.kernel, Problem) and not aside:
            aside = True
            with contextlib.suppress(OSError):
                os.nice(_NICE)
        why = failed = ""
        try:
            prove(one)
        except (InputError, fusions.VerificationError) as e:
            why = str(e)
        except Exception as e:  # a mistake of the checker: the caller says so, and will meet it again
            failed = f"{type(e).__name__}: {e}"
        proved = not why and not failed
        answer = {"proved": proved, "why": why, "failed": failed, "tools": _tools()}
        _send(pipe, json.dumps(answer).encode())


def main() -> int:
    _load(sys.argv[1] if len(sys.argv) > 1 else "")
    _prepare()
    serve(_prove_all)
    return 0


if __name__ == "__main__":
    sys.exit(main())


__all__ = [
    "Ahead", "Provers", "answered", "compile_fusion", "kernel_signature", "prove", "prove_ahead", "provers",
    "signature", "with_few_proofs",
]  # fmt: skip
