// Two passes over a row that comes in pieces: mean first, then the centered values; a copy warp feeds both passes.
#include <cstdint>
namespace pipe {
struct Where {
  int slot = 0;
  uint32_t lap = 0;
  template <int N> __device__ void step() {
    if (++slot == N) { slot = 0; lap ^= 1; }
  }
};
__device__ __forceinline__ uint32_t at(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
template <int N>
class Pieces {
  uint64_t full_[N], empty_[N];
 public:
  struct Config { uint32_t producers, consumers; };
  __device__ void setup(const Config& c) {
    for (int i = 0; i < N; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(&full_[i])), "r"(c.producers) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(&empty_[i])), "r"(c.consumers) : "memory");
    }
  }
  __device__ void acquire(const Where& w) { block(&empty_[w.slot], w.lap ^ 1); }
  __device__ void load(const Where& w, void* dst, const void* src, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&full_[w.slot])), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(at(dst)), "l"(src), "r"(bytes), "r"(at(&full_[w.slot])) : "memory");
  }
  __device__ void await(const Where& w) { block(&full_[w.slot], w.lap); }
  __device__ void release(const Where& w) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&empty_[w.slot])) : "memory");
  }
 private:
  __device__ static void block(uint64_t* b, uint32_t parity) {
    asm volatile("{\n.reg .pred ok;\nspin: mbarrier.try_wait.parity.shared::cta.b64 ok, [%0], %1;\n@!ok bra spin;\n}" ::"r"(at(b)), "r"(parity) : "memory");
  }
};
}  // namespace pipe

constexpr int PIECE = 256, SLOTS = 3, WORKERS = 256;
extern "C" __global__ void __launch_bounds__(WORKERS + 32) norm2(const float* x, float* y, int pieces) {
  __shared__ alignas(128) float data[SLOTS][PIECE];
  __shared__ pipe::Pieces<SLOTS> ring;
  __shared__ float part[WORKERS / 32];
  const float* row = x + (size_t)blockIdx.x * pieces * PIECE;
  if (threadIdx.x == 0) ring.setup({1, WORKERS / 32});
  __syncthreads();
  pipe::Where w;
  if (threadIdx.x >= WORKERS) {
    if (threadIdx.x == WORKERS) {
      for (int pass = 0; pass < 2; ++pass)
        for (int p = 0; p < pieces; ++p) {
          ring.acquire(w);
          ring.load(w, data[w.slot], row + p * PIECE, PIECE * 4);
          w.step<SLOTS>();
        }
    }
  } else {
    float sum = 0.f;
    for (int p = 0; p < pieces; ++p) {
      ring.await(w);
      sum += data[w.slot][threadIdx.x];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (threadIdx.x % 32 == 0) ring.release(w);
      w.step<SLOTS>();
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    asm volatile("bar.sync 2, 256;" ::: "memory");
    float mean = 0.f;
    for (int i = 0; i < WORKERS / 32; ++i) mean += part[i];
    mean /= pieces * PIECE;
    for (int p = 0; p < pieces; ++p) {
      ring.await(w);
      const float v = data[w.slot][threadIdx.x];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (threadIdx.x % 32 == 0) ring.release(w);
      w.step<SLOTS>();
      y[((size_t)blockIdx.x * pieces + p) * PIECE + threadIdx.x] = v - mean;
    }
  }
}
