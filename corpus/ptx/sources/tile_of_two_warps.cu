#include <cooperative_groups.h>
// Tiles of two warps exchange words through shared memory and meet by a word in reserved memory.
// BAD: each thread reads a word of the other tile, with which nobody has met.
namespace cg = cooperative_groups;
#ifdef BAD
constexpr int FAR = 127;
#else
constexpr int FAR = 63;
#endif
extern "C" __global__ void tile_of_two_warps(float* rows, int n) {
  __shared__ float row[128];
  auto tile = cg::tiled_partition<64>(cg::this_thread_block());
  for (int i = 0; i < n; ++i) {
    row[threadIdx.x] = rows[i * 128 + threadIdx.x];
    tile.sync();
    rows[i * 128 + threadIdx.x] = row[threadIdx.x ^ FAR];
    tile.sync();
  }
}
