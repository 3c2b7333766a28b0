// Cluster of two: the second block reads what the first one staged, through distributed shared memory, in rounds.
#include <cooperative_groups.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;

constexpr int kThreads = 64;

struct Exchange {
  float stage[2][kThreads];
  float partial[kThreads];
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads) swap_halves(const float* x, float* y, int rounds) {
  __shared__ Exchange ex;
  __shared__ cuda::barrier<cuda::thread_scope_block> local;
  cg::cluster_group all = cg::this_cluster();
  const unsigned me = all.block_rank();
  if (threadIdx.x == 0) init(&local, kThreads);
  __syncthreads();
  const Exchange* other = all.map_shared_rank(&ex, me ^ 1);
  for (int r = 0; r < rounds; ++r) {
    ex.partial[threadIdx.x] = x[(r * 2 + me) * kThreads + threadIdx.x];
    local.arrive_and_wait();
    ex.stage[r & 1][threadIdx.x] = ex.partial[(threadIdx.x + 1) % kThreads];
    local.arrive_and_wait();
    all.sync();
    y[(r * 2 + me) * kThreads + threadIdx.x] = other->stage[r & 1][kThreads - 1 - threadIdx.x];
  }
  all.sync();
}
