// Ping-pong: two math warpgroups take tiles in turn, ordered by a class of barriers; one warp loads by bulk copies.
typedef unsigned int u32;
typedef unsigned long long u64;
namespace sync {
__device__ inline u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ inline void init(u64* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(b)), "r"(n) : "memory"); }
__device__ inline void arrive(u64* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(b)) : "memory"); }
__device__ inline void arrive_tx(u64* b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(b)), "r"(n) : "memory"); }
__device__ inline void wait(u64* b, u32 parity) {
  u32 ok = 0;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(ok) : "r"(at(b)), "r"(parity) : "memory");
  } while (ok == 0);
}
}  // namespace sync

struct Order {
  u64 turn[2];
  __device__ void open() { sync::init(&turn[0], 128); sync::init(&turn[1], 128); }
  __device__ void enter(int group, int n) { sync::wait(&turn[group], (n + (group == 0)) & 1); }
  __device__ void leave(int group) { sync::arrive(&turn[group ^ 1]); }
};

struct Storage {
  alignas(128) float tile[2][512];
  float sums[128];
  u64 full[2], empty[2];
  Order order;
};

extern "C" __global__ void __launch_bounds__(288) pingpong_sums(const float* in, float* out, int pairs) {
  __shared__ Storage s;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) sync::init(&s.full[i], 1), sync::init(&s.empty[i], 128);
    s.order.open();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int group = threadIdx.x / 128;
  if (group == 2) {
    if (threadIdx.x == 256) {
      for (int n = 0; n < 2 * pairs; ++n) {
        sync::wait(&s.empty[n & 1], ((n >> 1) & 1) ^ 1);
        sync::arrive_tx(&s.full[n & 1], 2048);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 2048, [%2];"
          ::"r"(sync::at(s.tile[n & 1])), "l"(in + n * 512), "r"(sync::at(&s.full[n & 1])) : "memory");
      }
    }
  } else {
    const int t = threadIdx.x % 128;
    for (int n = 0; n < pairs; ++n) {
      sync::wait(&s.full[group], n & 1);
      float x = s.tile[group][t] + s.tile[group][511 - t];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      sync::arrive(&s.empty[group]);
      s.order.enter(group, n);
      s.sums[t] = (group + n == 0 ? 0.f : s.sums[t]) + x;
      s.order.leave(group);
    }
    if (group == 1) out[t] = pairs > 0 ? s.sums[t] : 0.f;
  }
}
