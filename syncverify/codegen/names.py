"""Names that CUDA C++ does not take for itself."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

#: Words of C++20 and CUDA that name nothing else.
RESERVED = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto if inline int long main mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires return short
    signed sizeof static static_assert static_cast struct switch template this thread_local throw true
    try typedef typeid typename uint64 union unsigned using virtual void volatile wchar_t while xor
    xor_eq
    """.split()
)

#: Functions that CUDA declares, and words of the helpers: nothing else in a kernel can have their names.
FUNCTIONS = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh divide erf erfc exp exp2 expm1 fabs
    floor fma fmax fmin fmod free hypot isfinite isinf isnan keep least ldexp lgamma load log log10 log1p log2
    logb malloc max memcpy memset min most narrow norm pack packed philox pin pow printf remainder rint round
    rounded rsqrt sigmoid sin sinh sqrt store swizzled tan tanh tgamma trunc widen word
    """.split()
)

#: What an emitted statement calls an index and the numbers that it makes: inside it they hide other things.
LOCALS = frozenset({"k", "v"})

_DECLARED = re.compile(
    r"__forceinline__ (?:const )?\w+(?:<\w+>)? [*&]?(\w+)\(|^struct (?:alignas\(\d+\) )?(\w+)|^using (\w+)",
    re.MULTILINE,
)


@cache
def declared() -> frozenset[str]:
    """All names that a kernel's source has taken already, what the helpers declare among them."""
    headers = [f.read_text() for f in files("syncverify.codegen").iterdir() if f.name.endswith(".cuh")]
    found = {name for text in headers for m in _DECLARED.finditer(text) for name in m.groups() if name}
    return RESERVED | FUNCTIONS | LOCALS | found


def entry_name(kernel: str) -> str:
    """The name of a kernel's function in CUDA, PTX and the cubin."""
    return f"{kernel}_kernel" if kernel in declared() else kernel
