"""Each place where the reading refuses: a wrong kernel that only this place keeps out, or why there is none.

``WRONG``: the kernel is accepted where the reading goes on instead, and some small size refutes it.
``CLAIMED``: the same by claims that no search makes. ``BACKED``: what comes next refuses too, or nothing
wrong follows. ``OPEN``: a rule of which no kernel here shows the need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from syncverify.checker.induction.claims import KEPT, Claim
from tests.checker.induction.switches import RED, SWITCHES
from tests.checker.induction.test_clusters import PAIR
from tests.checker.induction.test_flags import MISTAKES
from tests.checker.induction.test_flags import PAIR as BLOCKS
from tests.checker.induction.test_read import CORPUS, RING
from tests.checker.kernel.raises import Package, Raise, raises

#: What the reading raises.
READING: Package = (
    "syncverify.checker.induction",
    ("NotReadError", "OtherFormsError", "SizeCaseError", "UnnamedSizeError", "MalformedClaimError"),
)


def by_name() -> dict[str, Raise]:
    """Every place, by its function and message; one that repeats has a number."""
    seen: Counter[str] = Counter()
    out: dict[str, Raise] = {}
    for r in raises(READING):
        name = f"{r.module}.{r.where[-1]}: {r.message}"
        seen[name] += 1
        out[name if seen[name] == 1 else f"{name} #{seen[name]}"] = r
    return out


@dataclass(frozen=True, slots=True)
class Wrong:
    """``claim``: what is claimed instead of what samples show. ``sizes``: at which it is run, if not at all
    small ones.
    """

    text: str
    claim: Callable[[Claim], Claim] = lambda c: c
    sizes: tuple[Mapping[str, int], ...] = ()


def _file(path: str, *sizes: Mapping[str, int]) -> Wrong:
    root = RED.parent if path.startswith("red") else CORPUS
    return Wrong((root / path).read_text("utf-8"), sizes=sizes)


def _edited(text: str, *edits: tuple[str, str]) -> Wrong:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return Wrong(text)


def _roles(first: str, second: str, shared: str = "") -> Wrong:
    """Two warps, and N of at least 1."""
    return Wrong(
        "kernel k {\n  launch grid [1] block [64]\n  param N : i32 = 3\n  assume N >= 1\n"
        f"{shared}  shared tile : f32[3, 64] align 128\n  role a warps 0..1 {{\n{first}  }}\n"
        f"  role b warps 1..2 {{\n{second}  }}\n}}\n"
    )


_LOOP = "    for i in 0..N {\n      mbarrier.wait full"
_READ = "ld.shared x, tile[i % 3][lane * 2 : 2]\n"
#: The consumer releases in its first turn alone.
_ONCE = _edited(
    RING,
    (_LOOP, f"    let c = 0\n{_LOOP}"),
    ("      mbarrier.arrive empty[i % 3]\n",
     "      if c == 0 {\n        mbarrier.arrive empty[i % 3]\n      }\n      c = 1\n"),
).text  # fmt: skip


def _all_kept(c: Claim) -> Claim:
    """What no form fits is claimed to stay what it was."""
    headers = []
    for h in c.headers:
        some = {s for forms in h.forms.values() for s, f in forms.items() if f.shape() == "any"}
        forms = {r: {s: KEPT if s in some else f for s, f in x.items()} for r, x in h.forms.items()}
        headers.append(replace(h, forms=forms, others={}))
    return replace(c, headers=tuple(headers))


#: A number that no sum fits: it is 2, 4, 8, 16, ... in the turns of the loop.
_POWERS = _LOOP.replace("    for", "    let c = 1\n    for").replace("{\n", "{\n      c = c * 2 % 61\n")
_RELEASE = "      mbarrier.arrive empty[i % 3]\n"
#: The consumer does not release in its third turn.
_SKIPPED = _edited(RING, (_LOOP, _POWERS), (_RELEASE, f"      if c != 8 {{\n  {_RELEASE}      }}\n"))
#: One warp releases before it loads, in some turns.
_ORDERS = _edited(
    RING,
    (_LOOP, _POWERS),
    (f"      {_READ}", "      let q = 0\n      if c == 8 {\n        q = 1\n      }\n"),
    ("      st.global out[block * 64 + lane * 2 : 2], x\n", ""),
    ("      fence.proxy.async.shared_cta\n      mbarrier.arrive empty[i % 3]\n",
     f"      for s in 0..2 {{\n        if s == q {{\n          {_READ}"
     "          fence.proxy.async.shared_cta\n        } else {\n          mbarrier.arrive empty[i % 3]\n"
     "        }\n      }\n"),
)  # fmt: skip
_MMA = "wgmma.mma acc, A[][0:64 rows 64 pitch 64], B[{}][0:64 rows 64 pitch 64]\n"
#: Two warps of a warpgroup multiply with one tile, and two with another.
_HALVES = Wrong(
    "kernel k {\n  launch grid [1] block [128]\n  param N : i32 = 3\n  assume N >= 1\n"
    "  shared A : bf16[4096] align 1024\n  shared B : bf16[2, 4096] align 1024\n"
    "  fragment acc : f32[64, 64]\n"
    "  wgmma.fence\n  frag.write acc, 0.0\n  wgmma.fence\n  for i in 0..N {\n    if warp < 2 {\n"
    f"      {_MMA.format(0)}    }} else {{\n      {_MMA.format(1)}    }}\n  }}\n"
    "  wgmma.commit\n  wgmma.wait 0\n}\n"
)
#: One block of a cluster asks for more registers than it has.
_POOL = Wrong(
    "kernel k {\n  launch grid [2] block [256] cluster [2] registers 128\n  param N : i32 = 2\n"
    "  assume N >= 1\n  for i in 0..N {\n    bar.sync 1\n  }\n  if rank == 0 {\n    setmaxnreg.inc 168\n"
    "  } else {\n    setmaxnreg.dec 24\n  }\n  cluster.arrive\n  cluster.wait\n}\n"
)
#: The sum is stored by a copy that nobody waits for.
_COPIED = _edited(
    BLOCKS,
    ("  elect p\n", "  shared s : f32[32] align 128\n\n  elect p\n"),
    ("    st.global sums[ours * 32 + lane : 1], 1.0\n    warp.sync\n",
     "    st.shared s[][lane : 1], 1.0\n    fence.proxy.async.shared_cta\n    warp.sync\n    if p {\n"
     "      bulk.store sums[ours * 32 : 32], s\n      bulk.commit\n      bulk.wait.read 0\n    }\n"
     "    warp.sync\n"),
)  # fmt: skip
_WHERE = "in a loop, by several lanes, or of no gpu scope"
_END = "  cluster.arrive\n  cluster.wait\n}"
_ADD = "      atom.global.add.release.gpu words[team], 1\n"
_AT = "alone.accessed: registers are accessed while a wgmma that owns them is in flight"
WRONG: dict[str, Wrong] = {
    "alone.product: registers of a wgmma were touched since the last wgmma.fence": _file(
        "rulebook/E36_missing_wgmma_fence.bad.syncir", {}
    ),
    _AT: _file("rulebook/E35_accumulator_read_in_flight.bad.syncir", {}),
    "alone.event: global memory is accessed before the grid before is known to have ended": _roles(
        "ld.global x, a[lane * 2 : 2]\ngriddep.wait\n",
        "griddep.wait\nfor i in 0..N {\nst.shared tile[1][lane * 2 : 2], 1.0\n}\n",
        "  tensor a : f32[64] in\n",
    ),
    "assemble.protocol: a block of a cluster may leave while others still reach its memory": _edited(
        PAIR, (_END, "}")
    ),
    "assemble.pool: blocks that move different numbers of registers": _POOL,
    "assemble.waited: a parity that does not change from lap to lap": _file(
        "rulebook/E12_phase_not_flipped.bad.syncir"
    ),
    "assemble.waited: the parity of a wait does not follow its turns": Wrong(
        SWITCHES["parities follow turns"].kernel
    ),
    "assemble.no_barriers: an access to the bytes of {}": _file("more/staging_before_inval.bad.syncir"),
    "assemble.warpgroups: an instruction of a warpgroup that has fewer than four warps": _file(
        "red/wgmma_of_three_warps.bad.syncir"
    ),
    "assemble.warpgroups: warps of a warpgroup execute different wgmmas or setmaxnregs": _HALVES,
    "assemble._met: the cluster's barrier is not waited for where it is arrived at #2": _edited(
        PAIR, (_END, "  cluster.arrive\n}")
    ),
    "event_operations.same: {} whose operands change from turn to turn": _edited(
        RING, ("expect_tx full[stage], 256", "expect_tx full[stage], 256 - 128 * (i % 2)")
    ),
    "event_operations.operations: a place in global memory": _COPIED,
    "event_operations._arrive: an arrival that keeps its token, drops or does not complete": _file(
        "red/drop_to_zero.bad.syncir"
    ),
    "event_operations.access: an access to the memory of another block": _file(
        "red/remote_write_before_start.bad.syncir"
    ),
    "event_operations._global_read: a word that blocks wait for is read": _edited(
        BLOCKS, ("    if p {\n      spin", "    ld.global z, words[team : 1]\n    if p {\n      spin")
    ),
    "event_operations._setmaxnreg: setmaxnreg {} by a warpgroup that holds {}": _file(
        "rulebook/E63_setmaxnreg_wrong_direction.bad.syncir"
    ),
    f"flags.spins: a wait for a word of global memory {_WHERE}": _edited(
        BLOCKS, ("spin.global.acquire.gpu", "spin.global.acquire.cta")
    ),
    "flags.spins: a word of global memory that is waited for with different numbers": _edited(
        BLOCKS,
        ("      st.global.relaxed.gpu words[team], 0\n", "      spin.global.acquire.gpu words[team] >= 2\n"),
    ),
    "flags.adds: an atomic access to global memory that is no arrival": _edited(
        BLOCKS, (_ADD, 2 * _ADD.replace(".add.", ".max.")), (">= 1\n", "== 2\n")
    ),
    f"flags.adds: an arrival at a word of global memory {_WHERE}": _edited(
        BLOCKS, ("add.release.gpu", "add.release.cta")
    ),
    "flags.ends: a store to a word of global memory that blocks wait for": _edited(
        BLOCKS, MISTAKES["the word is reset before the wait"]
    ),
    "read.executed: under what conditions an operation is executed is not known": _SKIPPED,
    "read.alike: an operation that differs from way to way": Wrong(
        SWITCHES["an operation is the same on all ways"].kernel
    ),
    "read.ordered: operations in different orders": _ORDERS,
    "read.target: ways that lead to different loops": _file(
        "sizes/rounded_up_against_rounded_down.bad.syncir"
    ),
    "slots.offset: a ring that is gone round in two orders": Wrong(
        SWITCHES["slots are gone through in one order"].kernel
    ),
}


#: Lanes 2 to 31 race with the other warp.
DROPPED = _roles(
    "for i in 0..N {\nst.shared tile[0][lane * 2 : 2], 1.0\n}\n", "ld.shared x, tile[0][50 : 2]\n"
).text
#: Claims of which a test makes one each: classes whose lanes are left out, a quotient by -1.
CLAIMED = ("program._parted: parts of no class", "quotients.with_quotient: a quotient of no sizes")


@dataclass(frozen=True, slots=True)
class Backed:
    """``text``: a kernel that is refused there, and without the place as well. ``claim``: as in ``Wrong``."""

    why: str
    text: str = ""
    claim: Callable[[Claim], Claim] = lambda c: c


def _backed(why: str, kernel: Wrong | None = None) -> Backed:
    return Backed(why) if kernel is None else Backed(why, kernel.text, kernel.claim)


_NAME = "what has no name, or no number, is looked up next, or calculated with: an error"
_DATA = "what is read is a claim like any other, which the reading has to bear out"
_GUARD = "`executed` and `deciding` compare what is read with what was asked on each way"
_NEVER = "no caller comes with it"
_KERNEL = "the kernel rejects the proof"
_MORE = "the search goes on for longer, or for ever"
_TRIPS = "the number of steps of a tile is that of its loop's bound, whatever a register says of it"
_HALF = _roles(
    "st.shared tile[0][lane * 2 : 2], 1.0\n", "warp.sync\nld.shared x, tile[1][0 : 2]\n"
).text.replace("block [64]", "block [48]")
BACKED: dict[str, Backed] = {
    "assemble.protocol: blocks of a grid that hand on to the next": _backed(
        "their words of global memory are refused by what they do",
        _file("more/flag_before_block_barrier.bad.syncir"),
    ),
    "assemble.schemas: agents whose tiles have different numbers of steps": _backed(
        "`_by_trips` has given them different functions"
    ),
    "assemble.named: {} is not initialized with one number": _backed(
        _KERNEL, _edited(RING, ("mbarrier.init full[s], 1", "mbarrier.init full[s], s % 2 + 1"))
    ),
    "assemble.waited: a barrier of one slot in a second loop": _backed("then it is a wait of no known turn"),
    "assemble.waited: a wait of no known turn": _backed("`index` makes no other index"),
    "assemble._rings: rings that share some of their barriers": _backed(
        "`offset` refuses orders of different lengths", _file("depth/odd_trip_count.bad.syncir")
    ),
    "assemble._met: an operation that is another one in some turns": _backed(
        "a fault is the end of a way, so that guards do not fit; a kind without a row is refused"
    ),
    "assemble._met: the cluster's barrier is not waited for where it is arrived at": _backed(
        "a wait without an arrival is an error, and an arrival is refused at the end",
        _edited(
            PAIR,
            (_END, "  cluster.arrive\n  cluster.wait\n  cluster.wait\n}"),
        ),
    ),
    "assemble._met: a wait at the cluster's barrier of another kind than its arrival": _backed(
        "waits are never relaxed; a wait less than arrivals is refused in the turn without it"
    ),
    **dict.fromkeys(
        (
            "claims_text.read: str(e)",
            "claims_text._read: fields are missing, or there are others",
            "claims_text._read: a claim of no class, or a class of no claim",
            "claims_text._once: one thing is said twice",
            "claims_text._header: a truth value is expected",
            "claims_text._header: a header has eleven parts at most",
            "claims_text._list: f'a list is expected, not {x!r}'[:80]",
            "claims_text._int: f'a number is expected, not {x!r}'[:80]",
            "claims_text._text: f'a name is expected, not {x!r}'[:80]",
        ),
        Backed(_DATA),
    ),
    "claims_text._claim: a period below 1": _backed(
        "a period of 0 is an error, and below 0 no way comes back that could decide how long a loop goes on"
    ),
    "event_operations.meeting: {} is met in different ways": _backed(
        "meetings are named by their place in the code, at which all agents have one instruction"
    ),
    "event_operations.warp: a warp with fewer than 32 threads": _backed(
        "accounting finds no 32 threads",
        Wrong(_HALF),
    ),
    "event_operations.operations: {} is no operation of a protocol": _backed(
        "the kind has no row", _file("more/shared_out_of_bounds.bad.syncir")
    ),
    "event_operations._bulk_load: copies of different sizes from turn to turn": _backed(
        "of copies to fewer blocks there is none to read",
        _edited(PAIR, ("full[i % 2], multicast 3", "full[i % 2], multicast 3 - 2 * (i % 2)")),
    ),
    "event_operations._bulk_load: copies of different sizes from turn to turn #2": _backed(
        "an instruction copies one number of bytes"
    ),
    "event_operations._bulk_load: copies to different blocks from turn to turn": _backed(
        "bytes of several blocks are no access to one",
        _edited(PAIR, ("full[i % 2], multicast 3", "full[i % 2], multicast 1 + i % 2")),
    ),
    "event_operations.made: cp.async.wait_all": _backed(
        "a protocol has no negative number of groups",
        _roles(
            "for i in 0..N {\ncp.async tile[0][lane * 2 : 2], a[lane * 2 : 2]\ncp.async.wait_all\n"
            "ld.shared x, tile[0][lane * 2 : 2]\n}\n",
            "st.shared tile[1][lane * 2 : 2], 1.0\n",
            "  tensor a : f32[64] in\n",
        ),
    ),
    "event_operations._wgmma: a wgmma whose operands change their kind": _backed(
        "an instruction has one form, in which A is in registers or in memory"
    ),
    "event_operations.access: lanes of one store write one byte": _backed(
        "the two lanes' bytes are a hazard of the operation with itself, which has no path"
    ),
    "event_operations.access: an access of no bytes": _backed(
        "there is no first byte",
        _roles(
            "st.shared tile[0][lane : 0], 1.0\n", "for i in 0..N {\nst.shared tile[1][lane : 1], 1.0\n}\n"
        ),
    ),
    "event_operations.made: barrier {} of {} threads": _backed(
        "numbers and counts are checked when the text is read; reductions have to meet as other forms do",
        _roles("for i in 0..N {\nbar.red 1, 64\n}\n", "for i in 0..N {\nbar.sync 1, 64\n}\n"),
    ),
    "event_operations._warp_sync: a part of a warp meets": _backed("accounting asks for all 32 threads"),
    "event_operations._collective: a lane outside the mask of a collective instruction": _backed(
        "the front end makes a fault of it, which has no row"
    ),
    "event_operations._collective: a collective instruction of a part of a warp": _backed(
        "accounting asks for all 32 threads"
    ),
    "event_operations._known_word: an access that synchronizes at a place of global memory that is not "
    "known": _backed("`word` looks at the bytes of an access that has none"),
    "flags.word: a word that blocks wait for, and other accesses to its bytes": _backed(
        "the bytes of one access are the word or no arrival, and a read is refused"
    ),
    "flags.spins: a wait for an unknown word of global memory": _backed("its bytes are looked at next"),
    "flags.spins: a wait for a word of global memory to be anything but a number at least": _backed(
        "the number is the count of a ring, which is no number of arrivals then"
    ),
    "program.protocol_by: claims of {} classes of {}": _backed("classes and claims are taken in pairs"),
    "program.read: a loop ends elsewhere than is claimed": _backed("it is read by what it asks itself"),
    "program.protocol_by: lanes of class {} part": _backed("nothing was read"),
    "program._parted: lanes in two parts of a class": _backed("the kernel: a thread is in two roles"),
    "quotients.unnamed: Product((x, y))": _backed("then it is no number of the launch"),
    "quotients.unnamed: Quotient((c, tuple(((names[b], k) for b, k in parts))), divisor)": _backed(
        "then it is no number of the launch"
    ),
    "quotients.with_product: a product of no sizes": _backed("there is no such symbol"),
    "quotients.with_product: a product that has a name, or of a size that is known": _backed(
        "a second name of one number says nothing else"
    ),
    "quotients.with_quotient: a quotient that has a name, or is none of a bounded sum": _backed(
        "a second name of one number says nothing else"
    ),
    "read.term: a part of a counter": _backed(_GUARD),
    "read.term: a part of a counter #2": _backed(_GUARD),
    "read.counted: a part of a counter": _backed(_GUARD),
    "read.counted: a part of a counter #2": _backed(_GUARD),
    "read.strides_on: a register is no number in some turn": _backed(_NAME),
    "read.begin: a register that keeps its value in some turns alone": _backed(_NAME),
    "read.stride: a register that moves by no known size": _backed(_NAME),
    "read.in_turns: a question about a register that moves by a size": _backed(_NAME),
    "read.parameter: {} is no number of the launch": _backed(_NAME),
    "read.named: {} is no number of the launch": _backed(_NAME),
    "read.named: a register of the trip count before it is known": _backed(_NAME),
    "read.summed: a register is no number in some turn": _backed(_NAME),
    "read._back: a guard on {}": _backed(_NAME),
    "read.entered: how often a loop behind tiles runs is not known": _backed(_NAME),
    "read._exact: a counter of no known residue": _backed(_NEVER),
    "read.residue: a counter of no known residue": _backed(_NEVER),
    "read.strides_on: register {} holds {}, not {}": _backed("`arrive` compares such registers, too"),
    "read.arrive: register {} holds {}, not {}": _backed(_KERNEL, Wrong(_ONCE, _all_kept)),
    "read.of_sizes: d.c": _backed("what asked for a case refuses then"),
    "read.once: a loop that is come to again from behind it": _backed(_MORE),
    "read.loop: a loop's end depends on its counter": _backed("the kernel knows no counter outside its loop"),
    "read.entered: a loop may have fewer steps than none: {}": _backed(
        "no bound is a number of turns less two or more"
    ),
    "read.entered: *x": _backed("without cases it is refused"),
    "read.entered: a loop may have fewer steps than none: {} #2": _backed(
        "sizes alone are asked for, of which there are cases"
    ),
    "read.bound: what decides whether a loop goes on is not one comparison": _backed(
        "there is none to return", _file("depth/third_wrap_consumer.bad.syncir")
    ),
    "read.bound_of_tiles: what decides whether there is a further tile is not one comparison": _backed(
        "there is none to return"
    ),
    "read.parted: the last turn is claimed to stand behind the loop": _backed(
        "it is no refusal: both forms are right"
    ),
    "read.present: whether an operation is executed is not known": _backed(
        "`without` compares the events with those of the way"
    ),
    "read.tiles_begun: steps before the first tile": _backed(
        "tiles count from 0, and registers have to hold what is claimed of step 0"
    ),
    "read.tile_ways: a tile without its loop": _backed(
        "a way back is no end of tiles",
        Wrong(
            _roles(
                "for t in 0..N {\nif t % 2 == 0 {\nfor j in 0..M {\nst.shared tile[0][0 : 1], 1.0\n}\n}\n}\n",
                "ld.shared x, tile[2][lane : 1]\n",
            ).text.replace("  assume", "  param M : i32 = 3\n  assume M >= 1\n  assume", 1)
        ),
    ),
    "read.tiles: the number of tiles depends on the tile": _backed(
        "the kernel knows no counter outside its loop"
    ),
    "read.lasting: trip counts of tiles that differ by residue": _backed(_TRIPS),
    "read.lasting: a trip count that depends on the counter": _backed(
        "`bound` returns none with the counter"
    ),
    "slots.moves: a place that moves with several counters": _backed("there is no place to return"),
    "slots._shortest: a place that comes twice in one lap": _backed(
        "barriers of one ring would be shared; strides of bytes would not be equal"
    ),
    "slots.offset: rings that share some of their slots": _backed(
        "`_rings` refuses them, or their strides differ"
    ),
    "slots.laid_out: buffers with one name": _backed(
        "bytes that begin at one place overlap: they are one region"
    ),
    "stepping.leaves: too many ways through a stretch of code": _backed(_MORE),
    "stepping._run: a loop without a header": _backed(_MORE),
    "stepping._run: str(event[2])": _backed("the kind has no row"),
}
_WORDS = "PTX alone has such words: by direct tests (`test_words.py`)"
_BEGINS = "claims that no search makes: by direct tests (`test_advanced.py`)"
_TURNS = "claims that no search makes: by direct tests (`test_in_turn.py`)"
#: Rules that stand by reading alone.
OPEN: dict[str, str] = {
    "flags.in_order: a block waits for one that may begin later": "no judge here lets a block begin late",
    "event_operations._cp_async: cp.async, whose readers need a fence here in either mode (K6)": (
        "PTX alone names a target: a kernel of `tests/driver/test_acceptance.py`"
    ),
    "stepping._waited: a poll": "PTX alone has looks that spare a wait: by a switch (`switches.py`)",
    "read.term: a question about where a tile begins": "a number that no protocol has a name for",
    "read.whole: fewer steps than none before the loop of a tile": _BEGINS,
    "read.whole: ranges of residues that leave some out": _BEGINS,
    "read.whole: registers of a first turn, or where a tile begins, that are no sums": _BEGINS,
    "read.loop: a loop outside of tiles with what only those in tiles have": _BEGINS,
    "read.whole: tiles of no agent's turn": _TURNS,
    "read.of_tiles: what is asked of tiles moves by no multiple of how far they are apart": _TURNS,
    "read.arrive_behind: how many steps the tiles of others have is not claimed": _TURNS,
    "read.tiles: how many steps the tiles of others have is not known": _TURNS,
    "read.tiles: a loop behind tiles that are taken in turn": "nothing behind may count at all",
    "read.tiles_of_a_step: a loop behind tiles that are taken in turn": "nothing behind may count at all",
    "read.tiles_of_a_step: tiles without a loop that are claimed to have other steps than one": _TURNS,
    "read.tiles_of_a_step: a loop of tiles that has no turns": "there is nothing that says how many tiles",
    "read.ways_below: a loop that ends at no sum of sizes": "a value of such a sum is none",
    "read.ways_below: a loop that ends elsewhere": "by a direct test (`test_in_turn.py`)",
    "read.inner_below: a tile may have fewer steps than none": _BEGINS,
    "read.inner_below: a tile has another number of steps": _BEGINS,
    "read.come_to: a loop is come to in different ways": "a header is one point of an agent's code",
    "read.come_to: a loop is come to with other registers": "what is live is known of the place",
    "read.summed: lanes are apart by other numbers in another turn": "by direct tests (`test_turns.py`)",
    "read.summed: a register changes its kind from turn to turn": "an unknown number for lanes that differ",
    "read.summed: lanes hold other numbers in another turn": "lanes that count, claimed to stand still",
    "assemble.steering: agents of which different words are claimed to steer": _WORDS,
    "claims_text._claim: a word of no bytes": _WORDS,
    "words.asked: a word in shared memory is asked for beside its access": _WORDS,
    "words.attributed: a word in shared memory steers, of which too little is claimed": _WORDS,
    "words.attributed: a word in shared memory that steers is stored as another number": _WORDS,
    "words.attributed: a word in shared memory that steers, and no load or store of it alone": _WORDS,
    "words.check: a word in shared memory that steers may not be stored": _WORDS,
    "words.check: two numbers of one word in shared memory": _WORDS,
    "words.version_of: a word in shared memory that steers is accessed in some turns alone": _WORDS,
    "words.write: a word in shared memory that steers is stored as no known number": _WORDS,
    "words.write: two stores of one version": _WORDS,
    "read.end: a register that may stand still": "runs at small sizes do not end, so that nothing is claimed",
    "read.without: the last turn of a loop does something else": "compared where a last turn stands apart",
    "read.inner_trips: a tile may be empty": "trip counts are those of registers at small sizes",
    "read.lasting: a tile may be empty": "the same of loops that ask behind their body",
    "read.tiles: tiles end in two ways": "tiles that end before their loop and behind it",
    "read.lasting: a trip count that does not say when the loop ends": "trip counts that no loop has",
    "strides.noted: a register with different values where a loop begins": "claims of one start for two",
    "strides.noted: a register that moves by different sizes": "claims of one step for two",
}
