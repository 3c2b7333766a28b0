"""The headers that a source names, wherever its directives stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.includes import OPTIONS_OF_THE_ENVIRONMENT, header_places, included_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('#include "a.h"\n  # include <b/c.h>\n', ["a.h", "b/c.h"]),
        ('/* first */ #include "a.h"\n', ["a.h"]),
        ('#/* what */include/* that */"a.h"\n', ["a.h"]),
        ('#inc\\\nlude "a.h"\n', ["a.h"]),
        ('%:include "a.h"\n', ["a.h"]),
        ('#inc\\ \nlude "a.h"\n', ["a.h"]),
        ('#inc??/\nlude "a.h"\n', ["a.h"]),
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


def _places(source: Path, *folders: Path) -> set[Path]:
    """The headers that a source may include."""
    found = header_places(source, source.read_bytes(), [str(f) for f in folders])
    assert found is not None
    return {p for p, text in found.items() if text is not None}


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_brackets_may_mean_a_later_folder(tmp_path: Path) -> None:
    source = _written(tmp_path / "k.cu", "#include <a.h>\n")
    both = {_written(tmp_path / "a.h", ""), _written(tmp_path / "inc" / "a.h", "")}
    assert _places(source, tmp_path / "inc") == both


def test_a_header_behind_a_link_may_be_beside_the_link_or_what_it_leads_to(tmp_path: Path) -> None:
    source = _written(tmp_path / "k.cu", '#include "a.h"\n')
    real = _written(tmp_path / "real" / "a.h", '#include "b.h"\n')
    beside = {_written(tmp_path / "real" / "b.h", ""), _written(tmp_path / "inc" / "b.h", "")}
    link = tmp_path / "inc" / "a.h"
    link.symlink_to(real)
    assert _places(source, tmp_path / "inc") == {link, *beside}


@pytest.mark.parametrize("name", OPTIONS_OF_THE_ENVIRONMENT)
def test_options_of_the_environment_leave_headers_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = _written(tmp_path / "k.cu", "")
    assert header_places(source, b"", []) == {}
    monkeypatch.setenv(name, "-DX=1")
    assert header_places(source, b"", []) is None
