// out[r, :] = 2 * a[r, :]: a ring of three stages, one producer thread, four consumer warps, bulk stores.
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

constexpr int STAGES = 3, WIDTH = 512, CONSUMERS = 128;

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void barrier_init(uint64_t* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}

__device__ void barrier_wait(uint64_t* b, int parity) {
  asm volatile(
      "{\n .reg .pred p;\nagain:\n"
      " mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      " @!p bra again;\n}" ::"r"(shared_address(b)), "r"(parity) : "memory");
}

__device__ void barrier_arrive(uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}

__device__ void barrier_expect(uint64_t* b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}

__device__ void copy_in(void* to, const void* from, int bytes, uint64_t* b) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(b)) : "memory");
}

__device__ void copy_out(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(160) ring(const float* a, float* out, int rows) {
  __shared__ alignas(128) float in[STAGES][WIDTH];
  __shared__ alignas(128) float result[WIDTH];
  __shared__ uint64_t full[STAGES];
  __shared__ uint64_t empty[STAGES];
  int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(&full[s], 1);
      barrier_init(&empty[s], CONSUMERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (warp == 4) {
    if (threadIdx.x == 128) {
      for (int r = 0; r < rows; ++r) {
        int s = r % STAGES;
        barrier_wait(&empty[s], (r / STAGES + 1) & 1);
        barrier_expect(&full[s], WIDTH * 4);
        copy_in(in[s], a + r * WIDTH, WIDTH * 4, &full[s]);
      }
    }
  } else {
    for (int r = 0; r < rows; ++r) {
      int s = r % STAGES;
      barrier_wait(&full[s], (r / STAGES) & 1);
      float x[4];
      for (int i = 0; i < 4; ++i) x[i] = in[s][threadIdx.x + 128 * i];
      fence_async();
      barrier_arrive(&empty[s]);
      if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      asm volatile("bar.sync 1, 128;" ::: "memory");
      for (int i = 0; i < 4; ++i) result[threadIdx.x + 128 * i] = 2 * x[i];
      fence_async();
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (threadIdx.x == 0) copy_out(out + r * WIDTH, result, WIDTH * 4);
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
