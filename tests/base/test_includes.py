"""The headers that a source names, wherever its directives stand."""

from __future__ import annotations

import pytest

from syncverify.base.includes import included_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('#include "a.h"\n  # include <b/c.h>\n', ["a.h", "b/c.h"]),
        ('/* first */ #include "a.h"\n', ["a.h"]),
        ('#/* what */include/* that */"a.h"\n', ["a.h"]),
        ('#inc\\\nlude "a.h"\n', ["a.h"]),
        ('%:include "a.h"\n', ["a.h"]),
        ('const char *s = "/*";\n#include "a.h"\n/* */\n', ["a.h"]),
        ("int includes = 1;\n#define include_me 2\n", []),
        ("#include WHICH\n", None),
        ('#include_next "a.h"\n', None),
        ('#if __has_include("a.h")\n#endif\n', None),
        ('#embed "a.bin"\n', None),
    ],
)
def test_names(text: str, names: list[str] | None) -> None:
    assert included_names(text) == names
