// One call of the causal backward pass of attention on Hopper: its memory, tensor maps and three launches.
#include "compiler/codegen/cuda/attention/attention.h"

#include "compiler/codegen/cuda/source/module.h"
#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::compiler::cuda {

namespace {
constexpr int kKeys = 128;  // per tile
// Queries per step of a tile.
int step_queries(const AttentionShape& shape) { return static_cast<int>(8192 / shape.size); }

// The kernels' parameter; matches Args of their source.
struct HopperArgs {
  CUtensorMap q, k, v, g;
  const void *o, *grad, *lse;
  float *rows, *dq, *dk, *dv;
  void *dq_out, *dk_out, *dv_out;
  HeadView os, gs, dqs, dks, dvs;
  int *ticket, *turns, *key_turns;
  int batch, heads, kv_heads, tokens;
  float scale;
};

// Panels of 64 columns and `rows` tokens of one head, swizzled by 128 bytes.
CUtensorMap map_of(void* at, const HeadView& view, const AttentionShape& shape, int64_t heads, int rows) {
  CUtensorMap map;
  const cuuint64_t dims[4] = {static_cast<cuuint64_t>(shape.size), static_cast<cuuint64_t>(heads),
                              static_cast<cuuint64_t>(shape.queries), static_cast<cuuint64_t>(shape.batch)};
  const cuuint64_t strides[3] = {static_cast<cuuint64_t>(view.head) * 2,
                                 static_cast<cuuint64_t>(view.token) * 2,
                                 static_cast<cuuint64_t>(view.batch) * 2};
  const cuuint32_t box[4] = {64, 1, static_cast<cuuint32_t>(rows), 1}, ones[4] = {1, 1, 1, 1};
  check(driver().TensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, at, dims, strides, box, ones,
                                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        str("tensor map of ", attention_text(shape)));
  return map;
}

class HopperAttention : public LibraryCall {
 public:
  HopperAttention(CudaDevice& device, const AttentionShape& shape, const std::string& cache_dir, int lanes)
      : shape_(shape) {
    const std::string source = hopper_attention_source(shape.size, lanes);
    text_ = str("Hopper's tiles ", attention_text(shape), " ", hash_hex(source), " deterministic, in turns");
    const int64_t tiles = shape.queries / kKeys, blocks = shape.queries / 64;
    launches_ = {{"sdpa_rows", shape.batch * shape.heads * shape.queries / 8, 0},
                 {"sdpa_tiles", shape.batch * shape.heads * tiles, kHopperAttentionBytes, 384},
                 {"sdpa_results", shape.batch * (shape.heads + 2 * shape.kv_heads) * blocks, 0}};
    check_launches(launches_);
    device.enter();
    kernels_ = kernels_of(launches_, source_module(device, source, cache_dir,
                                                   {device.target() + "a", hopper_attention_flags()}));
  }
  size_t workspace(int) const override { return place(nullptr, nullptr); }
  void enqueue(void* const* args, void* workspace, Stream& stream, int) const override {
    const AttentionPointers p = attention_pointers(shape_, args);
    const int rows = step_queries(shape_);
    HopperArgs packed{};
    packed.q = map_of(p.q, shape_.q, shape_, shape_.heads, rows);
    packed.k = map_of(p.k, shape_.k, shape_, shape_.kv_heads, kKeys);
    packed.v = map_of(p.v, shape_.v, shape_, shape_.kv_heads, kKeys);
    packed.g = map_of(p.grad, shape_.grad, shape_, shape_.heads, rows);
    packed.o = p.o, packed.grad = p.grad, packed.lse = p.lse;
    packed.dq_out = p.dq, packed.dk_out = p.dk, packed.dv_out = p.dv;
    packed.os = shape_.o, packed.gs = shape_.grad;
    packed.dqs = shape_.dq, packed.dks = shape_.dk, packed.dvs = shape_.dv;
    packed.batch = static_cast<int>(shape_.batch), packed.tokens = static_cast<int>(shape_.queries);
    packed.heads = static_cast<int>(shape_.heads), packed.kv_heads = static_cast<int>(shape_.kv_heads);
    packed.scale = static_cast<float>(shape_.scale);
    place(&packed, static_cast<std::byte*>(workspace));
    enqueue_launches(launches_, kernels_, &packed, stream);
  }
  std::string algorithm() const override { return text_; }
  double flops() const override { return attention_flops(shape_); }

 private:
  // Places the sums, the per-query numbers and the turns in `base` one after another, and returns their
  // bytes.
  size_t place(HopperArgs* args, std::byte* base) const {
    size_t at = 0;
    auto take = [&](auto** to, int64_t count) {
      if (to) *to = reinterpret_cast<std::remove_reference_t<decltype(*to)>>(base + at);
      at += (static_cast<size_t>(count) * 4 + 255) / 256 * 256;
    };
    const int64_t queries = shape_.batch * shape_.heads * shape_.queries,
                  keys = shape_.batch * shape_.kv_heads * shape_.keys;
    take(args ? &args->rows : nullptr, 2 * queries);
    take(args ? &args->dq : nullptr, queries * shape_.size);
    take(args ? &args->dk : nullptr, keys * shape_.size);
    take(args ? &args->dv : nullptr, keys * shape_.size);
    take(args ? &args->ticket : nullptr, 1);
    take(args ? &args->turns : nullptr, queries / step_queries(shape_));
    take(args ? &args->key_turns : nullptr, keys / 64);
    return at;
  }

  AttentionShape shape_;
  std::vector<AttentionLaunch> launches_;
  std::string text_;
  std::vector<SourceKernel> kernels_;  // one per launch
};
}  // namespace

std::string unfit_for_hopper(const AttentionShape& s, const Properties& device) {
  const AttentionReads& reads = s.reads;
  if (!s.backward || s.dtype != DType::bf16) return "only backward passes in bf16 run so";
  if (!reads.causal || reads.window || reads.lengths || reads.documents || reads.mask || reads.bias)
    return "only causal attention without other masks runs so";
  if (s.size != 64 && s.size != 128) return str("head size ", s.size, " is neither 64 nor 128");
  if (s.queries != s.keys || s.queries % kKeys != 0)
    return str(s.queries, " queries and ", s.keys, " keys are not equal multiples of ", kKeys);
  for (const HeadView& view : {s.q, s.k, s.v, s.o, s.grad, s.dq, s.dk, s.dv})
    if (view.batch % 8 || view.token % 8 || view.head % 8) return "strides are no multiples of 16 bytes";
  if (device.major != 9 || device.minor != 0)
    return str("compute capability ", device.major, ".", device.minor, " is not Hopper's 9.0");
  if (device.shared_per_block < kHopperAttentionBytes)
    return str("a block has ", device.shared_per_block, " bytes of shared memory, not ",
               kHopperAttentionBytes);
  if (!driver().TensorMapEncodeTiled) return "the driver is older than 12.0";
  return "";
}

bool pays_on_hopper(const AttentionShape& shape) {
  return shape.queries >= (shape.size == 128 ? 4096 : 2048);
}

std::unique_ptr<LibraryCall> make_hopper_attention(CudaDevice& device, const AttentionShape& shape,
                                                   const std::string& cache_dir, int lanes) {
  return std::make_unique<HopperAttention>(device, shape, cache_dir, lanes);
}

}  // namespace lockstep::compiler::cuda
