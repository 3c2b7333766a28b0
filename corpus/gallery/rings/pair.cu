#include "barrier.cuh"
// y[t] = x[t] . w[t] sums, two operands in each stage; two consumer warpgroups share each tile; the row goes out by a bulk store.
constexpr int kStages = 4, kTile = 1024, kGroup = 128;
struct Storage {
  alignas(128) float x[kStages][kTile];
  alignas(128) float w[kStages][kTile];
  alignas(128) float y[2 * kGroup];
  Barrier ready[kStages];
  Barrier drained[kStages];
};
extern "C" __global__ void __launch_bounds__(384) pair(const float* x, const float* w, float* y, int tiles) {
  extern __shared__ __align__(128) unsigned char raw[];
  Storage& s = *reinterpret_cast<Storage*>(raw);
  const int group = threadIdx.x / kGroup;
  const int me = threadIdx.x - kGroup;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      s.ready[i].init(1);
      s.drained[i].init(2);
    }
  }
  __syncthreads();
  if (group == 0) {
    reg_dec<40>();
    if (threadIdx.x == 0) {
      for (int t = 0; t < tiles; t++) {
        const int slot = t % kStages;
        s.drained[slot].wait(((t / kStages) & 1) ^ 1);
        s.ready[slot].expect(2 * kTile * sizeof(float));
        load_row(s.x[slot], x + t * kTile, kTile * sizeof(float), s.ready[slot]);
        load_row(s.w[slot], w + t * kTile, kTile * sizeof(float), s.ready[slot]);
      }
    }
  } else {
    reg_inc<232>();
    for (int t = 0; t < tiles; t++) {
      const int slot = t % kStages;
      s.ready[slot].wait((t / kStages) & 1);
      float acc = 0.f;
      for (int i = me; i < kTile; i += 2 * kGroup) acc += s.x[slot][i] * s.w[slot][i];
      fence_view_async();
      if (group == 1) group_sync<1, kGroup>(); else group_sync<2, kGroup>();
      if (me % kGroup == 0) s.drained[slot].arrive();
      if (me == 0) store_wait_read<0>();
      group_sync<3, 2 * kGroup>();
      s.y[me] = acc;
      fence_view_async();
      group_sync<3, 2 * kGroup>();
      if (me == 0) {
        store_row(y + t * 2 * kGroup, s.y, sizeof(s.y));
        store_commit();
      }
    }
    if (me == 0) store_wait<0>();
  }
}
