"""Work beside other work, where a second core is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Does work in a thread beside the block, for its effects: what goes wrong in it is left to whoever asks
    for them."""

    def run() -> None:
        with suppress(Exception):
            work()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


__all__ = ["beside"]
