"""The pytest plugin: kernels that are compiled during tests are verified, and tests can ask for it.

    pytest --syncverify             reports at the end what was found in the kernels that tests compile
    pytest --syncverify=fail        fails the test that compiles a refuted kernel

    def test_kernel(verified_kernels):
        my_kernel[grid](x, y)                        # fails here if the kernel is refuted
        verified_kernels.check("ring.cu")            # and so does this

The marker ``syncverify(policy=..., unknown=..., timeout=..., skip=...)`` changes how the kernels of a test
are judged.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from syncverify.base.diagnostics import KernelReport
    from syncverify.watch.session import Session

_SESSION = pytest.StashKey["Session"]()
_MARKER = (
    "syncverify(policy='practical', unknown='pass', timeout=60, skip=False): how the kernels that a test "
    "compiles are verified; unknown='fail': an undecided kernel fails the test, too"
)
_KNOWN = {"policy", "unknown", "timeout", "skip"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("syncverify", "verification of GPU kernels")
    group.addoption(
        "--syncverify",
        nargs="?",
        const="report",
        choices=("report", "fail"),
        help="verify the kernels that tests compile: report what is found (default), or fail the test",
    )
    parser.addini("syncverify", "report or fail: as --syncverify", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if _mode(config) is None:
        return
    from syncverify.watch.compilers import watch
    from syncverify.watch.session import Session

    session = Session("collect")
    config.stash[_SESSION] = session
    config.add_cleanup(watch(session))


def _mode(config: pytest.Config) -> str | None:
    mode = config.getoption("--syncverify") or config.getini("syncverify") or None
    if mode not in (None, "report", "fail"):
        raise pytest.UsageError(f"syncverify = {mode!r}: use report or fail")
    return mode


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watches one test; with ``fail`` the test fails by what it compiled."""
    session = item.config.stash.get(_SESSION, None)
    if session is None:
        return (yield)
    with _Judged(session, item):
        before = len(session.met)
        result = yield
        if _mode(item.config) == "fail":
            _demand(session, session.met[before:])
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    session = config.stash.get(_SESSION, None)
    if session is None:
        return
    terminalreporter.section("syncverify")
    bad = [r for r in session.reports if session.fails(r)]
    if bad:
        terminalreporter.write_line(session.text(bad).rstrip())
    for fault in session.faults:
        terminalreporter.write_line(f"not checked: {fault}")
    terminalreporter.write_line(session.summary())


@dataclass(frozen=True)
class VerifiedKernels:
    """What the fixture ``verified_kernels`` gives."""

    session: Session
    first: int  # of ``session.met``: what this test compiled begins there
    checked: list[KernelReport] = field(default_factory=list)

    @property
    def compiled(self) -> list[KernelReport]:
        """The reports of the kernels that this test has compiled so far."""
        return self.session.met[self.first :]

    @property
    def reports(self) -> list[KernelReport]:
        """Those, and the reports of what the test gave to ``check``."""
        return [*self.compiled, *self.checked]

    def check(self, kernels: Any, **options: Any) -> list[KernelReport]:
        """``syncverify.check``; fails the test unless every kernel is proved."""
        from syncverify.api import check
        from syncverify.base.diagnostics import Verdict

        reports = check(kernels, **{"policy": self.session.policy, **options})
        self.checked.extend(reports)
        bad = [r for r in reports if r.verdict is not Verdict.PROVED]
        if bad:
            pytest.fail(self.session.text(bad), pytrace=False)
        return reports


@pytest.fixture
def verified_kernels(request: pytest.FixtureRequest) -> Iterator[VerifiedKernels]:
    """Verifies every kernel that the test compiles; the test fails if one is refuted."""
    session = request.config.stash.get(_SESSION, None)
    if session is not None:  # all are watched already
        kernels = VerifiedKernels(session, len(session.met))
        yield kernels
        _demand(session, kernels.compiled)
        return
    from syncverify.watch.compilers import watch
    from syncverify.watch.session import Session

    session = Session("collect")
    end = watch(session)
    try:
        with _Judged(session, request.node):
            kernels = VerifiedKernels(session, 0)
            yield kernels
            _demand(session, kernels.compiled)
    finally:
        end()


def _demand(session: Session, reports: list[KernelReport]) -> None:
    bad = [r for r in reports if session.fails(r)]
    if bad:
        pytest.fail(session.text(bad), pytrace=False)


class _Judged:
    """A test with the settings of its marker."""

    def __init__(self, session: Session, item: pytest.Item) -> None:
        self.session, self.settings = session, _settings(item)

    def __enter__(self) -> None:
        from syncverify.base.diagnostics import Policy

        s = self.session
        self.before = (s.policy, s.unknown, s.seconds, s.paused)
        s.policy = Policy(self.settings.get("policy", s.policy))
        s.unknown = self.settings.get("unknown", s.unknown)
        s.seconds = float(self.settings.get("timeout", s.seconds))
        s.paused = bool(self.settings.get("skip", False))

    def __exit__(self, *_: object) -> None:
        s = self.session
        s.policy, s.unknown, s.seconds, s.paused = self.before


def _settings(item: pytest.Item) -> Mapping[str, Any]:
    """The marker's arguments. A wrong one is an error of the test."""
    marker = item.get_closest_marker("syncverify")
    if marker is None:
        return {}
    wrong = sorted(set(marker.kwargs) - _KNOWN)
    if marker.args or wrong:
        what = ", ".join(wrong) or "an argument without a name"
        raise pytest.UsageError(f"marker syncverify: {what}; known: {', '.join(sorted(_KNOWN))}")
    if marker.kwargs.get("policy", "practical") not in ("practical", "strict"):
        raise pytest.UsageError(f"marker syncverify: policy is {marker.kwargs['policy']!r}")
    if marker.kwargs.get("unknown", "pass") not in ("pass", "fail"):
        raise pytest.UsageError(f"marker syncverify: unknown is {marker.kwargs['unknown']!r}")
    return marker.kwargs
