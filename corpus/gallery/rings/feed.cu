// 64 threads copy rows with cp.async and tell an mbarrier; 64 others add them up. Three slots.
typedef unsigned int u32;
typedef unsigned long long u64;
#define INLINE __device__ __forceinline__
constexpr int SLOTS = 3, ROW = 256, HALF = 64;
struct Ring {
  float row[SLOTS][ROW];
  u64 ready[SLOTS];
  u64 empty[SLOTS];
};
INLINE u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
INLINE void setup(u64* bar, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(n) : "memory"); }
INLINE void signal(u64* bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory"); }
INLINE void signal_copies(u64* bar) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at(bar)) : "memory"); }
INLINE bool poll(u64* bar, u32 parity) {
  u32 ok;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(ok) : "r"(at(bar)), "r"(parity) : "memory");
  return ok;
}
INLINE void await(u64* bar, u32 parity) { while (!poll(bar, parity)) {} }
INLINE void copy16(void* dst, const void* src) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(dst)), "l"(src) : "memory"); }

extern "C" __global__ void __launch_bounds__(128) feed(const float* x, float* y, int rows) {
  __shared__ alignas(16) Ring ring;
  if (threadIdx.x < SLOTS) {
    setup(&ring.ready[threadIdx.x], HALF);
    setup(&ring.empty[threadIdx.x], HALF);
  }
  __syncthreads();
  if (threadIdx.x < HALF) {
    u32 phase = 1;
    int slot = 0;
    for (int r = 0; r < rows; ++r) {
      await(&ring.empty[slot], phase);
      copy16(&ring.row[slot][threadIdx.x * 4], x + r * ROW + threadIdx.x * 4);
      signal_copies(&ring.ready[slot]);
      if (++slot == SLOTS) {
        slot = 0;
        phase ^= 1;
      }
    }
  } else {
    u32 phase = 0;
    int slot = 0;
    float sum = 0.f;
    const int lane = threadIdx.x - HALF;
    for (int r = 0; r < rows; ++r) {
      await(&ring.ready[slot], phase);
      for (int j = 0; j < 4; ++j) sum += ring.row[slot][lane + HALF * j];
      signal(&ring.empty[slot]);
      if (++slot == SLOTS) {
        slot = 0;
        phase ^= 1;
      }
    }
    y[lane] = sum;
  }
}
