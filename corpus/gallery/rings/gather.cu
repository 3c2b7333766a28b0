// A cluster of four: each block sums a slice of every row; in turn one of them reads the four parts and writes the total.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128) gather(const float* in, float* out, int rows, int width) {
  __shared__ float warp_sum[4];
  __shared__ float part[2];
  cg::cluster_group cl = cg::this_cluster();
  const int me = cl.block_rank(), slice = width / 4;
  const float* mine = in + (size_t)(blockIdx.x / 4) * rows * width + me * slice;
  for (int r = 0; r < rows; ++r) {
    float s = 0.f;
    for (int i = threadIdx.x; i < slice; i += 128) s += mine[(size_t)r * width + i];
    for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
    if (threadIdx.x % 32 == 0) warp_sum[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) part[r & 1] = warp_sum[0] + warp_sum[1] + warp_sum[2] + warp_sum[3];
    cl.sync();
    if (me == (r & 3) && threadIdx.x == 0) {
      float total = 0.f;
      for (int b = 0; b < 4; ++b) total += *cl.map_shared_rank(&part[r & 1], b);
      out[(blockIdx.x / 4) * rows + r] = total;
    }
  }
  cl.sync();
}
