#pragma once
typedef unsigned int u32;
typedef unsigned long long u64;
#define D static __device__ __forceinline__
D u32 addr(const void* p) { return (u32)__cvta_generic_to_shared(p); }
struct Mbar {
  u64 v;
  __device__ void setup(int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(addr(&v)), "r"(n) : "memory"); }
  __device__ void expect(int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(addr(&v)), "r"(bytes) : "memory"); }
  __device__ void signal() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(addr(&v)) : "memory"); }
  __device__ bool poll(u32 par) {
    u32 ok;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(ok) : "r"(addr(&v)), "r"(par) : "memory");
    return ok;
  }
  __device__ void await(u32 par) { while (!poll(par)) {} }
};
D void fetch(void* d, const void* s, int n, Mbar& b) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(addr(d)), "l"(s), "r"(n), "r"(addr(&b.v)) : "memory"); }
D void write_back(void* d, const void* s, int n) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(d), "r"(addr(s)), "r"(n) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
D void store_drained() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
D void store_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
D void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
D void inits_visible() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
D void math_meet() { asm volatile("bar.sync 2, 128;" ::: "memory"); }
template <int N> struct Cursor {
  int slot = 0;
  u32 lap = 0;
  __device__ void step() { if (++slot == N) { slot = 0; lap ^= 1; } }
};
template <int N> struct Lane {
  Mbar filled[N], freed[N];
  __device__ void setup(int readers) { for (int i = 0; i < N; ++i) { filled[i].setup(1); freed[i].setup(readers); } }
  __device__ Mbar& acquire(const Cursor<N>& c, int bytes) {
    freed[c.slot].await(c.lap ^ 1);
    filled[c.slot].expect(bytes);
    return filled[c.slot];
  }
  __device__ void consume(const Cursor<N>& c) { filled[c.slot].await(c.lap); }
  __device__ void release(const Cursor<N>& c) { publish(); freed[c.slot].signal(); }
};
