"""A prover that returns anything: certificates are followed by the kernel alone, which accepts nothing wrong.

Each public function and method of the prover is patched in turn. What it returns has numbers changed, parts
dropped and names exchanged. What is found then becomes a certificate, of a right kernel and of wrong ones.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest

from syncverify.base.certificate_data import RejectedError
from syncverify.base.diagnostics import Policy
from syncverify.checker.kernel.accept import Accepted
from syncverify.checker.kernel.linear import Term
from syncverify.checker.prover.rings.by_induction import shown_cases
from syncverify.driver import by_kernel
from syncverify.driver.by_kernel import of_kernel
from syncverify.driver.certificates import protocols
from syncverify.ir.text.parser import parse
from tests.checker.induction.bases import IR, Base
from tests.checker.induction.sweep import LateError, limited
from tests.checker.induction.test_clusters import MISTAKES as OF_CLUSTERS
from tests.checker.induction.test_flags import MISTAKES as OF_BLOCKS
from tests.checker.induction.test_read import MISTAKES as OF_RINGS
from tests.checker.induction.test_read import posed

PACKAGES = ("syncverify.checker.prover.protocols", "syncverify.checker.prover.rings")
#: One call in so many is corrupted.
RARELY = 3
#: Right kernels, each with wrong ones.
KERNELS: dict[str, tuple[Base, dict[str, tuple[str, str]]]] = {
    "ring": (IR["ring of three"], OF_RINGS),
    "blocks": (IR["blocks"], OF_BLOCKS),
    "pair": (IR["pair"], OF_CLUSTERS),
}


def functions() -> list[tuple[str, Any, str]]:
    """Public functions and methods: a name, the owner, and what it is called there."""
    out: list[tuple[str, Any, str]] = []
    for package in PACKAGES:
        for found in iter_modules(import_module(package).__path__):
            module = import_module(f"{package}.{found.name}")
            for name, x in vars(module).items():
                if name.startswith("_") or getattr(x, "__module__", None) != module.__name__:
                    continue
                if inspect.isfunction(x):
                    out.append((f"{found.name}.{name}", module, name))
                elif inspect.isclass(x):
                    methods = [
                        n for n, f in vars(x).items() if inspect.isfunction(f) and not n.startswith("_")
                    ]
                    out += [(f"{found.name}.{name}.{n}", x, n) for n in methods]
    return out


def corrupted(x: Any, rng: random.Random, depth: int = 0) -> Any:
    """The same with one thing changed, somewhere inside."""

    def change(y: Any) -> Any:
        return corrupted(y, rng, depth + 1)

    match x:
        case bool():
            return not x
        case int():
            return x + rng.choice((-2, -1, 1, 2))
        case Term():
            parts = {a: new for a, k in x.parts.items() if (new := k + rng.choice((-1, 0, 1)))}
            return Term(parts, x.const + rng.choice((-1, 0, 1)))
        case list() | tuple() if x and type(x) in (list, tuple):
            items = list(x)
            i, j = rng.randrange(len(items)), rng.randrange(len(items))
            what = rng.random()
            if what < 0.25:
                del items[i]
            elif what < 0.5:
                items[i], items[j] = items[j], items[i]
            else:
                items[i] = change(items[i])
            return type(x)(items)
        case dict() if x:
            i, j = rng.choice(list(x)), rng.choice(list(x))
            if rng.random() < 0.2:
                return {key: y for key, y in x.items() if key != i}
            if rng.random() < 0.5:
                return {**x, i: x[j], j: x[i]}
            return {**x, i: change(x[i])}
        case _ if is_dataclass(x) and not isinstance(x, type) and depth < 12:
            names = [f.name for f in fields(x) if f.init]
            if names:
                name = rng.choice(names)
                return replace(x, **{name: change(getattr(x, name))})
    return x


def liar(real: Callable[..., Any], rng: random.Random) -> Callable[..., Any]:
    """A function that returns something else at times."""
    if inspect.isgeneratorfunction(real):

        def several(*args: Any, **more: Any) -> Iterator[Any]:
            for x in real(*args, **more):
                yield x if rng.randrange(RARELY) else corrupted(x, rng)

        return several

    def one(*args: Any, **more: Any) -> Any:
        x = real(*args, **more)
        return x if rng.randrange(RARELY) else corrupted(x, rng)

    return one


@contextmanager
def lying(owner: Any, name: str, seed: int) -> Iterator[None]:
    """The function is replaced wherever the prover has it; what the prover asks of the kernel is affirmed."""
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        real = vars(owner)[name]
        new = liar(real, rng)
        patch.setattr(owner, name, new)
        for module in [m for x, m in sys.modules.items() if x.startswith(PACKAGES)]:
            for known, x in list(vars(module).items()):
                if x is real:
                    patch.setattr(module, known, new)
        patch.setattr(import_module(f"{PACKAGES[0]}.prove"), "accept", lambda *_, **__: Accepted(()))
        yield


def written(text: str) -> Any:
    """What the prover finds, as it is in a certificate."""
    try:
        with limited(5):
            return protocols.written((tuple(shown_cases(posed(text), Policy.PRACTICAL)),))
    except (Exception, LateError):  # whatever a liar leads to
        return None


def followed(text: str, proof: Any) -> bool:
    (kernel,) = parse(text, "k.syncir")
    try:
        of_kernel(kernel, {}, Policy.PRACTICAL, proof, "proof")
    except RejectedError:
        return False
    return True


def tried(kernel: str, some: list[tuple[str, Any, str]], seed: int) -> tuple[int, list[str]]:
    """How many certificates liars have written, and which of a wrong kernel are followed."""
    base, mistakes = KERNELS[kernel]
    wrong = {what: base.text.replace(*edit) for what, edit in mistakes.items()}
    many, accepted = 0, []
    for i, (name, owner, attribute) in enumerate(some):
        rng = random.Random(f"{seed} {name}")
        what = rng.choice(list(wrong))
        for text in (base.text, wrong[what]):
            with lying(owner, attribute, seed + i):
                proof = written(text)
            if proof is None:
                continue
            many += 1
            if followed(wrong[what], proof):
                accepted.append(f"{name}: {what}")
    return many, accepted


def test_what_is_changed_differs() -> None:
    rng = random.Random(1)
    some = {"a": (1, 2, 3), "b": (4,)}
    assert sum(corrupted(some, rng) != some for _ in range(50)) > 30


def test_without_the_kernel_a_wrong_kernel_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = written(IR["blocks"].text)
    wrong = IR["blocks"].text.replace(*OF_BLOCKS["the addition does not release"])
    assert followed(IR["blocks"].text, proof) and not followed(wrong, proof)
    monkeypatch.setattr(by_kernel, "accept", lambda *_: Accepted(()))
    assert followed(wrong, proof)


def test_no_liar_gets_a_wrong_kernel_in() -> None:
    every = functions()
    assert len(every) > 100
    many, accepted = tried("blocks", random.Random(2).sample(every, 3), 1)
    assert accepted == [] and many > 0


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(2))
def test_no_function_of_the_prover_gets_a_wrong_kernel_in(kernel: str, seed: int) -> None:
    many, accepted = tried(kernel, functions(), seed)
    assert accepted == [] and many > 20
