"""Text to kernels. ``grammar.lark`` gives the structure, ``forms.py`` what each mnemonic takes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from syncverify.base.source import InputError, Span, decode, read_bytes
from syncverify.ir import nodes
from syncverify.ir.text.kernels import KernelBuild
from syncverify.ir.text.lines import Source


def parse_file(path: str | Path) -> tuple[nodes.Kernel, ...]:
    """Every kernel of a file."""
    return parse(decode(read_bytes(path), str(path)), str(path))


def parse(text: str, file: str = "<string>") -> tuple[nodes.Kernel, ...]:
    """Every kernel of a text; InputError with a place if it is not well formed."""
    source = Source(text, file)
    if not source.code.strip():
        raise InputError("the file holds no kernel; expected: kernel NAME { ... }", Span(file))
    with _LOCK:
        lark, build = _machine()
        build.begin(source)
        try:
            kernels: tuple[nodes.Kernel, ...] = lark.parse(source.code)
        except InputError:
            raise
        except Exception as e:
            from syncverify.ir.text.syntax_errors import explain

            raise explain(e, source) from None
        finally:
            build.begin(None)
    return kernels


_LOCK = Lock()


@lru_cache(maxsize=1)
def _machine() -> tuple[Any, KernelBuild]:
    """The LALR tables and the callbacks that build nodes while parsing; made once."""
    from lark import Lark

    build = KernelBuild()
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    lark = Lark(grammar, parser="lalr", lexer="contextual", maybe_placeholders=False, transformer=build)
    return lark, build
