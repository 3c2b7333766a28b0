// Two rings that are objects of a header, one producer thread, four warps that read.
#include "dev.cuh"
constexpr int KV = 2, ROW = 256, READERS = 128;
struct Smem {
  alignas(128) float q[ROW];
  alignas(128) float k[KV][ROW];
  alignas(128) float v[KV][ROW];
  alignas(128) float o[ROW];
  Mbar q_in;
  Lane<KV> ks, vs;
};
struct Args { const float* q; const float* k; const float* v; float* o; int heads, blocks; };

D void load_head(Smem& sm, const Args& a, int h, Cursor<KV>& kc, Cursor<KV>& vc) {
  for (int j = 0; j < a.blocks; ++j) {
    fetch(sm.k[kc.slot], a.k + (h * a.blocks + j) * ROW, ROW * 4, sm.ks.acquire(kc, ROW * 4));
    kc.step();
    fetch(sm.v[vc.slot], a.v + (h * a.blocks + j) * ROW, ROW * 4, sm.vs.acquire(vc, ROW * 4));
    vc.step();
  }
}
D void producer(Smem& sm, const Args& a) {
  Cursor<KV> kc, vc;
  sm.q_in.expect(ROW * 4);
  fetch(sm.q, a.q, ROW * 4, sm.q_in);
  for (int h = 0; h < a.heads; ++h) load_head(sm, a, h, kc, vc);
}
D float score(Smem& sm, Cursor<KV>& kc) {
  sm.ks.consume(kc);
  float s = sm.q[threadIdx.x] * sm.k[kc.slot][threadIdx.x + 128];
  sm.ks.release(kc);
  kc.step();
  return s;
}
D float weigh(Smem& sm, Cursor<KV>& vc, float s) {
  sm.vs.consume(vc);
  float r = s * sm.v[vc.slot][threadIdx.x];
  sm.vs.release(vc);
  vc.step();
  return r;
}
D void epilogue(Smem& sm, const Args& a, int h, float acc) {
  if (threadIdx.x == 0) store_drained();
  math_meet();
  sm.o[threadIdx.x] = acc;
  sm.o[threadIdx.x + 128] = acc + 1;
  publish();
  math_meet();
  if (threadIdx.x == 0) write_back(a.o + h * ROW, sm.o, ROW * 4);
}
D void math(Smem& sm, const Args& a) {
  Cursor<KV> kc, vc;
  sm.q_in.await(0);
  for (int h = 0; h < a.heads; ++h) {
    float acc = 0;
    for (int j = 0; j < a.blocks; ++j) acc += weigh(sm, vc, score(sm, kc));
    epilogue(sm, a, h, acc);
  }
  if (threadIdx.x == 0) store_done();
}
extern "C" __global__ void __launch_bounds__(160) attn(const float* q, const float* k, const float* v, float* o, int heads, int blocks) {
  __shared__ Smem sm;
  Args a{q, k, v, o, heads, blocks};
  if (threadIdx.x == 0) {
    sm.q_in.setup(1);
    sm.ks.setup(READERS);
    sm.vs.setup(READERS);
    inits_visible();
  }
  __syncthreads();
  if (threadIdx.x / 32 == 4) {
    if (threadIdx.x % 32 == 0) producer(sm, a);
  } else {
    math(sm, a);
  }
}
