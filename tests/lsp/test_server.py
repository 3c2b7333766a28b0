"""A client and the server, over standard input and output: findings come, a quick fix is taken, they go."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.test_findings import KERNEL

pytest.importorskip("pygls")
ROOT = Path(__file__).parents[2]


async def _round_trip(path: Path) -> tuple[list[Any], list[Any], list[Any]]:
    """The findings, the quick fixes for the first, and the findings after it was taken and saved."""
    from lsprotocol import types as lsp
    from pygls.lsp.client import LanguageClient

    client = LanguageClient("test", "1")
    shown: asyncio.Queue[Any] = asyncio.Queue()
    client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: shown.put_nowait(params))
    await client.start_io(sys.executable, "-m", "syncverify", "lsp", cwd=ROOT)
    uri, text = path.as_uri(), path.read_text("utf-8")
    await client.initialize_async(lsp.InitializeParams(lsp.ClientCapabilities()))
    client.initialized(lsp.InitializedParams())
    document = lsp.TextDocumentItem(uri, "syncir", 1, text)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
    first = (await asyncio.wait_for(shown.get(), 60)).diagnostics
    this = lsp.TextDocumentIdentifier(uri)
    params = lsp.CodeActionParams(this, first[0].range, lsp.CodeActionContext(first[:1]))
    fixes = list(await client.text_document_code_action_async(params) or [])
    (edit,) = fixes[0].edit.changes[uri]
    lines = text.split("\n")
    lines[edit.range.start.line : edit.range.end.line] = edit.new_text.removesuffix("\n").split("\n")
    path.write_text("\n".join(lines), "utf-8")
    change = lsp.TextDocumentContentChangeWholeDocument("\n".join(lines))
    version = lsp.VersionedTextDocumentIdentifier(2, uri)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(version, [change]))
    client.text_document_did_save(lsp.DidSaveTextDocumentParams(this))
    last = (await asyncio.wait_for(shown.get(), 60)).diagnostics
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return list(first), fixes, list(last)


def test_findings_are_shown_and_mended(tmp_path: Path) -> None:
    (path := tmp_path / "k.syncir").write_text(KERNEL, "utf-8")
    first, fixes, last = asyncio.run(_round_trip(path))
    error = next(d for d in first if d.severity == 1)
    assert error.source == "syncverify" and error.code.startswith("SV")
    (fix,) = fixes
    assert fix.title.startswith("syncverify: count against arrivers: initialize with 32")
    assert "mbarrier.init done, 32" in path.read_text("utf-8")
    assert not [d for d in last if d.severity == 1]
