"""Every synchronization of a good kernel is needed: without any one of them the checker refutes it.

The kernels lie in ``tests/system/random/good``. A line that may go says so itself: ``// not needed: why``;
one that the checker comes to refute must lose that comment.
"""

import re
from pathlib import Path

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse
from syncverify.simulate.ir import explore

GOOD = sorted((Path(__file__).parent / "good").glob("*.syncir"))

SYNC = re.compile(
    r"\s*(mbarrier\.|bar\.|warp\.sync|cluster\.|fence\.|bulk\.(wait|commit)|cp\.async\.(wait|commit|mb)"
    r"|wgmma\.(fence|commit|wait)).*"
)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def statements() -> list[tuple[Path, int]]:
    """Every line that synchronizes."""
    return [
        (path, n)
        for path in GOOD
        for n, line in enumerate(lines(path))
        if SYNC.fullmatch(line) and not re.match(r"\s*mbarrier (\w+)(\[\d+\])?$", line)
    ]


def without(path: Path, n: int) -> str:
    text = lines(path)
    return "\n".join([*text[:n], "", *text[n + 1 :]])


def verdict(text: str) -> Verdict:
    (kernel,) = parse(text, "good.syncir")
    return check_kernel(kernel, {}).verdict


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_the_kernel_itself_is_proved(path: Path) -> None:
    (kernel,) = parse(path.read_text(), path.name)
    assert check_kernel(kernel, {}).verdict is Verdict.PROVED
    assert not explore(kernel, {}, limit_states=20_000).harms


@pytest.mark.parametrize(
    ("path", "n"), statements(), ids=lambda x: x.stem if isinstance(x, Path) else str(x + 1)
)
def test_without_it_the_kernel_is_refuted(path: Path, n: int) -> None:
    expected = Verdict.PROVED if "// not needed:" in lines(path)[n] else Verdict.REFUTED
    assert verdict(without(path, n)) is expected
