"""The ``syncverify`` command. What was asked before is answered before the other commands are loaded."""

from __future__ import annotations

import os
import sys

from syncverify.cli import repeated


def main() -> None:
    """Answers from the cache of runs, else runs the command."""
    known = repeated.begun(sys.argv[1:])
    if known is not None:
        printed, status = known
        try:
            sys.stdout.buffer.write(printed)
            sys.stdout.flush()
        except (OSError, AttributeError):
            pass  # the command itself knows what to say of that
        else:
            os._exit(status)  # nothing was begun that would have to be ended
    from syncverify.cli.main import main as run

    run()


__all__ = ["main"]
