// Row maximum, then exponentials: a loader warpgroup copies with cp.async, two others each take half of the columns
// and tell each other their maxima through shared memory and a named barrier.
#include <cstdint>
enum { WG = 128, STAGES = 2, WIDTH = 512 };
enum NamedBarrier { EXCHANGE = 1, DRAIN = 2 };

struct Bar {
  uint64_t bits;
  __device__ uint32_t a() const { return (uint32_t)__cvta_generic_to_shared(&bits); }
  __device__ void create(int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(a()), "r"(n)); }
  __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(a()) : "memory"); }
  __device__ void arrive_when_copied() { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(a()) : "memory"); }
  __device__ bool poll(uint32_t parity) {
    uint32_t ok;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(ok) : "r"(a()), "r"(parity) : "memory");
    return ok;
  }
  __device__ void block_until(uint32_t parity) { while (!poll(parity)); }
};

// Which stage, and which time round.
class Cursor {
  uint32_t n = 0;
 public:
  __device__ uint32_t stage() const { return n % STAGES; }
  __device__ uint32_t round() const { return (n / STAGES) & 1; }
  __device__ void next() { n++; }
};

__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ void named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }

extern "C" __global__ void __launch_bounds__(3 * WG) rowmax(const float* in, float* out, int rows) {
  __shared__ alignas(16) float line[STAGES][WIDTH];
  __shared__ float best[2][4];
  __shared__ Bar full[STAGES], empty[STAGES];
  const int role = threadIdx.x / WG, me = threadIdx.x % WG;
  if (threadIdx.x == 0)
    for (int s = 0; s < STAGES; s++) {
      full[s].create(WG);
      empty[s].create(2 * WG);
    }
  __syncthreads();

  const float* src = in + (size_t)blockIdx.x * rows * WIDTH;
  float* dst = out + (size_t)blockIdx.x * rows * WIDTH;
  Cursor at;
  if (role == 0) {
    for (int r = 0; r < rows; r++, at.next()) {
      empty[at.stage()].block_until(at.round() ^ 1);
      copy16(&line[at.stage()][me * 4], src + (size_t)r * WIDTH + me * 4);
      full[at.stage()].arrive_when_copied();
    }
    return;
  }
  const int side = role - 1;
  for (int r = 0; r < rows; r++, at.next()) {
    full[at.stage()].block_until(at.round());
    float2 v = *(float2*)&line[at.stage()][side * 256 + me * 2];
    empty[at.stage()].arrive();
    float m = fmaxf(v.x, v.y);
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    if (me % 32 == 0) best[side][me / 32] = m;
    named_sync(EXCHANGE, 2 * WG);
    for (int i = 0; i < 4; i++) m = fmaxf(m, fmaxf(best[0][i], best[1][i]));
    named_sync(DRAIN, 2 * WG);
    float2 e = make_float2(__expf(v.x - m), __expf(v.y - m));
    *(float2*)&dst[(size_t)r * WIDTH + side * 256 + me * 2] = e;
  }
}
