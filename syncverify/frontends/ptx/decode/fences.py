"""Fences as events (PTX ISA, membar/fence)."""

from __future__ import annotations

from collections.abc import Sequence

from syncverify.frontends.ptx.decode.effects import Context, Effect, Unsupported, Value
from syncverify.frontends.ptx.decode.map_addresses import MapAddress
from syncverify.frontends.ptx.decode.parts import SCOPES, Decoded, constant, effect, malformed
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem
from syncverify.model.events import Ev, Event, Flag
from syncverify.model.proxies import Scope, Space

_SEMANTICS = {
    "acquire": Flag.ACQUIRE,
    "release": Flag.RELEASE,
    "acq_rel": Flag.ACQUIRE | Flag.RELEASE,
    "sc": Flag.ACQUIRE | Flag.RELEASE | Flag.SC,
}
_LEVELS = {"cta": Scope.CTA, "gl": Scope.GPU, "sys": Scope.SYS}
#: A ``.shared::cluster`` fence covers the CTA's own shared memory, not conversely (docs/model.md K20).
_SPACES = {
    (): Space.ALL,
    ("global",): Space.GLOBAL,
    ("shared::cta",): Space.SHARED_CTA,
    ("shared::cluster",): Space.SHARED_CTA | Space.SHARED_CLUSTER,
}
_BOTH_SHARED = Space.SHARED_CTA | Space.SHARED_CLUSTER


def decode_fence(instr: Instr) -> Decoded:
    """``fence.*`` and ``membar.*``; ``membar`` is ``fence.sc`` (PTX ISA, membar)."""
    mods = instr.mods
    if mods[:1] == ("proxy",):
        return _proxy(instr)
    if instr.op == "membar":
        level = _LEVELS.get(mods[0]) if len(mods) == 1 else None
        return malformed(instr) if level is None else constant(Ev.FENCE, int(_SEMANTICS["sc"]), int(level))
    if mods == ("mbarrier_init", "release", "cluster"):
        return constant(Ev.INIT_FENCE)
    flags = _SEMANTICS["acq_rel"]  # the default (PTX ISA, fence)
    scope: str | None = None
    for m in mods:
        if m in _SEMANTICS:
            flags = _SEMANTICS[m] | flags & Flag.SYNC_RESTRICT
        elif m in SCOPES:
            scope = m
        elif m in ("sync_restrict::shared::cta", "sync_restrict::shared::cluster"):
            flags |= Flag.SYNC_RESTRICT
        else:
            return Unsupported(f"{instr.name} is not known")
    return malformed(instr) if scope is None else constant(Ev.FENCE, int(flags), int(SCOPES[scope]))


def _proxy(instr: Instr) -> Decoded:
    kind, rest = (instr.mods[1] if len(instr.mods) > 1 else ""), instr.mods[2:]
    match kind:
        case "async" if rest in _SPACES:
            return constant(Ev.PROXY_FENCE, int(_SPACES[rest]), 0)
        case "async::generic":
            # PTX ISA, fence.proxy.async::generic: release for shared::cta, acquire for shared::cluster.
            if rest == ("release", "sync_restrict::shared::cta", "cluster"):
                return constant(Ev.PROXY_FENCE, int(Space.SHARED_CTA), int(Flag.RELEASE))
            if rest == ("acquire", "sync_restrict::shared::cluster", "cluster"):
                return constant(Ev.PROXY_FENCE, int(_BOTH_SHARED), int(Flag.ACQUIRE))
        case "tensormap::generic" if len(rest) == 2 and rest[1] in SCOPES:
            return _tensormap(instr, rest[0], int(SCOPES[rest[1]]))
        case "alias" if not rest:
            return Effect(_nothing)  # no two addresses of one location are distinguished
    return Unsupported(f"{instr.name} is not known")


def _nothing(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
    return ()


def _tensormap(instr: Instr, sem: str, scope: int) -> Decoded:
    if sem == "release" and not instr.operands:
        return constant(Ev.MAP_RELEASE, scope)
    if sem != "acquire" or not instr.operands or not isinstance(instr.operands[0], Mem):
        return malformed(instr)

    def emit(ctx: Context, site: int, v: Sequence[Value]) -> Sequence[Event]:
        return ((Ev.MAP_ACQUIRE, site, ctx.map_index(v[0]), scope),)

    at = instr.operands[0]
    return effect(emit, (MapAddress(at.base, at.offset),))
