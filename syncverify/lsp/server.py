"""The language server: checks a file that is opened or saved, shows findings, and offers checked edits.

One check runs at a time, in a thread of its own; a newer save of the same file makes an older answer void.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from syncverify import __version__
from syncverify.api import check
from syncverify.base.diagnostics import Policy, Severity
from syncverify.base.source import InputError
from syncverify.lsp.findings import Mark, Place, marks, of_error, still_fits

#: What is checked; other files of an editor are left alone.
SUFFIXES = (".cu", ".ptx", ".syncir")
_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}


@dataclass(slots=True)
class _Files:
    """What is known of the files of a session, by their URIs: the last check asked for, and what it found."""

    asked: dict[str, int] = field(default_factory=dict)
    marks: dict[str, list[Mark]] = field(default_factory=dict)


def server(policy: Policy, seconds: float) -> LanguageServer:
    """A server that checks by ``policy``, each kernel for so many seconds at most."""
    made = LanguageServer("syncverify", __version__)
    files, pool = _Files(), ThreadPoolExecutor(1)

    async def look(uri: str) -> None:
        path = to_fs_path(uri)
        if path is None or not path.endswith(SUFFIXES):
            return
        files.asked[uri] = number = files.asked.get(uri, 0) + 1
        found = await asyncio.get_running_loop().run_in_executor(pool, checked, path, policy, seconds)
        if files.asked.get(uri) == number:
            files.marks[uri] = found
            shown = [_diagnostic(mark) for mark in found]
            made.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, shown))

    @made.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        await look(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        await look(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        files.asked.pop(uri, None)
        files.marks.pop(uri, None)
        made.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    options = lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix])

    @made.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, options)
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        lines = made.workspace.get_text_document(uri).source.split("\n")
        return [
            _action(uri, mark)
            for mark in files.marks.get(uri, [])
            if mark.edit is not None and _touches(mark, params.range) and still_fits(mark.edit, lines)
        ]

    return made


def checked(path: str, policy: Policy, seconds: float) -> list[Mark]:
    """What is to be shown in a file."""
    try:
        lines = Path(path).read_text("utf-8", "replace").split("\n")
    except OSError:
        return []
    try:
        return marks(path, lines, check(path, policy=policy, timeout=seconds))
    except InputError as e:
        return [of_error(path, lines, e)]


def _touches(mark: Mark, part: lsp.Range) -> bool:
    """Whether a finding, or the lines that mend it, lie in a part of the file."""
    assert mark.edit is not None
    first, last = mark.edit.line - 1, mark.edit.line - 1 + len(mark.edit.old)
    here = part.start.line <= mark.place.end_line and mark.place.line <= part.end.line
    return bool(here or (part.start.line <= last and first <= part.end.line))


def _action(uri: str, mark: Mark) -> lsp.CodeAction:
    assert mark.edit is not None
    edit = mark.edit
    start, end = edit.line - 1, edit.line - 1 + len(edit.old)
    part = lsp.Range(lsp.Position(start, 0), lsp.Position(end, 0))
    text = lsp.TextEdit(part, "".join(f"{line}\n" for line in edit.new))
    return lsp.CodeAction(
        title=f"syncverify: {mark.mends}",
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(mark)],
        is_preferred=True,
        edit=lsp.WorkspaceEdit(changes={uri: [text]}),
    )


def _diagnostic(mark: Mark) -> lsp.Diagnostic:
    related = [
        lsp.DiagnosticRelatedInformation(lsp.Location(from_fs_path(p.file) or p.file, _range(p)), text)
        for p, text in ((_absolute(p), text) for p, text in mark.related)
    ]
    return lsp.Diagnostic(
        range=_range(mark.place),
        severity=_SEVERITIES[mark.severity],
        code=mark.rule or None,
        source="syncverify",
        message=mark.message,
        related_information=related or None,
    )


def _absolute(p: Place) -> Place:
    return Place(str(Path(p.file).absolute()), p.line, p.column, p.end_line, p.end_column)


def _range(p: Place) -> lsp.Range:
    return lsp.Range(lsp.Position(p.line, p.column), lsp.Position(p.end_line, p.end_column))


__all__ = ["checked", "server"]
