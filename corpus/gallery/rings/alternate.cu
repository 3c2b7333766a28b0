// Ping-pong: two math warpgroups take tiles in turn, an order barrier lets one compute while the other stores.
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
namespace pp {
constexpr int kStages = 4, kSteps = 3, kVals = 512;
__device__ __forceinline__ uint32_t smem_u32(void const* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

template <int Depth>
struct PipelineState {
  int index_ = 0;
  uint32_t phase_ = 0;
  __device__ PipelineState(int index, uint32_t phase) : index_(index), phase_(phase) {}
  __device__ void operator++() {
    if (++index_ == Depth) { index_ = 0; phase_ ^= 1; }
  }
  __device__ void advance(int n) {
    for (int i = 0; i < n; ++i) ++(*this);
  }
};

struct ClusterBarrier {
  uint64_t raw;
  __device__ void init(uint32_t n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_u32(&raw)), "r"(n) : "memory"); }
  __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_u32(&raw)) : "memory"); }
  __device__ void arrive_and_expect_tx(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_u32(&raw)), "r"(bytes) : "memory");
  }
  __device__ void wait(uint32_t phase) {
    asm volatile(
        "{\n"
        ".reg .pred P1;\n"
        "LAB_WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
        "@P1 bra DONE;\n"
        "bra LAB_WAIT;\n"
        "DONE:\n"
        "}" ::"r"(smem_u32(&raw)), "r"(phase) : "memory");
  }
};

struct SharedStorage {
  alignas(128) float tile[kStages][kVals];
  alignas(128) float staging[2][128];
  ClusterBarrier full[kStages];
  ClusterBarrier empty[kStages];
  ClusterBarrier order[2];
};

__device__ __forceinline__ void bulk_load(float* dst, float const* src, uint32_t bytes, ClusterBarrier& bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(smem_u32(dst)), "l"(src), "r"(bytes), "r"(smem_u32(&bar.raw)) : "memory");
}
}  // namespace pp

extern "C" __global__ void __launch_bounds__(384) alternate(float const* in, float* out, int tiles) {
  using namespace pp;
  __shared__ SharedStorage shared;
  int const wg = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      shared.full[i].init(1);
      shared.empty[i].init(4);
    }
    shared.order[0].init(128);
    shared.order[1].init(128);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (wg == 0) {
    if (threadIdx.x == 0) {
      PipelineState<kStages> write(0, 1);
      for (int t = 0; t < tiles; ++t) {
        for (int k = 0; k < kSteps; ++k) {
          shared.empty[write.index_].wait(write.phase_);
          shared.full[write.index_].arrive_and_expect_tx(kVals * 4);
          bulk_load(shared.tile[write.index_], in + (t * kSteps + k) * kVals, kVals * 4, shared.full[write.index_]);
          ++write;
        }
      }
    }
  } else {
    int const me = wg - 1;
    int const lane = threadIdx.x % 128;
    PipelineState<kStages> read(0, 0);
    uint32_t turn = me == 0 ? 1 : 0;
    if (me == 1) read.advance(kSteps);
    for (int t = me; t < tiles; t += 2) {
      shared.order[me].wait(turn);
      float sum = 0;
      for (int k = 0; k < kSteps; ++k) {
        shared.full[read.index_].wait(read.phase_);
        for (int j = lane; j < kVals; j += 128) sum += shared.tile[read.index_][j];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane % 32 == 0) shared.empty[read.index_].arrive();
        ++read;
      }
      shared.order[me ^ 1].arrive();
      turn ^= 1;
      shared.staging[me][lane] = sum;
      asm volatile("bar.sync %0, 128;" ::"r"(1 + me) : "memory");
      out[t * 128 + lane] = shared.staging[me][127 - lane];
      asm volatile("bar.sync %0, 128;" ::"r"(1 + me) : "memory");
      read.advance(kSteps);
    }
  }
}
