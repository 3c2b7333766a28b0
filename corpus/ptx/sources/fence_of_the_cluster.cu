#include "ptx.cuh"
// Blocks of a pair exchange words: a fence, and a relaxed arrival at the cluster's barrier.
// BAD: the fence has the scope of the block, so the other block need not see what came before it.
extern "C" __global__ void fence_of_the_cluster(int* out) {
  __shared__ int words[64];
  int t = threadIdx.x;
  words[t] = t;
#ifdef BAD
  asm volatile("fence.acq_rel.cta;" ::: "memory");
#else
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
#endif
  cluster_arrive_relaxed();
  cluster_wait();
  uint32_t here = static_cast<uint32_t>(__cvta_generic_to_shared(&words[63 - t]));
  int x;
  asm volatile("{.reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.u32 %0, [a];}"
               : "=r"(x) : "r"(here), "r"(cluster_rank() ^ 1) : "memory");
  out[blockIdx.x * 64 + t] = x;
  cluster_arrive();
  cluster_wait();
}
