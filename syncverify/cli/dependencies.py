"""All files that the output of a ``check`` depends on: read, or looked for where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from syncverify.cli import config
from syncverify.cli.inputs import Item
from syncverify.driver.stored_reports import header_places, sources_of
from syncverify.frontends.launch_facts import default_path
from syncverify.report.base import files_shown


def dependencies(
    inputs: Sequence[Item], given: Iterable[str], folders: Sequence[str], named: Iterable[str | None]
) -> set[str] | None:
    """The files of a run on these inputs; None where the arguments or headers leave open which they are.

    ``given``: the arguments, a directory or a pattern among them may name others later. ``folders``: those of
    headers. ``named``: the files of options.
    """
    if {item.path for item in inputs} != set(given):
        return None
    found = {str(path) for path in (*files_shown(), *_configurations(Path.cwd()))}
    found |= {name for name in named if name is not None}
    for item in inputs:
        data = None if item.data is not None or item.entry is not None else Path(item.path).read_bytes()
        headers = None if data is None else header_places(Path(item.path), data, folders)
        if data is None or headers is None:
            return None
        found |= {item.path, str(default_path(item.path)), *map(str, headers), *sources_of(data)}
    return found


def _configurations(folder: Path) -> Iterator[Path]:
    for each in (folder, *folder.parents):
        yield each / config.OWN
        yield each / config.PROJECT


__all__ = ["dependencies"]
