#include "ptx.cuh"
// One lane edits a tensor map in shared memory, the warp copies it to global memory and publishes it.
// BAD: nothing orders the warp's copy after the edit of one lane.
DEVICE void zero(uint32_t* map) { map[threadIdx.x] = 0; }
DEVICE void edit(void* map, const void* tensor, int width, int height) {
  uint64_t at = shared_address(map);
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"l"(at), "l"(tensor) : "memory");
  asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;" ::"l"(at) : "memory");
  asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"l"(at), "r"(32) : "memory");
  asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"l"(at), "r"(16) : "memory");
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"l"(at), "r"(width) : "memory");
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"l"(at), "r"(height) : "memory");
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"l"(at), "l"(4ll * width) : "memory");
  asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, 1;" ::"l"(at) : "memory");
  asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 1;" ::"l"(at) : "memory");
  asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;" ::"l"(at) : "memory");
}
DEVICE void publish(char* to, void* map) {
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
               ::"l"(to), "r"(shared_address(map)) : "memory");
}
DEVICE void acquire(char* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}
extern "C" __global__ __launch_bounds__(32) void map_edit(const float* from, float* to, int width, int height,
                                                            char* workspace) {
  __shared__ alignas(128) uint32_t map[32];
  __shared__ alignas(128) float tile[512];
  __shared__ uint64_t full;
  char* first = workspace + blockIdx.x * 256;
  char* second = first + 128;
  if (threadIdx.x == 0) { barrier_init(&full, 1); fence_barrier_init(); }
  zero(map);
  __syncwarp();
  if (threadIdx.x == 0) edit(map, from, width, height);
  __syncwarp();
  publish(first, map);
  acquire(first);
  zero(map);
  __syncwarp();
  if (threadIdx.x == 0) edit(map, to, width, height);
#ifndef BAD
  __syncwarp();
#endif
  publish(second, map);
  acquire(second);
  __syncwarp();
  int row = blockIdx.x * 16;
  if (threadIdx.x == 0) {
    arrive_expect(&full, 2048);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared_address(tile)), "l"(first), "r"(0), "r"(row), "r"(shared_address(&full)) : "memory");
    wait(&full, 0);
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(second), "r"(0), "r"(row), "r"(shared_address(tile)) : "memory");
    bulk_commit();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
