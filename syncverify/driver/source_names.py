"""The names of a kernel's parameters, barriers and shared data, from the CUDA source of its PTX.

PTX numbers parameters (``ring_param_2``). An entry's names are those of a definition with its name and its
number of parameters. Of several (overloads, other namespaces) the one counts in whose lines most of the
entry's instructions stand. Barriers are called what the call that initializes them calls them; data of a
struct, what the statement calls that accesses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, takewhile
from pathlib import Path

from syncverify.base.kernel_names import base_name
from syncverify.base.source import Span
from syncverify.frontends.cuda.barrier_names import initialized, joined, member, passed
from syncverify.frontends.cuda.data_names import accessed
from syncverify.frontends.cuda.parameter_names import Definition, definitions
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Module

#: Instructions that access memory, and whether each writes alone, reads alone, or either.
_ACCESSES = {
    "ld": False, "ldmatrix": False, "st": True, "stmatrix": True, "atom": None, "red": None, "cp": None,
}  # fmt: skip
#: Files of CUDA.
_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".inl")


def with_source_names(module: Module, sources: Mapping[str, str]) -> Module:
    """The module with the names that parameters have in ``sources`` (texts by the paths of ``.file``)."""
    known = [(path, d) for path, text in sources.items() for d in definitions(text)]
    functions = tuple(_named(module, f, known) if f.entry else f for f in module.functions)
    barriers = _barrier_names(module, sources)
    data = _data_names(module, sources, frozenset(barriers.values()))
    return replace(module, functions=functions, barrier_names=barriers, data_names=data)


def _data_names(module: Module, sources: Mapping[str, str], barriers: frozenset[str]) -> dict[int, str]:
    """What the sources call the member that each access of shared memory is to, by its line of PTX.

    The statement says it, or the call of the function around it: there a wrapper is told what to access.
    """
    texts = {path: text.split("\n") for path, text in sources.items() if path.endswith(_SUFFIXES)}
    found: dict[int, str] = {}
    known: dict[tuple[Span, bool | None], list[str]] = {}
    for i in (i for f in module.functions for i in f.body if i.op in _ACCESSES and texts):
        stores = _ACCESSES[i.op]
        for place in module.places(i):
            if place.file not in texts:
                break
            if (place, stores) not in known:
                known[place, stores] = accessed(texts[place.file], place.line, barriers, stores=stores)
            named = known[place, stores]
            if len(named) == 1:
                found[i.line] = named[0]
            if named:
                break
    return found


def _barrier_names(module: Module, sources: Mapping[str, str]) -> dict[int, str]:
    """What the sources call the barriers of each ``mbarrier.init``, by its line of PTX.

    Calls on one line come turn by turn, also where a loop around them is unrolled.
    """
    places: dict[tuple[int, Span], list[Instr]] = {}
    for n, f in enumerate(module.functions):
        for i in f.body:
            if i.op == "mbarrier" and i.mods[:1] == ("init",):
                places.setdefault((n, module.span(i)), []).append(i)
    texts = {path: text.split("\n") for path, text in sources.items()}
    found: dict[int, str] = {}
    for (_, span), inits in places.items():
        called = initialized(_line(texts, span))
        if called and len(inits) % len(called) == 0:
            found |= {i.line: name for i, name in zip(inits, cycle(called), strict=False)}
        found |= _members(module, texts, inits, called)
    for n in range(len(module.functions)):
        of_function = [i for (m, _), inits in places.items() if m == n for i in inits]
        found |= _unrolled(module, sorted(of_function, key=lambda i: i.line), found)
    return found


def _unrolled(module: Module, inits: Sequence[Instr], found: Mapping[int, str]) -> dict[int, str]:
    """Names of further turns of unrolled loops, which lack the call around them: those of the turn before.

    ``inits``: of one function, in the order of its text.
    """
    known: dict[tuple[Span, ...], list[str]] = {}
    turns: dict[tuple[Span, ...], int] = {}
    further: dict[int, str] = {}
    for i in inits:
        places = module.places(i) or (Span(module.path),)
        inside = module.wrapped(i) is not None
        chain = _within(module, i, places[0]) if inside else places
        if len(chain) < 2:
            continue
        if inside and i.line in found:
            owner = found[i.line].rpartition(".")[0]
            before = known.get(chain, [])
            known[chain] = [x for x in before if x.rpartition(".")[0] == owner] + [found[i.line]]
            turns[chain] = 0
        elif i.line not in found and chain in known:
            names = list(dict.fromkeys(known[chain]))
            further[i.line] = names[turns[chain] % len(names)]
            turns[chain] += 1
    return further


def _members(
    module: Module, texts: Mapping[str, Sequence[str]], inits: Sequence[Instr], called: Sequence[str]
) -> dict[int, str]:
    """The inits of one line whose barriers are members of an object that is initialized by a method."""
    insides = [module.wrapped(i) for i in inits]
    several = len({*insides}) > 1
    found: dict[int, str] = {}
    seen: dict[tuple[Span, ...], int] = {}
    for i, inside in zip(inits, insides, strict=True):
        here, *callers = module.places(i) or (Span(module.path),)
        if inside is not None:
            owner = [*called] or [x for x in (passed(_line(texts, here)),) if x]
            chain = _within(module, i, here)
            turn = seen[chain] = seen.get(chain, -1) + 1
            owner = owner or [x for x in (_turn(texts, here, turn),) if x]
            inner = [of for place in chain for of in [_turn(texts, place, turn)] if of]
            element = next(
                (of for of in inner if of.endswith("]")), None
            )  # what says more than a sole member
            names = joined(owner, element or next(iter(inner), None), several=several)
        else:
            own = member(texts.get(here.file, ()), here.line)
            owners = [passed(_line(texts, place)) for place in callers[:1]]
            joint = [f"{owner}.{own}" for owner in owners if owner and len(called) <= 1]
            names = ([*joint] if owners else [own]) if own else []
            chain = (here, *callers)
            turn = seen[chain] = seen.get(chain, -1) + 1
            names = names or _by_callers(texts, callers, turn)
        if len(names) == 1:
            found[i.line] = names[0]
    return found


def _by_callers(texts: Mapping[str, Sequence[str]], callers: Sequence[Span], turn: int) -> list[str]:
    """The name of what a wrapper initializes for the n-th time: the member that the call of it names, with
    the object whose method that is."""
    if len(callers) != 2:
        return []
    inner, owner = _turn(texts, callers[0], turn), passed(_line(texts, callers[1]))
    return joined([owner], inner, several=True) if owner and inner else []


def _within(module: Module, i: Instr, here: Span) -> tuple[Span, ...]:
    """The places of an instruction inside the call at ``here``, the innermost first."""
    places = (Span(module.files.get(file, module.path), line) for file, line, _ in (i.loc, *i.callers))
    return tuple(takewhile(lambda p: (p.file, p.line) != (here.file, here.line), places))


def _turn(texts: Mapping[str, Sequence[str]], place: Span, turn: int) -> str | None:
    """Which member a line of a method initializes the n-th time that it is come to."""
    lines = texts.get(place.file, ())
    return member(lines, place.line, turn)


def _line(texts: Mapping[str, Sequence[str]], place: Span) -> str:
    lines = texts.get(place.file, ())
    return lines[place.line - 1] if 0 < place.line <= len(lines) else ""


def listed_sources(module: Module) -> dict[str, str]:
    """The texts of the files that a module's line table lists, as far as they can be read."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(module.files.values()):
        try:
            found[name] = Path(name).read_text("utf-8", "replace")
        except (OSError, ValueError):
            continue
    return found


def _named(module: Module, f: Function, known: Iterable[tuple[str, Definition]]) -> Function:
    called = base_name(f.name)
    fit = [(path, d) for path, d in known if d.name == called and len(d.parameters) == len(f.params)]
    if len({(d.parameters, d.signed) for _, d in fit}) > 1:
        spans = [module.files.get(loc[0], "") + f":{loc[1]}" for i in f.body for loc in (i.loc, *i.callers)]
        lines = [(file, int(line)) for file, _, line in (s.rpartition(":") for s in spans)]
        inside = [sum(file == path and d.first <= line <= d.last for file, line in lines) for path, d in fit]
        most = max(inside)
        fit = [x for x, n in zip(fit, inside, strict=True) if n == most]
    if len({(d.parameters, d.signed) for _, d in fit}) != 1:
        return f
    named = zip(f.params, fit[0][1].parameters, fit[0][1].signed, strict=True)
    params = tuple(replace(p, source_name=name, signed=signed) for p, name, signed in named)
    return replace(f, params=params)
