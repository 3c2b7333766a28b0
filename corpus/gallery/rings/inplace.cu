// Lines go through one ring of buffers: loaded by bulk copies, scaled in place by two warps, stored by bulk copies.
#include <cstdint>

template <int Slots, int Words>
struct Belt {
  alignas(128) float line[Slots][Words];
  uint64_t loaded[Slots], scaled[Slots], stored[Slots];
};

struct Use {
  uint32_t count = 0;
  template <int Slots> __device__ uint32_t slot() const { return count % Slots; }
  template <int Slots> __device__ uint32_t parity() const { return (count / Slots) & 1u; }
};

__device__ __forceinline__ uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void make(uint64_t* b, uint32_t n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void arrive(uint64_t* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(b)) : "memory"); }
__device__ __forceinline__ void arrive_tx(uint64_t* b, uint32_t n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void wait(uint64_t* b, uint32_t parity) {
  asm volatile("{\n.reg .pred ok;\nSPIN:\nmbarrier.try_wait.parity.shared::cta.b64 ok, [%0], %1;\n@!ok bra SPIN;\n}" ::"r"(at(b)), "r"(parity) : "memory");
}
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

constexpr int kSlots = 4, kWords = 128;
constexpr uint32_t kBytes = kWords * 4;

extern "C" __global__ void __launch_bounds__(128) inplace(const float* src, float* dst, float by, uint32_t lines) {
  __shared__ Belt<kSlots, kWords> belt;
  const uint32_t warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kSlots; ++s) {
      make(&belt.loaded[s], 1);
      make(&belt.scaled[s], 64);
      make(&belt.stored[s], 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  Use use;
  if (warp == 0 && threadIdx.x == 0) {
    for (; use.count < lines; ++use.count) {
      const uint32_t s = use.slot<kSlots>();
      wait(&belt.stored[s], use.parity<kSlots>() ^ 1);
      arrive_tx(&belt.loaded[s], kBytes);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at(belt.line[s])),
                   "l"(src + use.count * kWords), "r"(kBytes), "r"(at(&belt.loaded[s])) : "memory");
    }
  }
  if (warp == 1 || warp == 2) {
    const uint32_t me = threadIdx.x - 32;
    for (; use.count < lines; ++use.count) {
      const uint32_t s = use.slot<kSlots>();
      wait(&belt.loaded[s], use.parity<kSlots>());
      belt.line[s][me] *= by;
      belt.line[s][me + 64] *= by;
      proxy_fence();
      arrive(&belt.scaled[s]);
    }
  }
  if (warp == 3 && threadIdx.x % 32 == 0) {
    for (; use.count < lines; ++use.count) {
      const uint32_t s = use.slot<kSlots>();
      wait(&belt.scaled[s], use.parity<kSlots>());
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst + use.count * kWords), "r"(at(belt.line[s])), "r"(kBytes) : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      arrive(&belt.stored[s]);
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
