"""All files that the output of a ``check`` depends on: read, or looked for where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from syncverify.base.includes import header_places
from syncverify.cli import config
from syncverify.cli.inputs import Item
from syncverify.driver.kernel_files import kernel_files
from syncverify.driver.reports.stored_reports import sources_of
from syncverify.frontends.launch_facts import default_path
from syncverify.report.base import files_shown


def dependencies(
    inputs: Sequence[Item], given: Iterable[str], folders: Sequence[str], named: Iterable[str | None]
) -> set[str] | None:
    """The files of a run on these inputs; None where the arguments or headers leave open which they are.

    ``given``: the arguments, of which a pattern may name others later; folders are read with all in them.
    ``folders``: those of headers. ``named``: the files of options.
    """
    inside = {name: _folders(name) for name in given if Path(name).is_dir()}
    of_folders = {str(p) for name in inside for p in kernel_files(Path(name))}
    if {item.path for item in inputs} != {*given} - {*inside} | of_folders:
        return None
    found = {folder for all_of in inside.values() for folder in all_of}
    found |= {str(path) for path in (*files_shown(), *_configurations(Path.cwd()))}
    found |= {name for name in named if name is not None}
    for item in inputs:
        data = None if item.data is not None or item.entry is not None else Path(item.path).read_bytes()
        headers = None if data is None else header_places(Path(item.path), data, folders)
        if data is None or headers is None:
            return None
        found |= {item.path, str(default_path(item.path)), *map(str, headers), *sources_of(data)}
    return found


def _folders(name: str) -> set[str]:
    """A folder and those in it, but hidden ones, with a slash at the end."""
    found: set[str] = set()
    for folder, inner, _ in os.walk(name):
        inner[:] = [x for x in inner if not x.startswith(".")]
        found.add(f"{folder}/")
    return found


def _configurations(folder: Path) -> Iterator[Path]:
    for each in (folder, *folder.parents):
        yield each / config.OWN
        yield each / config.PROJECT


__all__ = ["dependencies"]
