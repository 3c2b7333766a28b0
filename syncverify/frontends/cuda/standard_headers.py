"""Headers of the C++ standard that device code includes for a type or two, and that NVRTC does not bring.

NVRTC knows ``printf``, ``assert`` and the functions of ``<cmath>`` by itself, so these headers hold nothing.
The types of ``<cstdint>`` are those of CUDA's own ``<cuda/std/cstdint>``.
"""

from __future__ import annotations

_TYPES = """\
#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long long int64_t; typedef unsigned long long uint64_t;
typedef int64_t intptr_t; typedef uint64_t uintptr_t;
typedef int64_t intmax_t; typedef uint64_t uintmax_t;
#ifndef UINT32_MAX
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807ll
#define UINT64_MAX 18446744073709551615ull
#endif
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t;
}
"""
_SIZES = """\
#pragma once
typedef decltype(sizeof(0)) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
namespace std { using ::size_t; using ::ptrdiff_t; }
"""
#: By the name under which they are included.
STANDARD_HEADERS = {
    **dict.fromkeys(("cstdint", "stdint.h"), _TYPES),
    **dict.fromkeys(("cstddef", "stddef.h"), _SIZES),
    **dict.fromkeys(("cstdio", "stdio.h", "cassert", "assert.h", "cmath", "math.h"), "#pragma once\n"),
}


__all__ = ["STANDARD_HEADERS"]
