"""The headers that a C++ source names in ``#include`` directives, as its text tells without a preprocessor.

What is missed here is a header that changes while a cache takes the source for the same. So directives count
wherever they stand, in comments and behind conditions as well, and what only a preprocessor can tell makes
all of it unknown. Of a name all files count that it may mean, whichever comes first for a compiler: quotes
and brackets begin with other folders, and compilers differ in what a symbolic link is beside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

#: Between the parts of a directive.
_GAP = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/)*"
_DIRECTIVE = re.compile(
    rf"(?:\#|%:|\?\?=){_GAP}(include_next|include|import|embed)\b{_GAP}(?:\"([^\"\n]+)\"|<([^>\n]+)>|(\S))"
)
_ASKS = ("__has_include", "__has_embed")
#: A line that goes on in the next one; compilers forgive blanks behind the backslash.
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t\f\v]*\r?\n")
#: Options that the environment adds to every run of nvcc. They may name headers, folders and macros.
OPTIONS_OF_THE_ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")


def included_names(text: str) -> list[str] | None:
    """The names between quotes or brackets, in the order of the text; None where a macro says which header
    it is, or where the source asks whether there is one."""
    spliced = _SPLICE.sub("", text)
    if any(word in spliced for word in _ASKS):
        return None
    names: list[str] = []
    for keyword, quoted, angled, other in _DIRECTIVE.findall(spliced):
        if other or keyword != "include":
            return None
        names.append(quoted or angled)
    return names


def folders_of_the_environment() -> tuple[str, ...]:
    """Where a compiler looks for headers beside the folders that it is given."""
    values = (os.environ.get(name, "") for name in ("CPATH", "CPLUS_INCLUDE_PATH"))
    return tuple(folder for value in values for folder in value.split(os.pathsep) if folder)


def header_places(path: Path, data: bytes, folders: Sequence[str]) -> dict[Path, bytes | None] | None:
    """The contents of all headers that a source may include, directly or not, and that lie beside it, beside
    each other or in the folders; places where one could be and is not have None.

    None where they cannot be determined: by the text, or since the environment adds options of its own.
    Headers of the toolchain are the toolchain's.
    """
    if any(os.environ.get(name) for name in OPTIONS_OF_THE_ENVIRONMENT):
        return None
    found: dict[Path, bytes | None] = {}
    others = [path.parent, *map(Path, folders), *map(Path, folders_of_the_environment())]
    followed = {path, path.resolve()}
    work = [(at.parent, data) for at in followed]
    while work:
        here, text = work.pop()
        names = included_names(os.fsdecode(text))
        if names is None:
            return None
        for there in (folder / name for name in names for folder in (here, *others)):
            if there in found:
                continue
            found[there] = header = there.read_bytes() if there.is_file() else None
            if header is None:
                continue
            for at in {there, there.resolve()} - followed:
                followed.add(at)
                work.append((at.parent, header))
    return found


__all__ = ["OPTIONS_OF_THE_ENVIRONMENT", "folders_of_the_environment", "header_places", "included_names"]
