"""The text form of every operation statement: one row per mnemonic, read by parser and printer.

A row gives the mnemonic, the node, its suffixes (``.relaxed``) and its operands. Suffixes:
``drop`` sets the boolean field ``drop``; ``sem=relaxed`` lets ``.relaxed`` set ``sem``; ``!`` makes
one required; ``&sem`` prints the suffix whenever ``sem`` is printed. Operands: ``field:kind``,
``?`` optional, ``word/field:index?`` written after a key word (``multicast m``). Fields whose value
a mnemonic implies stand in ``fixed``. Control flow is not here; the grammar knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

from syncverify.ir import nodes as n

_SEM = "sem=weak|relaxed|acquire|release|acq_rel|sc"
_SCOPE = "scope=cta|cluster|gpu|sys"
_SEM_SCOPE = f"{_SEM} {_SCOPE}&sem"
_REDUCE = "add|min|max|inc|dec|and|or|xor|exch"
_OP = f"op={_REDUCE}"
_PROXY = "half=release|acquire space=global|shared_cta|shared_cluster"
_MBAR = "sem=relaxed scope=cluster"

#: What an operand of each kind is called in messages.
KIND_TEXT = {
    "index": "an integer expression",
    "value": "a value expression",
    "name": "a name",
    "shared": "a shared region such as tile[s]",
    "barrier": "a barrier such as full[s]",
    "global": "a global region such as a[i : n]",
    "map": "a tensor map with coordinates such as A[c0, c1]",
    "compare": "a comparison such as a[i] >= e",
    "fragment_or_shared": "a fragment or a shared region",
}


@dataclass(frozen=True, slots=True)
class Suffix:
    """One optional or required part of a mnemonic: ``choices`` maps its text to the field's value."""

    field: str
    choices: Mapping[str, Any]
    required: bool = False
    follows: str | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    field: str
    kind: str
    optional: bool = False
    key: str | None = None


@dataclass(frozen=True)
class Form:
    mnemonic: str
    node: type[n.Stmt]
    suffixes: tuple[Suffix, ...] = ()
    operands: tuple[Operand, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    #: The field that a left-hand side sets, whether it is written ``let x =``, and whether it may lack.
    target: str | None = None
    target_let: bool = False
    target_optional: bool = False

    @cached_property
    def defaults(self) -> dict[str, Any]:
        return {f.name: f.default for f in fields(self.node) if f.default is not MISSING}

    @property
    def usage(self) -> str:
        """The form as a user would look it up."""
        words = {
            "index": "e", "value": "v", "name": "x", "shared": "region", "barrier": "barrier",
            "global": "a[i : n]", "map": "A[c0, c1]", "compare": "a[i] >= e",
            "fragment_or_shared": "fragment-or-region",
        }  # fmt: skip
        out = self.mnemonic
        for s in self.suffixes:
            text = "|".join("." + c for c in s.choices)
            out += text if s.required and len(s.choices) == 1 else f"({text})" if s.required else f"[{text}]"
        sep = " "
        for o in self.operands:
            word = f"{o.key} e" if o.key else words[o.kind]
            out += f"[{sep}{word}]" if o.optional else sep + word
            sep = ", "
        if self.target:
            left = "let x = " if self.target_let else "x = "
            out = f"[{left}]{out}" if self.target_optional else left + out
        return out


def _suffix(text: str) -> Suffix:
    text, _, follows = text.partition("&")
    required = text.startswith("!")
    name, eq, choices = text.lstrip("!").partition("=")
    table: dict[str, Any] = {c: c for c in choices.split("|")} if eq else {name: True}
    return Suffix(name, table, required, follows or None)


def _operand(text: str) -> Operand:
    head, _, kind = text.partition(":")
    key, slash, name = head.rpartition("/")
    return Operand(name, kind.rstrip("?"), kind.endswith("?"), key if slash else None)


def _row(mnemonic: str, node: type[n.Stmt], operands: str = "", suffixes: str = "", **fixed: Any) -> Form:
    target = fixed.pop("_target", "")
    return Form(
        mnemonic,
        node,
        tuple(map(_suffix, suffixes.split())),
        tuple(map(_operand, operands.split())),
        fixed,
        target.strip("?").removeprefix("let ") or None,
        target.startswith("let "),
        target.endswith("?"),
    )


FORMS: tuple[Form, ...] = (
    _row("exit", n.Exit),
    _row("load", n.LoadIndex, "source:global", _target="let name"),
    # execution barriers and warp level
    _row("bar.sync", n.BarrierSync, "id:index count:index?", aligned=True, red=False),
    _row("bar.red", n.BarrierSync, "id:index count:index?", aligned=True, red=True),
    _row("bar.arrive", n.BarrierArrive, "id:index count:index", aligned=True),
    _row("barrier.sync", n.BarrierSync, "id:index count:index?", aligned=False, red=False),
    _row("barrier.red", n.BarrierSync, "id:index count:index?", aligned=False, red=True),
    _row("barrier.arrive", n.BarrierArrive, "id:index count:index", aligned=False),
    _row("warp.sync", n.WarpSync, "mask:index?"),
    _row("cluster.arrive", n.ClusterArrive, "", "sem=relaxed aligned"),
    _row("cluster.wait", n.ClusterWait, "", "aligned"),
    _row("elect", n.Elect, "name:name"),
    _row("shfl", n.Shuffle, "name:name value:value lane:index", "!mode=bfly|idx"),
    _row("setmaxnreg", n.SetMaxNReg, "count:index", "!direction=inc|dec"),
    _row("griddep.wait", n.GridDepWait),
    _row("griddep.launch", n.GridDepLaunch),
    # mbarrier
    _row("mbarrier.init", n.MbarrierInit, "bar:barrier count:index"),
    _row("mbarrier.inval", n.MbarrierInval, "bar:barrier"),
    _row("mbarrier.arrive", n.MbarrierArrive, "bar:barrier count/count:index?", f"drop no_complete {_MBAR}",
         expect=None, _target="let token?"),
    _row("mbarrier.arrive.expect_tx", n.MbarrierArrive, "bar:barrier expect:index count/count:index?",
         f"drop no_complete {_MBAR}", _target="let token?"),
    _row("mbarrier.expect_tx", n.MbarrierExpectTx, "bar:barrier bytes:index"),
    _row("mbarrier.complete_tx", n.MbarrierCompleteTx, "bar:barrier bytes:index"),
    _row("mbarrier.wait", n.MbarrierWait, "bar:barrier phase:index", f"token {_MBAR}"),
    _row("mbarrier.test", n.MbarrierTest, "bar:barrier phase:index", f"token {_MBAR}",
         may_suspend=False, _target="let name"),
    _row("mbarrier.try", n.MbarrierTest, "bar:barrier phase:index", f"token {_MBAR}",
         may_suspend=True, _target="let name"),
    # asynchronous copies
    _row("cp.async", n.CpAsync, "dst:shared src:global"),
    _row("cp.async.commit", n.CpAsyncCommit),
    _row("cp.async.wait_all", n.CpAsyncWait, pending=None),
    _row("cp.async.wait", n.CpAsyncWait, "pending:index"),
    _row("cp.async.mbarrier.arrive", n.CpAsyncMbarrierArrive, "bar:barrier", "noinc"),
    _row("bulk.load", n.BulkLoad, "dst:shared src:global bar:barrier multicast/multicast:index?"),
    _row("bulk.store", n.BulkStore, "dst:global src:shared", reduce=None),
    _row("bulk.reduce", n.BulkStore, "dst:global src:shared", f"!reduce={_REDUCE}"),
    _row("bulk.copy", n.BulkCopy, "dst:shared src:shared bar:barrier"),
    _row("bulk.prefetch", n.BulkPrefetch, "src:global"),
    _row("tma.load", n.TmaLoad, "dst:shared map:map bar:barrier multicast/multicast:index?"),
    _row("tma.store", n.TmaStore, "map:map src:shared", reduce=None),
    _row("tma.reduce", n.TmaStore, "map:map src:shared", f"!reduce={_REDUCE}"),
    _row("tma.prefetch", n.TmaPrefetch, "map:map"),
    _row("bulk.commit", n.BulkCommit),
    _row("bulk.wait", n.BulkWait, "pending:index", "read"),
    _row("st.async", n.StAsync, "dst:shared value:value bar:barrier", reduce=None),
    _row("red.async", n.StAsync, "dst:shared value:value bar:barrier", f"!reduce={_REDUCE}"),
    # fences; the sync_restrict forms exist at cluster scope only (PTX ISA, membar / fence)
    _row("fence.acquire.sync_restrict", n.Fence, sem="acquire", scope="cluster", sync_restrict=True),
    _row("fence.release.sync_restrict", n.Fence, sem="release", scope="cluster", sync_restrict=True),
    _row("fence", n.Fence, "", f"!sem=acq_rel|sc|acquire|release !{_SCOPE}", sync_restrict=False),
    _row("fence.mbarrier_init", n.FenceMbarrierInit),
    _row("fence.proxy.async", n.FenceProxyAsync, "", _PROXY),
    _row("fence.proxy.tensormap", n.FenceProxyTensormap, "map:name?", f"!sem=release|acquire !{_SCOPE}"),
    _row("tensormap.replace", n.TensormapReplace, "map:name field:name value:index"),
    _row("tensormap.cp_fence", n.TensormapCpFence, "map:name", f"!{_SCOPE}"),
    # tensor core
    _row("wgmma.fence", n.WgmmaFence),
    _row("wgmma.mma", n.Wgmma, "acc:name a:fragment_or_shared b:shared scale_d/accumulate:index?",
         "a_t b_t"),
    _row("wgmma.commit", n.WgmmaCommit),
    _row("wgmma.wait", n.WgmmaWait, "pending:index"),
    _row("frag.read", n.FragRead, "name:name frag:name start/start:index? count/count:index?"),
    _row("frag.write", n.FragWrite, "frag:name value:value start/start:index?"),
    _row("ldmatrix", n.LdMatrix, "name:name src:shared"),
    _row("stmatrix", n.StMatrix, "dst:shared value:value"),
    # generic memory
    _row("ld.shared", n.LdShared, "name:name src:shared"),
    _row("st.shared", n.StShared, "dst:shared value:value"),
    _row("atom.shared", n.AtomShared, "dst:shared value:value", f"!{_OP} {_SCOPE}", _target="name?"),
    _row("ld.global", n.LdGlobal, "name:name src:global", _SEM_SCOPE),
    _row("st.global", n.StGlobal, "dst:global value:value", _SEM_SCOPE),
    _row("atom.global", n.AtomGlobal, "dst:global value:value", f"!{_OP} {_SEM_SCOPE}",
         _target="name?"),
    _row("spin.global", n.SpinGlobal, "src:compare", f"!{_SEM} !{_SCOPE}"),
    _row("multimem.ld_reduce", n.Multimem, "name:name target:global", f"!{_OP} {_SEM_SCOPE}",
         kind="ld_reduce", value=None),
    _row("multimem.st", n.Multimem, "target:global value:value", _SEM_SCOPE,
         kind="st", name=None, op="add"),
    _row("multimem.red", n.Multimem, "target:global value:value", f"!{_OP} {_SEM_SCOPE}",
         kind="red", name=None),
)  # fmt: skip

#: Words that the text form reads as its own wherever a name may stand.
RESERVED = frozenset(
    "and or not inf nan let compute for if else role arch launch param assume tensor tensormap shared "
    "mbarrier fragment kernel".split()
)

BY_MNEMONIC: dict[str, Form] = {f.mnemonic: f for f in FORMS}
BY_NODE: dict[type[n.Stmt], tuple[Form, ...]] = {}
for _f in FORMS:
    BY_NODE[_f.node] = (*BY_NODE.get(_f.node, ()), _f)


class FormError(Exception):
    """A mnemonic that no row accepts; the message says what would be accepted."""


@lru_cache(maxsize=1024)
def lookup(mnemonic: str) -> tuple[Form, Mapping[str, Any]]:
    """The form of a full mnemonic and the fields its suffixes set; FormError if there is none."""
    parts = mnemonic.split(".")
    for cut in range(len(parts), 0, -1):
        form = BY_MNEMONIC.get(".".join(parts[:cut]))
        if form is not None:
            break
    else:
        raise FormError(f"there is no operation {mnemonic}{did_you_mean(mnemonic, known_mnemonics())}")
    values: dict[str, Any] = dict(form.fixed)
    seen: set[str] = set()
    for part in parts[cut:]:
        for s in form.suffixes:
            if part in s.choices and s.field not in seen:
                seen.add(s.field)
                values[s.field] = s.choices[part]
                break
        else:
            known = [c for s in form.suffixes for c in s.choices]
            raise FormError(f"{form.mnemonic} takes no suffix .{part}{did_you_mean(part, known)}; "
                            f"its form is: {form.usage}")  # fmt: skip
    for s in form.suffixes:
        if s.required and s.field not in seen:
            wanted = ", ".join("." + c for c in s.choices)
            raise FormError(f"{mnemonic} lacks a suffix, one of {wanted}; its form is: {form.usage}")
    return form, values


def known_mnemonics() -> list[str]:
    """Every mnemonic a user may have meant, required suffixes included."""
    out: list[str] = []
    for f in FORMS:
        names = [f.mnemonic]
        for s in f.suffixes:
            if s.required:
                names = [f"{x}.{c}" for x in names for c in s.choices]
        out += names
    return out


def did_you_mean(word: str, known: list[str]) -> str:
    """`` (did you mean x?)`` if a known word is close, else nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, 1, 0.6)
    return f" (did you mean {close[0]}?)" if close else ""
