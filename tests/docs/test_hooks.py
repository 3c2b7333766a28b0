"""The hooks for pre-commit, and the commands that docs/ci.md shows."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from syncverify.cli.main import cli

ROOT = Path(__file__).parents[2]
HOOKS = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")


def _parse(command: str) -> click.Context:
    """Parses a command line without running it; click raises for an option that does not exist."""
    program, name, *args = shlex.split(command)
    assert program == "syncverify"
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found.make_context(name, args)


def test_hooks_call_commands_that_exist() -> None:
    entries = re.findall(r"^  entry: (.*)$", HOOKS, re.M)
    assert len(entries) == HOOKS.count("- id:") == 2
    for entry in entries:
        params = _parse(f"{entry} FILE").params
        assert params["jobs"] == 0 and params["files_are"] == "changed"


def test_the_cuda_hook_installs_what_the_extra_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (installed,) = re.findall(r"^  additional_dependencies: \[(.*)\]$", HOOKS, re.M)
    assert re.findall(r'"([^"]+)"', installed) == project["optional-dependencies"]["gpu"]


@pytest.mark.parametrize(
    ("suffix", "hooks"),
    [
        ("syncir", [True, False]),
        ("ptx", [True, False]),
        ("ptx.launch.toml", [True, False]),
        ("launch.toml", [True, False]),
        ("cu", [False, True]),
        ("cuh", [False, True]),
        ("h", [False, True]),
        ("cu.launch.toml", [False, True]),
        ("py", [False, False]),
    ],
)
def test_each_kind_of_file_has_its_hook(suffix: str, hooks: list[bool]) -> None:
    patterns = re.findall(r"^  files: (.*)$", HOOKS, re.M)
    assert [bool(re.search(p, f"kernels/a.{suffix}")) for p in patterns] == hooks


def test_the_commands_of_the_page_are_understood() -> None:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    commands = re.findall(r"^ *(?:- run: )?(syncverify (?:check|replay).*)$", page, re.M)
    assert len(commands) >= 2
    for command in commands:
        _parse(command)


def test_the_action_calls_a_command_that_exists() -> None:
    (line,) = re.findall(r"(syncverify check .*) \|\|", (ROOT / "action.yml").read_text("utf-8"))
    for variable, value in (("$FILES", "a.ptx b.cu"), ("$ARGUMENTS", "-I include"), ("$ON_UNKNOWN", "pass")):
        line = line.replace(variable, value)
    assert _parse(line).params["jobs"] == 0


def test_workflows_call_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for target in re.findall(r"\bmake ([a-z-]+)", workflow.read_text("utf-8")):
            assert re.search(rf"^{target}:", makefile, re.M), (workflow.name, target)
