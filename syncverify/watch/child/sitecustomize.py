"""Begins to watch in a process that ``syncverify watch`` started, and in those that it starts.

Python runs this file first, as ``sitecustomize``; one that it hides is run after it.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent


def _begin() -> None:
    folder = os.environ.get("SYNCVERIFY_WATCH_FOLDER")
    if folder is None:
        return
    root = str(HERE.parents[2])
    here = root not in sys.path
    if here:
        sys.path.append(root)  # for an interpreter that has no syncverify
    try:
        from syncverify.watch.compilers import watch
        from syncverify.watch.folder import Folder

        names = os.environ.get("SYNCVERIFY_WATCH", "").split(",")
        watch(Folder(Path(folder)), names)
        if os.environ.get("SYNCVERIFY_WATCH_RAISE"):
            from syncverify.watch.session import Session

            watch(Session("raise"), names)
        if os.environ.get("SYNCVERIFY_WATCH_NO_GPU"):
            from syncverify.watch.no_gpu import stand_in

            stand_in()
    except Exception as e:  # the program runs on, unwatched
        print(f"syncverify watch: cannot watch this process: {type(e).__name__}: {e}", file=sys.stderr)


def _hidden() -> None:
    """Runs the ``sitecustomize`` that comes after this one on the path."""
    rest = [p for p in sys.path if Path(p or ".").resolve() != HERE]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_begin()
_hidden()
