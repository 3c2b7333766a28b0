"""The Python builder: the same kernels as the text, the author's lines, and clear refusals."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.builder.kernel_builder import KernelBuilder, cdiv, select, tid, warp
from syncverify.ir.builder.operations import Operations
from syncverify.ir.check.wait_cycles import cyclic_waits
from syncverify.ir.expr import Int, Var
from syncverify.ir.text.forms import FORMS
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from tests.ir.text.test_parser import EXAMPLE


def ring() -> nodes.Kernel:
    k = KernelBuilder("ring", grid=cdiv(Var("N"), 4), block=160, registers=168)
    n = k.param("N", "i32", 8)
    k.assume(n >= 1)
    a = k.tensor("a", "f32", [n * 256], "in")
    out = k.tensor("out", "f32", [n * 256], "out")
    m = k.tensor("m", "bf16", [1024, 512], "in")
    k.tensormap("A", m, [64, 64], swizzle="128B")
    tile = k.shared("tile", "f32", [2, 256])
    full, empty = k.mbarrier("full", 2), k.mbarrier("empty", 2)
    k.fragment("acc", "f32", [64, 128])
    with k.if_(warp.eq(0)):
        p = k.elect("p")
        with k.if_(p), k.for_("s", 0, 2) as s:
            k.mbarrier_init(full[s], 1)
            k.mbarrier_init(empty[s], 128)
    k.bar_sync(0)
    with k.role("producer", warps=(4, 5)):
        p = k.elect("p")
        with k.if_(p), k.for_("i", 0, n) as i:
            k.mbarrier_wait(empty[i % 2], (i // 2 + 1) % 2)
            k.mbarrier_arrive(full[i % 2], expect_tx=1024)
            k.bulk_load(tile[i % 2], a[i * 256 : 256], full[i % 2])
    with k.role("consumer", warps=(0, 4)), k.for_("i", 0, n) as i:
        k.mbarrier_wait(full[i % 2], (i // 2) % 2)
        x = k.ld_shared(tile[i % 2][tid * 2 : 2], "x")
        y = k.compute(x * 2.0, "y")
        k.mbarrier_arrive(empty[i % 2])
        k.st_global(out[i * 256 + tid * 2 : 2], y)
    return k.build()


def test_the_documented_example() -> None:
    text = EXAMPLE.replace("      fence.mbarrier_init\n", "")
    assert text != EXAMPLE
    assert (ring(),) == parse(text)


def test_spans_are_the_authors_lines() -> None:
    k = KernelBuilder("k")
    first = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    full = k.mbarrier("full")
    with k.if_(tid.eq(0)):
        k.mbarrier_init(full, 1)
    made = k.build()
    assert (made.barriers[0].span.file, made.barriers[0].span.line) == (__file__, first)
    (s,) = made.body
    assert isinstance(s, nodes.If)
    assert (s.span.line, s.then[0].span.line) == (first + 1, first + 2)


@dataclass
class _Recorder(Operations):
    """Records which nodes the operation methods make."""

    made: list[nodes.Stmt]

    def add(self, stmt: nodes.Stmt) -> None:
        self.made.append(stmt)

    def fresh(self, name: str | None, prefix: str) -> str:
        return name or prefix


#: An argument for each parameter of the operation methods.
ARGUMENTS: dict[str, Any] = {
    "bar": nodes.BarrierRef("full"), "dst": nodes.Region("t"), "src": nodes.Region("t"), "source": None,
    "box": KernelBuilder("k").tensormap("M", KernelBuilder("k").tensor("a", "f32", [4], "in"), [4])[0],
    "acc": "acc", "frag": "acc", "map": "M", "a": nodes.Region("t"), "b": nodes.Region("t"),
    "field": "rank", "name": "x", "op": "add", "sem": "release", "cmp": ">=", "token": "x",
}  # fmt: skip
GLOBAL = nodes.GlobalRegion("a", Int(0))


def _arguments(method: Callable[..., Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for p in inspect.signature(method).parameters.values():
        if "GlobalRegion" in str(p.annotation):
            out[p.name] = GLOBAL
        elif p.default is inspect.Parameter.empty:
            out[p.name] = ARGUMENTS.get(p.name, 1)
    return out


def _records() -> dict[str, nodes.Stmt]:
    out: dict[str, nodes.Stmt] = {}
    for name, _ in inspect.getmembers(Operations, inspect.isfunction):
        if name.startswith("_") or name in ("add", "fresh"):
            continue
        recorder = _Recorder([])
        bound = getattr(recorder, name)
        bound(**_arguments(bound))
        (out[name],) = recorder.made
    return out


def test_there_is_a_method_for_every_node() -> None:
    blocks = {nodes.For, nodes.If, nodes.Role}
    every = {n for n in nodes.Stmt.__subclasses__() if getattr(nodes, n.__name__) is n}
    assert {type(s) for s in _records().values()} == every - blocks


def test_methods_are_named_after_mnemonics() -> None:
    records = _records()
    other = {"let", "assign", "compute", "load", "fence_sync_restrict", "setmaxnreg_inc", "setmaxnreg_dec"}
    mnemonics = {f.mnemonic.replace(".", "_"): f for f in FORMS}
    for name, stmt in records.items():
        if name not in other:
            assert mnemonics[name].node is type(stmt), name


def test_every_method_makes_what_the_text_can_say() -> None:
    fragments = (nodes.Fragment("acc", "f32", (64, 8)),)
    for stmt in _records().values():
        k = nodes.Kernel("k", fragments=fragments, body=(stmt,))
        assert parse(print_kernel(k)) == (k,)


def test_references() -> None:
    k = KernelBuilder("k", grid=2, cluster=2)
    t, full = k.shared("t", "f32", [2, 64]), k.mbarrier("full", 2)
    flat = k.shared("flat", "f32", [64])
    k.st_shared(t[1, 2].on(1), 1.0)
    k.st_shared(t[1][0:4].rows(2, pitch=8), select(tid.eq(0), 1, 2))
    k.st_shared(flat[4:8], 1.0)
    k.st_shared(flat.on(0), 1.0)
    k.mbarrier_arrive(full[0].on(1))
    text = print_kernel(k.build())
    for line in [
        "t[1, 2] @ 1, 1.0",
        "t[1][0 : 4 rows 2 pitch 8], select(tid == 0, 1, 2)",
        "flat[][4 : 8], 1.0",
        "flat @ 0, 1.0",
        "mbarrier.arrive full[0] @ 1",
    ]:
        assert line in text


def test_names_are_made_up_and_do_not_clash() -> None:
    k = KernelBuilder("k")
    t = k.shared("t", "f32", [64])
    k.shared("v0", "f32", [64])
    names = [k.ld_shared(t).name, k.ld_shared(t).name, k.elect().name]
    assert names == ["v1", "v2", "p0"]


def test_else() -> None:
    k = KernelBuilder("k")
    with k.if_(tid.eq(0)):
        k.exit()
    with k.else_():
        k.bar_sync(0)
    (s,) = k.build().body
    assert s == nodes.If(tid.eq(0), (nodes.Exit(),), (nodes.BarrierSync(Int(0)),))


# ---------------------------------------------------------------- refusals


def _unclosed(k: KernelBuilder) -> None:
    with k.if_(1):
        k.build()


def _unentered(k: KernelBuilder) -> None:
    k.for_("i", 0, 4)
    k.exit()


def _unentered_at_the_end(k: KernelBuilder) -> None:
    k.role("r", warps=(0, 1))
    k.build()


def _wrong_operand(k: KernelBuilder) -> None:
    t = k.shared("t", "f32", [2])
    k.mbarrier_init(t, 1)  # type: ignore[arg-type]


def _tensor_without_index(k: KernelBuilder) -> None:
    a, t, full = k.tensor("a", "f32", [4], "in"), k.shared("t", "f32", [4]), k.mbarrier("full")
    k.bulk_load(t, a, full)  # type: ignore[arg-type]


def _unknown_name(k: KernelBuilder) -> None:
    k.bar_sync(Var("nobody"))
    k.build()


def _half_a_range(k: KernelBuilder) -> None:
    t = k.shared("t", "f32", [4])
    k.st_shared(t[:3], 1.0)


def _late_declaration(k: KernelBuilder) -> None:
    k.exit()
    k.shared("t", "f32", [4])


def _twice(k: KernelBuilder) -> None:
    k.shared("t", "f32", [4])
    k.mbarrier("t")


def _else_alone(k: KernelBuilder) -> None:
    k.exit()
    k.else_()


def _two_units(k: KernelBuilder) -> None:
    k.role("r", warps=(0, 1), threads=(0, 32))


def _expression(k: KernelBuilder) -> None:
    k.bar_sync("0")  # type: ignore[arg-type]


def _name(k: KernelBuilder) -> None:
    k.let("tid", 3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (_unclosed, "the block of if is not closed"),
        (_unentered, "the block of for i was never entered"),
        (_unentered_at_the_end, "the block of role r was never entered"),
        (_wrong_operand, "expected an mbarrier, found shared buffer t"),
        (_tensor_without_index, "found tensor a without an index"),
        (_unknown_name, "nobody is not declared"),
        (_half_a_range, "a range of t is [start:count]"),
        (_late_declaration, "declare t before the first statement"),
        (_twice, "t is declared twice"),
        (_else_alone, "else_ follows the block of an if_"),
        (_two_units, "a range of threads, of warps or of warpgroups"),
        (_expression, "expected an expression, found str '0'"),
        (_name, "'tid' cannot be a name here"),
    ],
)
def test_refusals_point_at_the_author(build: Callable[[KernelBuilder], None], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(KernelBuilder("k"))
    assert message in caught.value.message
    first = build.__code__.co_firstlineno
    assert caught.value.span.file == __file__
    assert first < caught.value.span.line <= first + 3


# ---------------------------------------------------------------- waits that wait for each other


def waits(text: str) -> list[str]:
    (k,) = parse(f"kernel k {{\n mbarrier a\n mbarrier b\n mbarrier c\n{text}\n}}")
    return [w.bar.name for w in cyclic_waits(k)]


@pytest.mark.parametrize(
    ("text", "cycle"),
    [
        ("mbarrier.wait a, 0\nmbarrier.arrive a", ["a"]),
        ("for i in 0..4 {\n mbarrier.wait a, i % 2\n mbarrier.arrive a\n}", ["a"]),
        ("mbarrier.wait a, 0\nif tid == 0 {\n mbarrier.arrive a\n}", ["a"]),
        ("role p warps 0..1 {\n mbarrier.wait a, 0\n mbarrier.arrive b\n}\n"
         "role q warps 1..2 {\n mbarrier.wait b, 0\n mbarrier.arrive a\n}", ["a", "b"]),
        ("role p warps 0..1 {\n mbarrier.wait a, 0\n mbarrier.arrive b\n}\n"
         "role q warps 1..2 {\n mbarrier.wait b, 0\n mbarrier.arrive c\n}\n"
         "role r warps 2..3 {\n mbarrier.wait c, 0\n mbarrier.arrive a\n}", ["a", "c", "b"]),
        # not evident, or no cycle
        ("mbarrier.arrive a\nmbarrier.wait a, 0", []),
        ("mbarrier.wait a, 1\nmbarrier.arrive a", []),
        ("if tid == 0 {\n mbarrier.wait a, 0\n}\nmbarrier.arrive a", []),
        ("for i in 0..4 {\n mbarrier.wait a, (i + 1) % 2\n mbarrier.arrive a\n}", []),
        ("for i in 0..4 {\n if i > 0 {\n mbarrier.wait a, (i + 1) % 2\n}\n mbarrier.arrive a\n}", []),
        ("for i in 0..4 {\n if i == 1 {\n mbarrier.wait a, (i + 1) % 2\n}\n"
         " if i == 0 {\n mbarrier.arrive a\n}\n}", []),
        ("mbarrier.wait a, 0", []),
        ("role p warps 0..1 {\n mbarrier.wait a, 0\n mbarrier.arrive b\n}\n"
         "role q warps 1..2 {\n mbarrier.arrive a\n mbarrier.wait b, 0\n}", []),
    ],
)  # fmt: skip
def test_cyclic_waits(text: str, cycle: list[str]) -> None:
    assert waits(text) == cycle


def test_the_builder_refuses_cyclic_waits() -> None:
    k = KernelBuilder("k")
    a = k.mbarrier("a")
    k.mbarrier_wait(a, 0)
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    k.mbarrier_arrive(a)
    with pytest.raises(InputError, match="every arrival on it stands behind the wait") as caught:
        k.build()
    assert caught.value.span.line == line
    assert len(k.build(check_waits=False).body) == 2
