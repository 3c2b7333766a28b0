// Two warpgroups hand a tile of scores to a third one through named barriers; enums for the ids.
enum NamedBarriers : int { ScoresFull0 = 1, ScoresFull1, ScoresEmpty0, ScoresEmpty1 };

template <int Id, int Threads>
struct NamedBarrier {
  static __device__ void sync() { asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory"); }
  static __device__ void arrive() { asm volatile("bar.arrive %0, %1;" ::"n"(Id), "n"(Threads) : "memory"); }
};

template <int Half>
using Full = NamedBarrier<ScoresFull0 + Half, 256>;
template <int Half>
using Empty = NamedBarrier<ScoresEmpty0 + Half, 256>;

struct Scores {
  float tile[2][128];
  float row_max[2][128];
};

template <int Half>
__device__ void score_warpgroup(Scores& s, const float* q, int steps) {
  const int t = threadIdx.x % 128;
  for (int i = 0; i < steps; ++i) {
    float v = q[i * 256 + Half * 128 + t];
    Empty<Half>::sync();
    s.tile[Half][t] = v;
    s.row_max[Half][t] = fmaxf(v, 0.f);
    Full<Half>::arrive();
  }
}

__device__ void reduce_warpgroup(Scores& s, float* out, int steps) {
  const int t = threadIdx.x % 128;
  float acc = 0.f;
  Empty<0>::arrive();
  Empty<1>::arrive();
  for (int i = 0; i < steps; ++i) {
    Full<0>::sync();
    acc += s.tile[0][127 - t] - s.row_max[0][(t + 1) % 128];
    if (i + 1 < steps) Empty<0>::arrive();
    Full<1>::sync();
    acc += s.tile[1][127 - t] - s.row_max[1][(t + 1) % 128];
    if (i + 1 < steps) Empty<1>::arrive();
  }
  out[t] = acc;
}

extern "C" __global__ void __launch_bounds__(384) handoff(const float* q, float* out, int steps) {
  __shared__ Scores s;
  if (steps <= 0) return;
  switch (threadIdx.x / 128) {
    case 0: score_warpgroup<0>(s, q, steps); break;
    case 1: score_warpgroup<1>(s, q, steps); break;
    default: reduce_warpgroup(s, out, steps);
  }
}
