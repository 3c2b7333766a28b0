// Thin names over PTX for blocks that reach beyond themselves, and for copies that are no bulk copies.

// ---- what will be read soon comes to L2
__device__ __forceinline__ void bulk_prefetch(const void* from, uint32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_prefetch_streaming(const void* from, uint32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;"
               ::"l"(__cvta_generic_to_global(from)), "r"(bytes), "l"(evict_first()) : "memory");
}

// ---- cp.async
template <int Bytes> __device__ __forceinline__ void cp_async(void* to, const void* from) {
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "n"(Bytes) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ __forceinline__ void cp_async_mbarrier_arrive(uint64* bar) {
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ __forceinline__ void cp_async_mbarrier_arrive_noinc(uint64* bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(bar)) : "memory");
}

// ---- blocks of a cluster
__device__ __forceinline__ int cluster_rank() { uint32 r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return int(r); }
__device__ __forceinline__ uint32 remote(const void* p, int rank) {
  uint32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
  return there;
}
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
__device__ __forceinline__ void mbarrier_wait_cluster(uint64* bar, uint32 parity) {
  uint32 yes = 0;
  while (!yes)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(yes) : "r"(shared_address(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_cluster(uint32 bar) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
// at the scope of a block: it orders completed copies, and costs no memory fence
__device__ __forceinline__ void mbarrier_arrive_remote(uint32 bar) {
  asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void st_remote(uint32 to, float x) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}
__device__ __forceinline__ void st_async(uint32 to, float x, uint32 bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(__float_as_uint(x)), "r"(bar) : "memory");
}

// ---- blocks of a grid, and grids
template <class T> __device__ __forceinline__ void bulk_reduce_add(T* to, const void* from, uint32 bytes);
template <> __device__ __forceinline__ void bulk_reduce_add(float* to, const void* from, uint32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
               ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
}
template <> __device__ __forceinline__ void bulk_reduce_add(bf16* to, const void* from, uint32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;"
               ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void semaphore_add(uint32* at, uint32 n) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(at)), "r"(n) : "memory");
}
__device__ __forceinline__ void semaphore_wait(const uint32* at, uint32 n) {
  uint32 seen;
  do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(__cvta_generic_to_global(at)) : "memory");
  while (seen < n);
}
__device__ __forceinline__ void semaphore_set(uint32* at, uint32 n) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(at)), "r"(n) : "memory");
}
__device__ __forceinline__ void griddep_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void griddep_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
