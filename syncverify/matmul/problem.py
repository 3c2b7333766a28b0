"""What is computed: C = f(A B, ...) with f an elementwise fusion."""

from __future__ import annotations

from dataclasses import dataclass, replace

from syncverify.base.source import InputError
from syncverify.fusion.functions import FUNCTIONS
from syncverify.fusion.graph import Fusion, Tensor, Value, trace
from syncverify.ir.nodes import DTYPE_BYTES
from syncverify.matmul.named import renamed

#: The inputs of an epilogue that stand for the product, and for a second one of the same A.
PRODUCT, SECOND = "acc", "acc2"
DIMS = ("M", "N")
#: How many products of one shape a batched problem has: the outermost dimension of factors and results.
BATCH = "B"
#: Of grouped products: how many right factors there are; the tensor that has one's number for so many rows.
EXPERTS, CHOICE, GROUP_ROWS = "E", "experts", 128
#: Of those whose groups begin anywhere: how many rows A has, and the tensor that has each group's first one.
LEFT_ROWS, STARTS = "L", "starts"
#: The input of a prologue, and its dimensions.
FACTOR, FACTOR_DIMS = "a", ("M", "K")
#: Types of factors, and the type that their plain product usually has.
OUTPUTS = {"bf16": "bf16", "f16": "f16", "e4m3": "bf16", "e5m2": "bf16", "tf32": "f32"}


@dataclass(frozen=True)
class Problem:
    """``epilogue``: a fusion over (M, N), (N,), (M,) and scalars; its input ``acc`` is the product, in f32.
    With an input ``acc2``, A B2 is computed beside A B: a gated pair.

    ``layout``: for A and B, ``K`` if the dimension that they share is contiguous, else ``M`` and ``N``: A is
    stored as (M, K) or (K, M), B as (N, K) or (K, N). Factors of 8 or 32 bits are stored as KK only; tf32
    ones are f32 in memory. ``prologue``: an elementwise fusion over (M, K) of the one input ``a``, which
    makes A of what memory holds; A then comes from registers. ``by_columns``: memory holds C column by
    column, as (N, M); then the epilogue has no other inputs, and asks for no places. ``batched``: factors
    and results are ``B`` matrices of one shape, one behind the other in memory; other inputs of the epilogue
    are the same for all of them. ``grouped``: right factors are ``E`` matrices, and each ``GROUP_ROWS`` rows
    of A and C have one of them, whose number memory holds (``batch``). ``anywhere``: each of these groups of
    C is of rows of A, ``L`` in all, from one on that memory holds as well.
    """

    name: str
    dtype: str
    layout: str
    epilogue: Fusion
    prologue: Fusion | None = None
    by_columns: bool = False
    batched: bool = False
    grouped: bool = False
    anywhere: bool = False

    def __post_init__(self) -> None:
        for what, f in (("an epilogue", self.epilogue), ("a prologue", self.prologue)):
            if not isinstance(f, Fusion) and (f is not None or what == "an epilogue"):
                raise InputError(f"{self.name}: {what} is what trace() makes of a function, not {f!r}")
        if self.dtype not in OUTPUTS:
            raise InputError(f"{self.name}: no products of {self.dtype}")
        if self.layout not in ("KK", "KN", "MK", "MN"):
            raise InputError(f"{self.name}: a layout is KK, KN, MK or MN, not {self.layout}")
        if self.layout != "KK" and DTYPE_BYTES[self.dtype] != 2:
            # PTX ISA, wgmma: imm-trans
            raise InputError(
                f"{self.name}: factors of {self.dtype} run along K, layout KK, not {self.layout}"
            )
        inputs = dict(self.epilogue.inputs)
        if PRODUCT not in inputs or inputs[PRODUCT] != Tensor("f32", DIMS):
            raise InputError(f"{self.name}: an epilogue has an input {PRODUCT}=Tensor('f32', ('M', 'N'))")
        if self.epilogue.dims != DIMS or any(set(t.dims) - set(DIMS) for t in inputs.values()):
            raise InputError(f"{self.name}: an epilogue has the dimensions M and N")
        self._check_elements("an epilogue", self.epilogue, DIMS, {"integer", "size", "index"})
        if inputs.get(SECOND, inputs[PRODUCT]) != inputs[PRODUCT]:
            raise InputError(f"{self.name}: the second product is {SECOND}=Tensor('f32', ('M', 'N'))")
        if {"a", "b", "b2"} & set(inputs):
            raise InputError(
                f"{self.name}: an epilogue's inputs are not called a, b or b2, which are the factors"
            )
        if self.prologue is not None:
            self._check_prologue(self.prologue)
        if self.by_columns and not self._plain:
            raise InputError(
                f"{self.name}: C is stored by columns where 16-bit results are made of one product alone"
            )
        self._check_groups()
        object.__setattr__(self, "epilogue", renamed(self.epilogue, (PRODUCT, SECOND)))

    def _check_prologue(self, f: Fusion) -> None:
        source = dict(f.inputs).get(FACTOR)
        if len(f.inputs) != 1 or source is None or source.dims != FACTOR_DIMS or len(f.outputs) != 1:
            raise InputError(
                f"{self.name}: a prologue is a function of {FACTOR}=Tensor(TYPE, ('M', 'K')) alone"
            )
        if DTYPE_BYTES[source.dtype] > 2 or self.size != 2 or f.outputs[0].dtype != self.dtype:
            raise InputError(f"{self.name}: a prologue makes 16-bit factors of elements of 8 or 16 bits")
        if self.a_t:
            raise InputError(f"{self.name}: a prologue needs A to run along K, not layout {self.layout}")
        self._check_elements("a prologue", f, FACTOR_DIMS, set())

    def _check_groups(self) -> None:
        if self.anywhere and not self.grouped:
            raise InputError(f"{self.name}: groups of rows that begin anywhere are of grouped products")
        if self.grouped and (self.batched or self.by_columns):
            raise InputError(f"{self.name}: grouped products are not batched nor by columns")
        for name in self.tables:
            if name in dict(self.epilogue.inputs):
                raise InputError(f"{self.name}: {name} is a table of grouped products, and no other input")

    def _check_elements(self, what: str, f: Fusion, dims: tuple[str, str], more: set[str]) -> None:
        """Each element of what it makes comes from those at its own place."""
        for o in f.outputs:
            if o.dims != dims:
                shape = ", ".join(o.dims) or "one number"
                raise InputError(f"{self.name}: {what} makes {', '.join(dims)} matrices; {o.name} is {shape}")
        for op in (f.node(i).op for i in f.order()):
            if op not in FUNCTIONS and op not in {"input", "const", *more}:
                raise InputError(f"{self.name}: {what} is elementwise; {op} is for fusions without products")

    @property
    def _plain(self) -> bool:
        """Whether 16-bit results are made of one product alone."""
        alone = not self.others and self.prologue is None and len(self.rights) == 1
        return alone and not self.placed and set(self.output_sizes) == {2}

    @property
    def transposed(self) -> Problem | None:
        """The same results as the transpose of the transposed factors' product, where that is computed."""
        if not self._plain or self.grouped:
            return None
        layout = ("K" if self.b_t else "M") + ("N" if self.a_t else "K")
        return replace(self, layout=layout, by_columns=not self.by_columns)

    def computed(self, by_columns: bool) -> Problem:
        """The problem as a kernel has it: of tiles by columns, that of the transposes."""
        found = self.transposed if by_columns else self
        if found is None:
            raise InputError(f"{self.name}: by_columns is for 16-bit results of one product alone")
        return found

    @property
    def placed(self) -> bool:
        """Whether the epilogue asks where an element lies."""
        return any(self.epilogue.node(i).op == "index" for i in self.epilogue.order())

    @property
    def rights(self) -> tuple[str, ...]:
        """The right factors: ``b``, and ``b2`` of a second product."""
        return ("b", "b2") if SECOND in dict(self.epilogue.inputs) else ("b",)

    @property
    def products(self) -> tuple[str, ...]:
        """The epilogue's inputs that are products, each with the right factor of its place."""
        return (PRODUCT, SECOND)[: len(self.rights)]

    @property
    def others(self) -> tuple[tuple[str, Tensor], ...]:
        """What the epilogue reads beside products."""
        return tuple((n, t) for n, t in self.epilogue.inputs if n not in (PRODUCT, SECOND))

    @property
    def a_t(self) -> bool:
        """Whether A's memory runs along M."""
        return self.layout[0] == "M"

    @property
    def b_t(self) -> bool:
        """Whether B's memory runs along K."""
        return self.layout[1] == "K"

    @property
    def turned(self) -> tuple[bool, ...]:
        """Of each factor whether memory holds it column by column."""
        return (self.a_t, *(self.b_t for _ in self.rights))

    @property
    def size(self) -> int:
        """Bytes of an element of a factor."""
        return DTYPE_BYTES[self.dtype]

    @property
    def tables(self) -> tuple[str, ...]:
        """Tensors of one i32 for each group of rows: right factors' numbers, and first rows of A."""
        return (CHOICE,) * self.grouped + (STARTS,) * self.anywhere

    @property
    def stored(self) -> dict[str, str]:
        """The types that the factors have in memory."""
        plain = "f32" if self.dtype == "tf32" else self.dtype
        return {"a": plain if self.prologue is None else self.types["a"], **dict.fromkeys(self.rights, plain)}

    @property
    def types(self) -> dict[str, str]:
        """The types of the factors as they are copied."""
        source = None if self.prologue is None else dict(self.prologue.inputs)[FACTOR].dtype
        return {"a": source or self.dtype, **dict.fromkeys(self.rights, self.dtype)}

    @property
    def output_sizes(self) -> list[int]:
        """Bytes of an element of each output."""
        return [DTYPE_BYTES[o.dtype] for o in self.epilogue.outputs]

    @property
    def shapes(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of every tensor as stored, outermost first."""
        many = (BATCH,) if self.batched else ()
        rights = (EXPERTS,) if self.grouped else many
        rows = LEFT_ROWS if self.anywhere else "M"
        a = ("K", rows) if self.a_t else (rows, "K")
        b = ("N", "K") if self.b_t else ("K", "N")
        others = {n: t.dims for n, t in self.others}
        factors = {"a": (*many, *a), **dict.fromkeys(self.rights, (*rights, *b))}
        stored = (*many, *(DIMS[::-1] if self.by_columns else DIMS))
        return {**factors, **others, **{o.name: stored for o in self.epilogue.outputs}}


def product(
    dtype: str = "bf16", layout: str = "KK", name: str = "matmul", out: str = "", *, batched: bool = False
) -> Problem:
    """The plain product, rounded to the type ``out``: what is usual for factors of that type."""

    def c(acc: Value) -> Value:
        return acc.cast(out or OUTPUTS.get(dtype, "f32"))

    epilogue = trace(c, {PRODUCT: Tensor("f32", DIMS)})
    return Problem(name, dtype, layout, epilogue, batched=batched)


def grouped_product(
    dtype: str = "bf16", layout: str = "KK", name: str = "matmul", out: str = "", *, anywhere: bool = False
) -> Problem:
    """The same with a right factor for each group of ``GROUP_ROWS`` rows, of A's from anywhere on."""
    return replace(product(dtype, layout, name, out), grouped=True, anywhere=anywhere)


__all__ = ["BATCH", "CHOICE", "DIMS", "EXPERTS", "GROUP_ROWS", "LEFT_ROWS", "PRODUCT", "SECOND", "STARTS",
           "Problem", "grouped_product", "product"]  # fmt: skip
