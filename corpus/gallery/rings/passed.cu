// Ring attention without mathematics: each block of a cluster hands its tile on to its neighbour, step by step.
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define DEV static __device__ __forceinline__
#define CL 4
#define ELEMS 256
DEV uint32_t sm(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
DEV uint32_t rank_of(void) { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DEV uint32_t remote(const void *p, uint32_t r) { uint32_t a; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(sm(p)), "r"(r)); return a; }
DEV void mb_init(uint64_t *b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(sm(b)), "r"(n) : "memory"); }
DEV void mb_expect(uint64_t *b, int n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(sm(b)), "r"(n) : "memory"); }
DEV void mb_remote_arrive(uint64_t *b, uint32_t r) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote(b, r)) : "memory"); }
DEV void mb_wait(uint64_t *b, uint32_t par) {
  uint32_t ok = 0;
  while (!ok)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(ok) : "r"(sm(b)), "r"(par) : "memory");
}
DEV void load(void *d, const void *s, int n, uint64_t *b) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(sm(d)), "l"(s), "r"(n), "r"(sm(b)) : "memory"); }
DEV void pass_on(void *d, const void *s, int n, uint64_t *b, uint32_t r) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(remote(d, r)), "r"(sm(s)), "r"(n), "r"(remote(b, r)) : "memory");
}
DEV void cluster_sync(void) {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(CL, 1, 1) __launch_bounds__(128) passed(const float *x, float *y) {
  __shared__ __align__(128) float kv[2][ELEMS];
  __shared__ uint64_t arrived[2];
  __shared__ uint64_t may_send[2];
  const uint32_t me = rank_of(), right = (me + 1) % CL, left = (me + CL - 1) % CL;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; i++) {
      mb_init(&arrived[i], 1);
      mb_init(&may_send[i], 129);  // its readers, and who got it passed on
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    mb_expect(&arrived[0], ELEMS * 4);
    load(kv[0], x + (blockIdx.x / CL * CL + me) * ELEMS, ELEMS * 4, &arrived[0]);
    mb_expect(&arrived[1], ELEMS * 4);
  }
  float acc = 0;
  for (int step = 0; step < CL; step++) {
    const int cur = step & 1, nxt = cur ^ 1;
    const uint32_t par = (step >> 1) & 1;
    mb_wait(&arrived[cur], par);
    if (threadIdx.x == 0 && step > 0 && step + 1 < CL) mb_remote_arrive(&may_send[nxt], (left + CL - 1) % CL);
    if (step + 1 < CL && threadIdx.x == 0) {
      if (step > 0) mb_wait(&may_send[nxt], ((step - 1) >> 1) & 1);
      pass_on(kv[nxt], kv[cur], ELEMS * 4, &arrived[nxt], right);
    }
    acc += kv[cur][threadIdx.x] + kv[cur][threadIdx.x + 128];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (step + 2 < CL) {
      if (threadIdx.x == 0) {
        mb_wait(&arrived[nxt], ((step + 1) >> 1) & 1);
        mb_expect(&arrived[cur], ELEMS * 4);
      }
      __syncthreads();
      mb_remote_arrive(&may_send[cur], left);
    }
  }
  y[blockIdx.x * 128 + threadIdx.x] = acc;
  cluster_sync();
}
