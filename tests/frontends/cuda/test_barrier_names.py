"""What a CUDA source calls the barriers that a line of it initializes."""

from __future__ import annotations

import pytest

from syncverify.frontends.cuda.barrier_names import initialized, joined, member, passed


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("    mbar_init(&s.full[i], 1);", ["s.full[i]"]),
        ("for (...) { init(&full[i], 1); init(&empty[i], N); }", ["full[i]", "empty[i]"]),
        ("  shared.pipe.full[stage].init(128);", ["shared.pipe.full[stage]"]),
        ("  bars->init(4);  // init(x)", ["bars"]),
        ("  cutlass::arch::ClusterBarrier::init(ptr, 1);", ["ptr"]),
        ("  mbarrier_init(reinterpret_cast<uint64_t*>(&smem->done), 1);", ["smem->done"]),
        ("  init(base + 8 * i, 1);", []),
        ("  mbarrier::init(toSmem((&T3[i2])), 1U);", ["T3[i2]"]),
        ("  init(smem_address(&s.full[i]), n);", ["s.full[i]"]),
        ("  init(at(base, 8 * i), n);", []),
        ("  wait(&full[i], 0);", []),
    ],
)
def test_names(line: str, names: list[str]) -> None:
    assert initialized(line) == names


METHOD = """
struct Pipe {
  uint64_t full[2], empty[2];
  __device__ void init(int readers) {
    for (int i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(addr(&full[i])), "r"(1) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(addr(&this->empty[i])), "r"(readers));
      setup(&full[i], 1);
    }
  }
};
__device__ void setup(uint64_t* b, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(addr(b)), "r"(n) : "memory");
}
""".split("\n")


@pytest.mark.parametrize(("line", "name"), [(6, "full[i]"), (7, "empty[i]"), (14, None)])
def test_a_method_initializes_members_and_a_function_what_it_is_given(line: int, name: str | None) -> None:
    assert member(METHOD, line) == name


def test_methods_of_any_name_initialize_in_turn_where_a_line_calls_one_several_times() -> None:
    both = ["  for (int i = 0; i < N; ++i) { full[i].setup(1); empty[i].setup(readers); }"]
    assert [member(both, 1, turn) for turn in range(3)] == ["full[i]", "empty[i]", "full[i]"]
    for line in ("full[i].setup(1);", "full[i].setup(1); ring.clear();", "f(1).setup(1); g(1).setup(1);"):
        assert member([line], 1) is None


def test_members_are_named_with_their_object_where_they_say_more() -> None:
    assert joined(["pipe"], "full[i]", several=False) == ["pipe.full[i]"]
    assert joined(["full[i]"], None, several=True) == ["full[i]"]
    assert joined(["a", "b"], "full[i]", several=True) == ["a", "b"]


def test_calls_of_a_line_initialize_in_turn() -> None:
    both = ["  __device__ void open() { init(&turn[0], 1); init(&turn[1], 1); }"]
    assert [member(both, 1, turn) for turn in range(3)] == ["turn[0]", "turn[1]", "turn[0]"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  s.pipe[1].open(1, 64);", "s.pipe[1]"),
        ("  setup(&ring.ready[threadIdx.x], HALF);", "ring.ready[threadIdx.x]"),
        ("  make(ready[i], 1);", "ready[i]"),
        ("  if (threadIdx.x == 0) make(done, 1);", "done"),
        ("  a.open(1), b.open(2);", None),
    ],
)
def test_the_only_call_of_a_line_says_what_it_initializes(line: str, said: str | None) -> None:
    assert passed(line) == said
