"""Witnesses as JSON, in the contract's form, there and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from syncverify.base.diagnostics import (
    SCHEMA_VERSION,
    BarrierState,
    Blocked,
    Claim,
    Policy,
    Step,
    StepKind,
    Witness,
)
from syncverify.base.source import InputError, Span


def to_dict(witness: Witness) -> dict[str, Any]:
    """The witness as JSON data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "file": witness.file,
        "kernel": witness.kernel,
        "hash": witness.source_hash,
        "policy": str(witness.policy),
        "values": dict(witness.values),
        "grid": None if witness.grid is None else list(witness.grid),
        "registers": witness.registers,
        "block": list(witness.block),
        "elected_lane": witness.elected_lane,
        "claim": str(witness.claim),
        "rule": witness.rule,
        "message": witness.message,
        "steps": [_step(s) for s in witness.steps],
        "blocked": [_blocked(b) for b in witness.blocked],
    }


def _step(s: Step) -> dict[str, Any]:
    step = {**_site(s.agent, s.span), "op": s.op, "barrier": s.barrier, "phase": s.phase, "kind": str(s.kind)}
    if s.state is not None:
        step["state"] = asdict(s.state)
    if s.issued_by is not None:
        step["issued_by"] = s.issued_by
    if s.code_line:
        step["code_line"] = s.code_line
    return step


def _blocked(b: Blocked) -> dict[str, Any]:
    return {**_site(b.agent, b.span), "waits_on": b.waits_on, "phase": b.phase, "why": b.why}


def _site(agent: str, span: Span) -> dict[str, Any]:
    columns = {k: v for k, v in asdict(span).items() if k in ("column", "end_line", "end_column") and v}
    return {"agent": agent, "file": span.file, "line": span.line, **columns}


def dumps(witness: Witness) -> str:
    """The witness as JSON text."""
    return json.dumps(to_dict(witness), indent=1) + "\n"


def loads(text: str, file: str) -> Witness:
    """A witness from JSON text; InputError says what is malformed."""
    span = Span(file)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise InputError(f"not JSON: {e}", span) from e
    if not isinstance(data, dict):
        raise InputError("not a witness: the file holds no JSON object", span)
    if data.get("schema_version") != SCHEMA_VERSION:
        found = data.get("schema_version")
        raise InputError(f"not a witness of schema_version {SCHEMA_VERSION} (found {found!r})", span)
    try:
        return _witness(data)
    except KeyError as e:
        raise InputError(f"malformed witness: {e.args[0]!r} is missing", span) from e
    except (TypeError, ValueError, AttributeError) as e:
        raise InputError(f"malformed witness: {e}", span) from e


def _witness(data: Mapping[str, Any]) -> Witness:
    grid, registers = data.get("grid"), data.get("registers")
    return Witness(
        claim=Claim(data["claim"]),
        rule=_text(data["rule"]),
        message=_text(data["message"]),
        steps=tuple(_read_step(s) for s in data["steps"]),
        blocked=tuple(_read_blocked(b) for b in data["blocked"]),
        kernel=_text(data["kernel"]),
        file=_text(data["file"]),
        source_hash=_text(data["hash"]),
        policy=Policy(data["policy"]),
        values={_text(k): _int(v) for k, v in data["values"].items()},
        block=_triple(data["block"]),
        elected_lane=_int(data["elected_lane"]),
        grid=None if grid is None else _triple(grid),
        registers=_optional(registers),
    )


def _read_step(s: Mapping[str, Any]) -> Step:
    barrier = None if s["barrier"] is None else _text(s["barrier"])
    state = s.get("state")
    return Step(
        _text(s["agent"]),
        _span(s),
        _text(s["op"]),
        barrier,
        _optional(s["phase"]),
        StepKind(s.get("kind", StepKind.OTHER)),
        None if state is None else _state(state),
        _optional(s.get("issued_by")),
        _int(s.get("code_line", 0)),
    )


def _state(s: Mapping[str, Any]) -> BarrierState:
    return BarrierState(_int(s["phase"]), _int(s["pending"]), _int(s["count"]), _int(s["tx"]))


def _read_blocked(b: Mapping[str, Any]) -> Blocked:
    return Blocked(_text(b["agent"]), _span(b), _text(b["waits_on"]), _optional(b["phase"]), _text(b["why"]))


def _span(site: Mapping[str, Any]) -> Span:
    return Span(
        _text(site["file"]),
        _int(site["line"]),
        _int(site.get("column", 0)),
        _int(site.get("end_line", 0)),
        _int(site.get("end_column", 0)),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value


def _int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected an integer, found {value!r}")
    return value


def _optional(value: object) -> int | None:
    return None if value is None else _int(value)


def _triple(value: object) -> tuple[int, int, int]:
    if not isinstance(value, list) or len(value) != 3:
        raise TypeError(f"expected three integers, found {value!r}")
    return _int(value[0]), _int(value[1]), _int(value[2])
