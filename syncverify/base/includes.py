"""The headers that a C++ source names in ``#include`` directives, as its text tells without a preprocessor.

What is missed here is a header that changes while a cache takes the source for the same. So directives count
wherever they stand, in comments and behind conditions as well, and what only a preprocessor can tell makes
all of it unknown.
"""

from __future__ import annotations

import os
import re

#: Between the parts of a directive.
_GAP = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/)*"
_DIRECTIVE = re.compile(
    rf"(?:\#|%:|\?\?=){_GAP}(include_next|include|import|embed)\b{_GAP}(?:\"([^\"\n]+)\"|<([^>\n]+)>|(\S))"
)
_ASKS = ("__has_include", "__has_embed")


def included_names(text: str) -> list[str] | None:
    """The names between quotes or brackets, in the order of the text; None where a macro says which header
    it is, or where the source asks whether there is one."""
    spliced = text.replace("\\\r\n", "").replace("\\\n", "")
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


__all__ = ["folders_of_the_environment", "included_names"]
