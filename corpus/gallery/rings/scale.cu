// Pipeline class as CUTLASS has it: a template with shared storage, states for both sides.
#include <cuda/std/cstdint>
using u32 = cuda::std::uint32_t;
using u64 = cuda::std::uint64_t;

__device__ inline u32 saddr(const void* p) { return (u32)__cvta_generic_to_shared(p); }

struct TransactionBarrier {
  u64 word;
  __device__ void init(u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(saddr(&word)), "r"(n)); }
  __device__ void wait(u32 parity) {
    asm volatile(
        "{\n .reg .pred P1;\nLAB_WAIT:\n mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n @P1 bra DONE;\n bra LAB_WAIT;\nDONE:\n}"
        ::"r"(saddr(&word)), "r"(parity) : "memory");
  }
  __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(saddr(&word)) : "memory"); }
  __device__ void arrive_and_expect(u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(saddr(&word)), "r"(bytes) : "memory");
  }
};

template <int Stages>
struct PipeState {
  int slot = 0;
  u32 phase = 0;
  __device__ PipeState(u32 p) : phase(p) {}
  __device__ void next() {
    if (++slot == Stages) {
      slot = 0;
      phase ^= 1;
    }
  }
};

template <int Stages, int TileBytes>
struct BulkPipeline {
  struct Storage {
    TransactionBarrier full[Stages];
    TransactionBarrier empty[Stages];
  };
  Storage& st;
  __device__ BulkPipeline(Storage& s, int consumers) : st(s) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Stages; ++i) {
        st.full[i].init(1);
        st.empty[i].init(consumers);
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }
  __device__ void producer_acquire(const PipeState<Stages>& w) {
    st.empty[w.slot].wait(w.phase);
    st.full[w.slot].arrive_and_expect(TileBytes);
  }
  __device__ void consumer_wait(const PipeState<Stages>& r) { st.full[r.slot].wait(r.phase); }
  __device__ void consumer_release(const PipeState<Stages>& r) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if ((threadIdx.x & 31) == 0) st.empty[r.slot].arrive();
  }
};

constexpr int kStages = 3;
constexpr int kTile = 256;
constexpr int kConsumerWarps = 4;

struct alignas(128) Smem {
  float data[kStages][kTile];
  typename BulkPipeline<kStages, kTile * 4>::Storage pipe;
};

extern "C" __global__ void __launch_bounds__(160) scale_rows(const float* in, float* out, int tiles) {
  __shared__ Smem sm;
  BulkPipeline<kStages, kTile * 4> pipe(sm.pipe, kConsumerWarps);
  const int warp = threadIdx.x / 32;
  if (warp == kConsumerWarps) {
    if (threadIdx.x % 32 == 0) {
      PipeState<kStages> w(1);
      for (int t = 0; t < tiles; ++t) {
        pipe.producer_acquire(w);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(saddr(sm.data[w.slot])), "l"(in + t * kTile), "r"(kTile * 4), "r"(saddr(&sm.pipe.full[w.slot])) : "memory");
        w.next();
      }
    }
  } else {
    PipeState<kStages> r(0);
    for (int t = 0; t < tiles; ++t) {
      pipe.consumer_wait(r);
      float a = sm.data[r.slot][threadIdx.x];
      float b = sm.data[r.slot][threadIdx.x + 128];
      pipe.consumer_release(r);
      out[t * 128 + threadIdx.x] = a * 0.5f + b;
      r.next();
    }
  }
}
