"""Named sets of modifiers, and the reasons for which a modifier does not matter or is not modelled."""

from __future__ import annotations

#: Sets that rows name in capitals.
SETS: dict[str, tuple[str, ...]] = {
    name: tuple(words.split())
    for name, words in {
        "INT": "u16 u32 u64 s16 s32 s64",
        "INT32": "u32 s32 u64 s64",
        "BITS": "b16 b32 b64",
        "BITS2": "b32 b64",
        "CMP_S": "eq ne lt le gt ge",
        "CMP_U": "eq ne lt le gt ge lo ls hi hs",
        "CMP_F": "eq ne lt le gt ge equ neu ltu leu gtu geu num nan",
        "BOOL": "and or xor",
        "RND": "rn rz rm rp",
        "IRND": "rni rzi rmi rpi",
        "SIZED": "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64",
        "MOVED": "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64",
        "CONVERTED": "u8 u16 u32 u64 s8 s16 s32 s64",
        "HALF": "f16 bf16",
        "SCOPE": "cta cluster gpu sys",
        "SHARED": "shared shared::cta",
        "SHARED_ANY": "shared shared::cta shared::cluster",
        "SPACE_LD": "const global local param param::entry param::func shared shared::cta shared::cluster",
        "SPACE_ST": "global local param param::func shared shared::cta shared::cluster",
        "SPACE_SYNC": "global shared shared::cta shared::cluster",
        "SPACE_CVTA": "const global local param param::entry shared shared::cta shared::cluster",
        "COP_LD": "ca cg cs lu cv",
        "COP_NC": "ca cg cs",
        "COP_ST": "wb cg cs wt",
        "EVICT_L1": "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate",
        "EVICT_L2": "L2::evict_normal L2::evict_first L2::evict_last",
        "HINT": "L2::cache_hint",
        "PREFETCH": "L2::64B L2::128B L2::256B",
        "DIM": "1d 2d 3d 4d 5d",
        "CTA_GROUP": "cta_group::1 cta_group::2",
        "REDUCE": "and or xor add inc dec min max",
        "GEOM": "1d 2d 3d a1d a2d cube acube 2dms a2dms",
        "SURFACE": "1d 2d 3d a1d a2d",
        "CLAMP": "trap clamp zero",
        "REPORT": (
            "mbarrier::report::disabled mbarrier::report::validity::per_16bytes::80000000 "
            "mbarrier::report::validity::per_16bytes::8000 mbarrier::report::validity::per_16bytes::80 "
            "mbarrier::report::validity::per_16bytes::8 mbarrier::report::validity::per_element::ff"
        ),
        "BUFFERS": " ".join(
            f"collector::b{n}{how}"
            for n in range(4)
            for how in ("::fill", "::use", "::lastuse", "::discard", "")
        ),
        "F8": "e4m3 e5m2",
        "F8F6F4": "e4m3 e5m2 e3m2 e2m3 e2m1",
    }.items()
}

#: Why a modifier marked ``~`` in a row does not matter to synchronization: by set or by word.
HARMLESS: dict[str, str] = {
    "RND": "rounding of a float, which is data whatever its value",
    "IRND": "rounding of a float, which is data whatever its value",
    "ROUND": "rounding of a float, which is data whatever its value",
    "approx": "precision of a float, which is data whatever its value",
    "full": "precision of a float, which is data whatever its value",
    "ftz": "denormals of a float, which is data whatever its value",
    "noftz": "denormals of a float, which is data whatever its value",
    "oob": "a float's value, which is data",
    "sat": "range of a float, which is data whatever its value",
    "satfinite": "range of a result that is data whatever its value",
    "relu": "range of a result that is data whatever its value",
    "NaN": "a float's value, which is data",
    "abs": "a float's value, which is data",
    "xorsign": "a float's value, which is data",
    "pzo": "a float's value, which is data",
    "scaled": "a float's value, which is data",
    "ACC": "precision of a sum in global memory, which is data",
    "cop": "a cache operation: a hint, with no effect on order (PTX ISA, cache operators)",
    "COP_LD": "a cache operation: a hint, with no effect on order (PTX ISA, cache operators)",
    "COP_NC": "a cache operation: a hint, with no effect on order (PTX ISA, cache operators)",
    "COP_ST": "a cache operation: a hint, with no effect on order (PTX ISA, cache operators)",
    "EVICT_L1": "an eviction priority: a hint (PTX ISA, cache eviction priority hints)",
    "EVICT_L2": "an eviction priority: a hint (PTX ISA, cache eviction priority hints)",
    "HINT": "a cache policy: a hint (PTX ISA, cache eviction priority hints)",
    "PREFETCH": "how much is brought to the cache: a hint",
    "LEVEL": "how near the cache is: a hint",
    "EVICT": "an eviction priority: a hint (PTX ISA, cache eviction priority hints)",
    "valid_addr": "how much is brought to the cache: a hint",
    "uni": "a promise that the branch is uniform: of lanes that are seen to part it is an error",
    "nc": "the path of a load of memory that nobody writes: it makes no order",
    "unified": "a promise about the address of a descriptor",
    "mmio": "memory of a device: the order is that of the relaxed access which it asks for",
    "weak": "the default, spelled out",
    "cta": "the default scope, spelled out",
    "GEOM": "how a texture is addressed: its texels are data",
    "TEXEL": "the type of a texel, which is data",
    "QUERY": "a property of a texture, which is data",
    "COMP": "a component of a texel, which is data",
    "LOD": "how a texel is chosen: it is data",
    "CLAMP": "what a texel outside is: it is data",
    "VIDEO": "a result that is data whatever its value",
    "MATRIX": "types and layouts of a product of registers, which is data whatever its value",
    "KIND": "types of a product of registers, which is data whatever its value",
    "mask": "which events a performance monitor counts",
    "test": "a question about a float, which is data",
    "layout": "the default, spelled out",
    "bulk_group": "the completion mechanism that this direction always has",
    "mbarrier::complete_tx::bytes": "the completion mechanism that this direction always has",
    "OP": "how a reduction in global memory combines, which is data",
    "TYPE": "the type of what is combined in memory, which is data",
    "LOAD_MODE": "which elements of the tensor a box holds: it is as large in any mode",
}

#: Why a modifier marked ``!`` in a row makes an instruction one that is not modelled: by set or by word.
UNMODELLED: dict[str, str] = {
    "multicast::cluster::32b": "a multicast mask of 32 bits is not modelled",
    "REPORT": "reports of an mbarrier are not modelled",
    "cp_mask": "a copy of chosen bytes is not modelled",
    "ignore_oob": "a copy that may leave bytes undefined is not modelled",
    "phase_type::conditional": "conditional phases of an mbarrier are not modelled",
    "layout::v1": "the layout v1 of an mbarrier, with narrower counts and reports, is not modelled",
    "GATHER": "rows gathered from a tensor are not modelled",
    "CTA_GROUP": "a signal to the barrier of a pair of CTAs is not modelled",
    "override::global_address": "overrides of a tensor map are not modelled",
    "OVERRIDE": "overrides of a tensor map are not modelled",
    "relaxed": "a bulk copy by strong operations is not modelled",
    "b128": "an atomic access of 128 bits is not modelled",
    "WIDE": "matrices of 8 rows of 8 or 6 or 4 bits are not modelled",
    "sp": "sparse operands with ordered metadata are not modelled",
    "MULTICAST": "arrivals at the barriers of several CTAs at once are not modelled",
}

#: By word: the first PTX version and the architectures that have it, where that is later than its row's.
NEEDS: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "shared::cta": ((7, 8), ()),
    "shared::cluster": ((7, 8), ("90",)),
    "cluster": ((7, 8), ("90",)),
    "L2::cache_hint": ((7, 4), ("80",)),
    "L2::64B": ((7, 4), ("75",)),
    "L2::128B": ((7, 4), ("75",)),
    "L2::256B": ((7, 4), ("80",)),
    **dict.fromkeys(SETS["REPORT"], ((9, 4), ("107f",))),
    **dict.fromkeys(SETS["CTA_GROUP"], ((8, 6), ("100f", "110f"))),
    "param::entry": ((7, 7), ()),
    "param::func": ((8, 3), ()),
    "collector::b": ((9, 4), ("107f",)),
    "kind::ti16": ((9, 4), ("107f",)),
    "exclusive": ((9, 4), ("107f",)),
    "sync_restrict::shared::read::mma::a": ((9, 4), ("107f",)),
    "multicast::cluster::16b": ((9, 4), ()),
    "multicast::cluster::32b": ((9, 4), ("107f",)),
}
