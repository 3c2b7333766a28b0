"""The corpus itself: complete, paired, well formed, and its index up to date."""

from __future__ import annotations

from collections import defaultdict

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.base.rules import RULES
from syncverify.ir.text.parser import parse
from tests.corpus.entries import CORPUS, Entry, entries
from tests.corpus.index import page

ENTRIES = entries()


def _pairs() -> dict[tuple[str, str], dict[str, Entry]]:
    found: dict[tuple[str, str], dict[str, Entry]] = defaultdict(dict)
    for e in ENTRIES:
        if e.kind:
            found[e.family, e.stem][e.kind] = e
    return found


def _body(entry: Entry) -> str:
    return "\n".join(line for line in entry.text.splitlines() if not line.startswith("//"))


def test_every_bug_of_the_catalogue_has_a_pair() -> None:
    stems = [stem for family, stem in _pairs() if family == "rulebook"]
    missing = [n for n in range(1, 75) if not any(s.startswith(f"E{n:02d}") for s in stems)]
    assert not missing
    assert len(_pairs()) >= 60


def test_every_bad_kernel_has_a_good_one_that_differs() -> None:
    for name, kinds in _pairs().items():
        assert set(kinds) == {"bad", "good"}, name
        assert _body(kinds["bad"]) != _body(kinds["good"]), name
        assert kinds["bad"].title != kinds["good"].title, name


def test_good_kernels_are_expected_proved_and_bad_ones_refuted_in_some_policy() -> None:
    for e in ENTRIES:
        verdicts = {x.verdict for x in e.expected.values()}
        if e.kind == "good" or e.family == "idioms":
            assert e.expected[Policy.PRACTICAL].verdict == Verdict.PROVED, e.name
        if e.kind == "bad":
            assert Verdict.REFUTED in verdicts, e.name
        # Strict mode accepts nothing that practical mode refuses.
        if e.expected[Policy.PRACTICAL].verdict == Verdict.REFUTED:
            assert e.expected[Policy.STRICT].verdict == Verdict.REFUTED, e.name


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_header_names_rules_and_lines_of_the_file(entry: Entry) -> None:
    lines = entry.text.splitlines()
    for expected in entry.expected.values():
        assert bool(expected.errors) == (expected.verdict == Verdict.REFUTED)
        for rule, line in expected.errors:
            assert rule in RULES
            assert lines[line - 1].strip() not in ("", "}") and not lines[line - 1].startswith("//")
    (kernel,) = parse(entry.text, entry.name)
    assert all(p.default is not None for p in kernel.params)


def test_a_bad_kernel_of_sizes_states_the_smallest_and_has_them_as_defaults() -> None:
    for e in ENTRIES:
        assert bool(e.smallest) == (e.family == "sizes" and e.kind == "bad"), e.name
        (kernel,) = parse(e.text, e.name)
        assert e.smallest.items() <= {(p.name, p.default) for p in kernel.params}, e.name


def test_the_index_is_up_to_date() -> None:
    shown = (CORPUS / "README.md").read_text(encoding="utf-8")
    assert shown == page(ENTRIES), "run python -m tests.corpus.index"
