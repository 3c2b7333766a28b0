// Two consumer groups store their results in a fixed order through one staging row; named barriers keep the order.
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
constexpr int ROW = 256, DEPTH = 2;
enum class Bar : int { Turn0 = 2, Turn1 = 3 };
__device__ __forceinline__ uint32_t addr(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void sync_at(int id) { asm volatile("barrier.sync %0, 256;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void notify(int id) { asm volatile("barrier.arrive %0, 256;" ::"r"(id) : "memory"); }
struct Mbar {
  uint64_t v;
  __device__ __forceinline__ void init(int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(addr(&v)), "r"(n) : "memory"); }
  __device__ __forceinline__ void arm(int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(addr(&v)), "r"(bytes) : "memory"); }
  __device__ __forceinline__ void release() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(addr(&v)) : "memory"); }
  __device__ __forceinline__ void acquire(uint32_t par) {
    asm volatile("{\n.reg .pred ok;\nspin:\nmbarrier.try_wait.parity.shared::cta.b64 ok, [%0], %1;\n@!ok bra spin;\n}" ::"r"(addr(&v)), "r"(par) : "memory");
  }
};
extern "C" __global__ void __launch_bounds__(288) ordered(const float* in, float* out, int pairs) {
  __shared__ alignas(128) float row[2][DEPTH][ROW];
  __shared__ float staging[128];
  __shared__ Mbar filled[2][DEPTH], drained[2][DEPTH];
  if (threadIdx.x == 0)
    for (int g = 0; g < 2; ++g)
      for (int d = 0; d < DEPTH; ++d) {
        filled[g][d].init(1);
        drained[g][d].init(128);
      }
  __syncthreads();
  if (threadIdx.x >= 256) {
    if (threadIdx.x == 256)
      for (int i = 0; i < 2 * pairs; ++i) {
        int g = i % 2, use = i / 2, d = use % DEPTH;
        drained[g][d].acquire((use / DEPTH + 1) & 1);
        filled[g][d].arm(ROW * 4);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(addr(row[g][d])), "l"(in + i * ROW), "r"(ROW * 4), "r"(addr(&filled[g][d].v)) : "memory");
      }
    return;
  }
  const int g = threadIdx.x / 128, t = threadIdx.x % 128;
  if (g == 1) notify((int)Bar::Turn0);
  for (int use = 0; use < pairs; ++use) {
    const int d = use % DEPTH;
    filled[g][d].acquire((use / DEPTH) & 1);
    float v = row[g][d][t] + row[g][d][t + 128];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    drained[g][d].release();
    sync_at(g == 0 ? (int)Bar::Turn0 : (int)Bar::Turn1);
    staging[t] = v;
    asm volatile("barrier.sync %0, 128;" ::"r"(4 + g) : "memory");
    out[(2 * use + g) * 128 + t] = staging[127 - t];
    if (g == 0) notify((int)Bar::Turn1);
    if (g == 1 && use + 1 < pairs) notify((int)Bar::Turn0);
  }
}
