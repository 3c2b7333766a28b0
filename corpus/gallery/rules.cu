// One kernel for each rule that no other CUDA kernel of the corpus breaks: wrong with BAD defined, right without.
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void barrier_init(uint64_t* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
__device__ void barrier_wait(uint64_t* b, int parity) {
  asm volatile(
      "{\n .reg .pred p;\nagain:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra again;\n}" ::"r"(
          shared_address(b)), "r"(parity) : "memory");
}
__device__ void barrier_arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ void barrier_expect(uint64_t* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
__device__ void copy_in(void* to, const void* from, int bytes, uint64_t* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(b)) : "memory");
}
__device__ void copy_out(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ void copies_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void copies_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void fence_async_all() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ void cluster_sync() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(64) SV102(float* out) {
  __shared__ alignas(128) float tile[64];
#ifdef BAD
  fence_async();
  tile[threadIdx.x] = 1;
#else
  tile[threadIdx.x] = 1;
  fence_async();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    copy_out(out, tile, 256);
    copies_read();
  }
}

extern "C" __global__ void __launch_bounds__(64) SV114(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1;
  __syncthreads();
#ifdef BAD
  out[threadIdx.x] = tile[threadIdx.x + 1];
#else
  out[threadIdx.x] = tile[63 - threadIdx.x];
#endif
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) SV115(float* out) {
  __shared__ float value;
  __shared__ uint64_t ready;
  if (threadIdx.x == 0) {
    barrier_init(&ready, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    uint32_t peer, theirs;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(shared_address(&ready)), "r"(blockIdx.x % 2 ^ 1));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(shared_address(&value)), "r"(blockIdx.x % 2 ^ 1));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(theirs), "f"(1.0f) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer) : "memory");
  }
#ifdef BAD
  barrier_wait(&ready, 0);
#else
  asm volatile(
      "{\n .reg .pred p;\nagain:\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\n @!p bra again;\n}" ::"r"(
          shared_address(&ready)) : "memory");
#endif
  out[blockIdx.x * 32 + threadIdx.x] = value;
  cluster_sync();
}

extern "C" __global__ void __launch_bounds__(64) SV205(float* out) {
  __shared__ uint64_t done;
  if (threadIdx.x == 0) barrier_init(&done, blockDim.x);
  __syncthreads();
  barrier_arrive(&done);
  barrier_wait(&done, 0);
#ifndef BAD
  __syncthreads();
#endif
  if (threadIdx.x == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&done)) : "memory");
  out[threadIdx.x] = 1;
}

extern "C" __global__ void __launch_bounds__(32) SV207(float* out) {  // refuted by --policy strict
  __shared__ uint64_t step;
  if (threadIdx.x == 0) {
    barrier_init(&step, 1);
    barrier_arrive(&step);
#ifndef BAD
    barrier_wait(&step, 0);
#endif
    barrier_arrive(&step);
  }
  out[threadIdx.x] = 1;
}

extern "C" __global__ void __launch_bounds__(32) SV209(const float* a, float* out) {
  __shared__ alignas(128) float tile[32];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) barrier_init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_expect(&full, 128);
    copy_in(tile, a, 128, &full);
  }
#ifdef BAD
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n}" ::"r"(shared_address(&full)) : "memory");
#else
  barrier_wait(&full, 0);
#endif
  out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(128) SV302(float* out) {
  __shared__ uint64_t done;
  if (threadIdx.x == 0) barrier_init(&done, 64);
  __syncthreads();
  if (threadIdx.x < 64) {
    __syncthreads();
    barrier_arrive(&done);
  } else {
#ifndef BAD
    __syncthreads();
#endif
    barrier_wait(&done, 0);
  }
  out[threadIdx.x] = 1;
}

extern "C" __global__ void __launch_bounds__(128) SV304(float* out) {
#ifdef BAD
  if (threadIdx.x < 64) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#else
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
  out[threadIdx.x] = 1;
}

extern "C" __global__ void __launch_bounds__(64) SV403(const float* a, float* out, int rows) {
  __shared__ alignas(128) float tile[64];
  for (int r = 0; r < 2; ++r) {
    tile[threadIdx.x] = a[64 * r + threadIdx.x];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 32) copy_out(out + 64 * r, tile, 256);
#ifdef BAD
    if (threadIdx.x == 0) copies_read();
#else
    if (threadIdx.x == 32) copies_read();
#endif
    __syncthreads();
  }
  if (threadIdx.x == 32) copies_read();
}

extern "C" __global__ void __launch_bounds__(64) SV501(float* data, unsigned* flag, float* out) {
  __shared__ alignas(128) float tile[64];
  if (blockIdx.x == 0) {
    tile[threadIdx.x] = 1;
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      copy_out(data, tile, 256);
#ifdef BAD
      copies_read();
#else
      copies_done();
      asm volatile("fence.proxy.async;" ::: "memory");
#endif
      asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
    }
  } else {
    if (threadIdx.x == 0) {
      unsigned seen;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
      while (seen == 0);
    }
    __syncthreads();
    out[threadIdx.x] = data[threadIdx.x];
  }
}

extern "C" __global__ void __launch_bounds__(64) SV503(const float* earlier, float* out) {
  __shared__ float tile[64];
#ifdef BAD
  tile[threadIdx.x] = earlier[threadIdx.x];
  asm volatile("griddepcontrol.wait;" ::: "memory");
#else
  asm volatile("griddepcontrol.wait;" ::: "memory");
  tile[threadIdx.x] = earlier[threadIdx.x];
#endif
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(64) SV504(float* sum) {
  __shared__ alignas(128) float tile[64];
  tile[threadIdx.x] = 1;
  fence_async();
  __syncthreads();
#ifdef BAD
  if (blockIdx.x == 1) atomicAdd(&sum[threadIdx.x], 1.0f);
#endif
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(sum), "r"(
                     shared_address(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    copies_read();
  }
}

extern "C" __global__ void __launch_bounds__(64) SV601(float* out) {
  __shared__ alignas(128) float tile[64];
  tile[threadIdx.x] = 1;
#ifdef BAD
  fence_async_all();
#else
  fence_async();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    copy_out(out, tile, 256);
    copies_read();
  }
}

extern "C" __global__ void __launch_bounds__(64) SV602(float* out) {
  __shared__ alignas(128) float tile[64];
  tile[threadIdx.x] = 1;
  fence_async();
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef BAD
    fence_async();
#endif
    copy_out(out, tile, 256);
    copies_read();
  }
}

extern "C" __global__ void __launch_bounds__(64) SV603(const float* a, float* out) {
  __shared__ alignas(128) float tile[4][64];
#pragma unroll 1
  for (int r = 0; r < 4; ++r) {
    tile[r][threadIdx.x] = a[64 * r + threadIdx.x];
#ifdef BAD
    fence_async();
#endif
  }
#ifndef BAD
  fence_async();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    copy_out(out, tile, 1024);
    copies_read();
  }
}

extern "C" __global__ void __launch_bounds__(64) SV604(float* out) {
  __shared__ alignas(128) float tile[32];
  if (threadIdx.x < 32) tile[threadIdx.x] = 1;
#ifdef BAD
  fence_async();
#else
  if (threadIdx.x < 32) fence_async();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    copy_out(out, tile, 128);
    copies_read();
  }
}

extern "C" __global__ void __launch_bounds__(64) SV605(float* out) {
  __shared__ alignas(128) float tile[64];
  tile[threadIdx.x] = 1;
#ifndef BAD
  fence_async();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef BAD
    fence_async();
#endif
    copy_out(out, tile, 256);
    copies_read();
  }
}

extern "C" __global__ void __launch_bounds__(64) SV606(const float* a, float* out) {
  __shared__ alignas(128) float tile[2][64];
  for (int r = 0; r < 4; ++r) {
    tile[r % 2][threadIdx.x] = a[64 * r + threadIdx.x];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      copy_out(out + 64 * r, tile[r % 2], 256);
#ifdef BAD
      copies_read();
#else
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
#endif
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) copies_read();
}

extern "C" __global__ void __launch_bounds__(64) SV901(const int* which, float* out) {
  __shared__ float tile[64];
#ifdef BAD
  if (which[threadIdx.x / 32] > 0) __syncthreads();
#else
  __syncthreads();
#endif
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(64) SV905(float* out) {
#ifdef BAD
  out[threadIdx.x] = 1;
#else
  __shared__ float tile[64];
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
#endif
}

extern "C" __global__ void __launch_bounds__(64) SV908(const float* a, float* out, int n) {
  __shared__ alignas(128) float tile[64];
  __shared__ uint64_t full;
#ifndef BAD
  if (n <= 0) return;
#endif
  if (threadIdx.x == 0) barrier_init(&full, 1);
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x == 0) {
      barrier_expect(&full, 256);
      copy_in(tile, a + 64 * i, 256, &full);
    }
    if (i + 1 < n) barrier_wait(&full, i & 1);
    __syncthreads();
  }
  barrier_wait(&full, (n - 1) & 1);
  out[threadIdx.x] = tile[threadIdx.x];
}
