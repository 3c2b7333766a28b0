#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
// Tiles of two warps add up their rows, and the block adds up the sums of the tiles.
// BAD: only the threads of a tile meet before all sums are read.
namespace cg = cooperative_groups;
extern "C" __global__ void tile_reduction(float* rows, int n) {
  __shared__ float sums[2];
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<64>(block);
  for (int i = 0; i < n; ++i) {
    float sum = cg::reduce(tile, rows[i * 128 + threadIdx.x], cg::plus<float>());
    if (tile.thread_rank() == 0) sums[tile.meta_group_rank()] = sum;
#ifdef BAD
    tile.sync();
#else
    block.sync();
#endif
    rows[i * 128 + threadIdx.x] = sums[0] + sums[1];
    block.sync();
  }
}
