// Output through bulk stores: two staging buffers, one thread stores, reads of the one before last are waited for.
#define NT 96
class BulkWriter {
 public:
  __device__ explicit BulkWriter(float* out) : out_(out) {}
  __device__ void before_fill() {
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    __syncthreads();
  }
  __device__ void publish(float* stage, int tile) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned s = (unsigned)__cvta_generic_to_shared(stage);
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out_ + tile * NT * 4), "r"(s), "r"(NT * 16) : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
  __device__ void finish() {
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }

 private:
  float* out_;
};

extern "C" __global__ void __launch_bounds__(NT) square(const float* in, float* out, int tiles) {
  __shared__ alignas(16) float stage[2][NT * 4];
  BulkWriter writer(out);
  int flip = 0;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    writer.before_fill();
    for (int j = 0; j < 4; ++j) {
      float v = in[t * NT * 4 + j * NT + threadIdx.x];
      stage[flip][j * NT + threadIdx.x] = v * v;
    }
    writer.publish(stage[flip], t);
    flip ^= 1;
  }
  writer.finish();
}
