// Column sums by a cluster of four blocks: every block adds its rows, rank 0 collects the partial sums of the others.
#include <cooperative_groups.h>
#include <cuda/ptx>
#include <cstdint>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

constexpr int kRanks = 4, kCols = 256, kChunk = 8;
constexpr int kTile = kChunk * kCols * 4;

__device__ inline uint32_t u32addr(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ inline uint32_t on_rank(uint32_t addr, uint32_t rank) {
  uint32_t r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank));
  return r;
}
__device__ inline void send(float* slot, float v, uint64_t* bar, uint32_t rank) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
               :: "r"(on_rank(u32addr(slot), rank)), "r"(__float_as_uint(v)), "r"(on_rank(u32addr(bar), rank)) : "memory");
}
__device__ inline void signal(uint64_t* bar, uint32_t rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(on_rank(u32addr(bar), rank)) : "memory");
}
__device__ inline void wait_here(uint64_t* bar, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, bar, parity)) {}
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(256)
colsum(const float* in, float* out, int panels) {
  __shared__ alignas(128) float tile[kChunk][kCols];
  __shared__ float inbox[kRanks][kCols];
  __shared__ uint64_t tile_here, inbox_full, inbox_free;

  auto cluster = cg::this_cluster();
  const uint32_t rank = cluster.block_rank();
  const int group = blockIdx.x / kRanks;

  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&tile_here, 1);
    ptx::mbarrier_init(&inbox_full, 1);
    ptx::mbarrier_init(&inbox_free, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  cluster.sync();

  for (int p = 0; p < panels; ++p) {
    const float* src = in + ((size_t)(group * panels + p) * kRanks + rank) * kChunk * kCols;
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &tile_here, kTile);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, src, kTile, &tile_here);
      if (rank == 0) ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &inbox_full, (kRanks - 1) * kCols * 4);
    }
    wait_here(&tile_here, p & 1);
    float sum = 0.f;
    for (int r = 0; r < kChunk; ++r) sum += tile[r][threadIdx.x];

    if (rank != 0) {
      if (p > 0) wait_here(&inbox_free, (p - 1) & 1);
      send(&inbox[rank][threadIdx.x], sum, &inbox_full, 0);
    } else {
      wait_here(&inbox_full, p & 1);
      for (int r = 1; r < kRanks; ++r) sum += inbox[r][threadIdx.x];
      out[(size_t)(group * panels + p) * kCols + threadIdx.x] = sum;
    }
    __syncthreads();   // the tile and the inbox are read
    if (rank == 0 && threadIdx.x > 0 && threadIdx.x < kRanks) signal(&inbox_free, threadIdx.x);
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
  }
  cluster.sync();
}
