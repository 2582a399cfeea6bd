// Tasks of the CPU's attention calls, and the masks of their rows.
#include "compiler/codegen/library/attention_call.h"

#include <omp.h>

#include <algorithm>

#include "compiler/codegen/library/attention_rows.h"
#include "compiler/codegen/sums/halves.h"
#include "core/base/error.h"

namespace lockstep::compiler {

namespace {
Heads heads_of(const Operand& operand) {
  LS_CHECK(operand.dtype == DType::f32 || is_half(operand.dtype),
           "attention on the CPU takes f32, bf16, f16, not ", name(operand.dtype));
  LS_CHECK(operand.strides[3] == 1 || operand.shape[3] == 1, "attention needs a dense last dim");
  return {operand.dtype, operand.strides[0], operand.strides[1], operand.strides[2]};
}
OverScores over_scores(const Operand& operand) {
  LS_CHECK(is_dense(operand), "attention needs a dense mask and bias");
  OverScores out;
  int64_t next = 1;
  for (size_t d = 4; d-- > 0; next *= operand.shape[d]) out.stride[d] = operand.shape[d] == 1 ? 0 : next;
  return out;
}
}  // namespace

AttentionCall::AttentionCall(const Node& node, const std::vector<Operand>& in,
                             const std::vector<Operand>& out)
    : reads_(attention_reads(node)), backward_(reads_.first > 0) {
  LS_CHECK(in.size() == reads_.inputs && !reads_.seed, node.op, " of ", in.size(), " inputs");
  const Operand &q = in[reads_.first], &k = in[reads_.first + 1];
  batch_ = q.shape[0], tokens_ = q.shape[1], heads_ = q.shape[2], size_ = q.shape[3], keys_ = k.shape[1],
  kv_heads_ = k.shape[2];
  scale_ = static_cast<float>(node.attrs.number("scale"));
  LS_CHECK(!reads_.causal || tokens_ == keys_, "causal attention over ", tokens_, " queries and ", keys_,
           " keys");
  for (size_t i = 0; i < (backward_ ? 5 : 3); ++i) in_[i] = heads_of(in[i]);
  for (size_t i = 0; i < (backward_ ? 3 : 1); ++i) out_[i] = heads_of(out[i]);
  if (reads_.mask) mask_ = over_scores(in[reads_.mask]);
  if (reads_.bias) bias_ = over_scores(in[reads_.bias]);
  dtype_ = q.dtype;
}

std::string AttentionCall::algorithm() const {
  return str(is_half(dtype_) ? str(name(dtype_), " ") : "", "sdpa", backward_ ? "_grad" : "", " b=", batch_,
             " t=", tokens_, keys_ == tokens_ ? std::string() : str(" s=", keys_), " h=", heads_, "/",
             kv_heads_, " d=", size_, masks_text(reads_), " rows=", kRows);
}
double AttentionCall::flops() const {
  return (backward_ ? 10.0 : 4.0) * static_cast<double>(batch_ * heads_) *
         attention_pairs(reads_, tokens_, keys_) * static_cast<double>(size_);
}
void AttentionCall::run(void* const* args, void* workspace, int threads) const {
  const int64_t tasks = batch_ * kv_heads_;
#pragma omp parallel num_threads(threads) if (tasks > 1)
  {
    char* scratch =
        static_cast<char*>(workspace) + static_cast<size_t>(omp_get_thread_num()) * bytes_per_thread();
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < tasks; ++task)
      backward_ ? backward(args, scratch, task / kv_heads_, task % kv_heads_)
                : forward(args, scratch, task / kv_heads_, task % kv_heads_);
  }
}

AttentionCall::Keys AttentionCall::row_keys(void* const* args, int64_t b, int64_t i) const {
  int64_t from = reads_.window ? std::max<int64_t>(0, i - reads_.window + 1) : 0,
          to = reads_.causal ? i + 1 : keys_;
  if (reads_.lengths) to = std::clamp<int64_t>(static_cast<const int32_t*>(args[reads_.lengths])[b], 0, to);
  return {std::min(from, to), to};
}
AttentionCall::Keys AttentionCall::row_keys_in(void* const* args, int64_t b, int64_t i, Keys block) const {
  Keys keys = row_keys(args, b, i);
  keys.from = std::clamp(keys.from, block.from, block.to);
  keys.to = std::clamp(keys.to, keys.from, block.to);
  return keys;
}
AttentionCall::Keys AttentionCall::block_keys(void* const* args, int64_t b, int64_t i0, int64_t i1) const {
  Keys keys{row_keys(args, b, i0).from, row_keys(args, b, i1 - 1).to};
  if (reads_.documents) {
    const int32_t* ids = static_cast<const int32_t*>(args[reads_.documents]) + b * keys_;
    const auto [least, most] = std::minmax_element(ids + i0, ids + i1);
    auto other = [&](int64_t j) { return ids[j] < *least || ids[j] > *most; };
    while (keys.count() && other(keys.from)) ++keys.from;
    while (keys.count() && other(keys.to - 1)) --keys.to;
  }
  keys.to = std::max(keys.from, keys.to);
  return keys;
}
bool AttentionCall::masked(void* const* args, float* row, int64_t b, int64_t h, int64_t i, Keys keys) const {
  const int64_t n = keys.count();
  const float* bias =
      reads_.bias ? static_cast<const float*>(args[reads_.bias]) + bias_.at(b, h, i, keys.from) : nullptr;
  rows::bias_row(row, n, scale_, bias, bias_.stride[3]);
  if (reads_.documents) {
    const int32_t* ids = static_cast<const int32_t*>(args[reads_.documents]) + b * keys_;
    rows::keep_document(row, n, ids + keys.from, ids[i]);
  }
  if (reads_.mask)
    rows::keep_masked(row, n, static_cast<const uint8_t*>(args[reads_.mask]) + mask_.at(b, h, i, keys.from),
                      mask_.stride[3]);
  return !rows::sees_nothing(row, n);
}
float* AttentionCall::bias_gradient(void* const* args, int64_t b, int64_t h, int64_t i) const {
  if (!reads_.bias_gradient) return nullptr;
  return static_cast<float*>(args[reads_.inputs + 3]) + ((b * heads_ + h) * tokens_ + i) * keys_;
}

}  // namespace lockstep::compiler
