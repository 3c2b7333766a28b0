"""Kernels whose accesses stand under questions about turns, and mistakes in these questions.

A loop with a stride names a number of turns, and a guard such as ``2 * n + 2 < N`` is read as one about that
number. What is asked may be another sum at each residue of a counter: ``2 * n - 2 * (n % 2)`` is the same in
turns 0 and 1. The operators of this module make such guards, on this loop's counter and on those of others.
"""

from __future__ import annotations

import random
import re

from tests.checker.induction.mutants import SYNC, Lines, Operator, at, put, some


def phased(step: int) -> str:
    """The second warp stores to slot 1 in turn 1 where N is more than twice ``step``; the third one loads it
    where N is less.
    """
    return f"""kernel phased {{
  launch grid [1] block [96]
  param N : i32 = 3
  param M : i32 = 2
  assume N >= 1
  assume M >= 0
  shared one : f32[1, 64]
  shared other : f32[1, 64]
  shared tile : f32[{step}, 64]
  role first warps 0..1 {{
    for s in 0..N step {step} {{
      st.shared one[0][lane * 2 : 2], 1.0
    }}
  }}
  role second warps 1..2 {{
    for n in 0..M {{
      st.shared other[0][lane * 2 : 2], 1.0
      if {step} * n + {step} < N {{
        st.shared tile[n % {step}][lane * 2 : 2], 1.0
      }}
    }}
  }}
  role third warps 2..3 {{
    if N < {2 * step + 1} {{
      ld.shared x, tile[1][lane * 2 : 2]
    }}
  }}
}}
"""


_COUNTER = r"(?<![\w.])(?:(\d+) \* )?\b([inst])\b(?! in)"


def _asked(lines: Lines) -> Lines:
    """The lines, with all but questions and slots blotted out."""
    return [x if re.match(r"\s*if |.*\[.*%", x) else re.sub(r"[\w]", "#", x) for x in lines]


def _restored(lines: Lines, shown: Lines, found: Lines | None) -> Lines | None:
    if found is None:
        return None
    return [x if y == z else z for x, y, z in zip(lines, shown, found, strict=True)]


def by_residue(lines: Lines, rng: random.Random) -> Lines | None:
    """A multiple of a counter for one that stays the same in several turns."""
    m, k = rng.choice((2, 2, 3)), rng.choice((1, 2, 2, 3))

    def other(match: re.Match[str]) -> str:
        many = k if match[1] is None or rng.random() < 0.3 else int(match[1])
        return f"{match[0]} - {many} * ({match[2]} % {m})"

    shown = _asked(lines)
    return _restored(lines, shown, at(shown, rng, _COUNTER, other))


def _counters(lines: Lines) -> list[str]:
    """The counters of the loops that are open behind these lines."""
    open_: list[str] = []
    for x in lines:
        if "{" in x:
            loop = re.search(r"for (\w+) in", x)
            open_.append(loop[1] if loop else "")
        elif x.strip() == "}" and open_:
            open_.pop()
    return [x for x in open_ if x]


def in_some_turns(lines: Lines, rng: random.Random) -> Lines | None:
    """A statement under a question about a multiple of a counter, or about the residue of another loop's."""
    i = some(lines, rng, SYNC)
    sizes = [m[1] for x in lines for m in [re.match(r"\s*param (\w+)", x)] if m]
    names = [] if i is None else _counters(lines[:i])
    if i is None or not names or not sizes:
        return None
    name, k, d = rng.choice(names), rng.choice((1, 2, 3)), rng.randrange(-2, 5)
    m = rng.choice((2, 3))
    when = rng.choice(
        (f"{k} * {name} + {d} < {rng.choice(sizes)}",
         f"{k} * {name} - {k} * ({name} % {m}) + {d} < {rng.choice(sizes)}",
         f"{name} % {m} == {rng.randrange(m)}")
    )  # fmt: skip
    return put(lines, i, f"if {when} {{", lines[i], "}")


def asked_otherwise(lines: Lines, rng: random.Random) -> Lines | None:
    """Another number, comparison or size in a question."""
    shown = [x if re.match(r"\s*if ", x) else re.sub(r"[\w<>=]", "#", x) for x in lines]
    sizes = [m[1] for x in lines for m in [re.match(r"\s*param (\w+)", x)] if m]

    def other(match: re.Match[str]) -> str:
        if match[0].isdigit():
            return str(max(int(match[0]) + rng.choice((-2, -1, 1, 2)), 0))
        if match[0] in sizes:
            return rng.choice(sizes)
        return rng.choice(("<", "<=", ">", ">=", "=="))

    what = "|".join((r"\b\d+\b", r"[<>]=?", *(rf"\b{x}\b" for x in sizes)))
    return _restored(lines, shown, at(shown, rng, what, other))


def with_stride(lines: Lines, rng: random.Random) -> Lines | None:
    """A loop that goes on by other steps."""
    k = rng.choice((2, 2, 3))
    if rng.random() < 0.5:
        return at(lines, rng, r"(in [\w()]+\.\.[\w()]+)(?: step \d+)? \{", lambda m: f"{m[1]} step {k} {{")
    return at(lines, rng, r" step \d+", lambda _: rng.choice(("", f" step {k}")))


OF_QUESTIONS: tuple[Operator, ...] = (
    by_residue, by_residue, in_some_turns, asked_otherwise, asked_otherwise, with_stride,
)  # fmt: skip

__all__ = ["OF_QUESTIONS", "asked_otherwise", "by_residue", "in_some_turns", "phased", "with_stride"]
