// The shape of an attention call, and how a deterministic backward pass is cut into pieces.
#include <algorithm>

#include "compiler/codegen/cuda/attention/attention.h"
#include "core/base/error.h"

namespace lockstep::compiler::cuda {

namespace {
HeadView view_of(const Operand& operand) {
  const Shape& shape = operand.shape;
  LS_CHECK(shape.size() == 4, "attention needs [batch, tokens, heads, size]");
  LS_CHECK(operand.strides[3] == 1 || shape[3] == 1, "attention needs a dense last dim");
  HeadView view;
  view.head = shape[2] == 1 ? shape[3] : operand.strides[2];
  view.token = shape[1] == 1 ? shape[2] * view.head : operand.strides[1];
  view.batch = shape[0] == 1 ? shape[1] * view.token : operand.strides[0];
  return view;
}
ScoreView score_view(const Operand& operand) {
  LS_CHECK(is_dense(operand), "attention needs a dense mask and bias");
  ScoreView view;
  int64_t next = 1;
  for (auto [stride, d] : {std::pair{&view.key, 3}, {&view.token, 2}, {&view.head, 1}, {&view.batch, 0}}) {
    *stride = operand.shape[d] == 1 ? 0 : next;
    next *= operand.shape[d];
  }
  return view;
}
int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
void* moved(void* base, const AttentionShape& shape, const HeadView& view, int64_t batch, int64_t head) {
  return base ? static_cast<std::byte*>(base) +
                    (batch * view.batch + head * view.head) * static_cast<int64_t>(size_of(shape.dtype))
              : base;
}
}  // namespace

AttentionShape attention_shape(const Node& node, const std::vector<Operand>& in,
                               const std::vector<Operand>& out) {
  LS_CHECK(node.op == ops::sdpa || node.op == ops::sdpa_grad, node.op, " is no attention");
  AttentionShape s;
  s.backward = node.op == ops::sdpa_grad;
  s.reads = attention_reads(node);
  LS_CHECK(!s.reads.seed && in.size() == s.reads.inputs &&
               out.size() == (s.backward ? (s.reads.bias_gradient ? 4 : 3) : 2),
           node.op, " has ", in.size(), " inputs, ", out.size(), " outputs");
  const Operand &q = in[s.backward ? 1 : 0], &k = in[s.backward ? 2 : 1], &lse = s.backward ? in[5] : out[1];
  s.dtype = q.dtype;
  s.scale = node.attrs.number("scale");
  s.batch = q.shape[0], s.queries = q.shape[1], s.heads = q.shape[2], s.size = q.shape[3],
  s.keys = k.shape[1], s.kv_heads = k.shape[2];
  LS_CHECK(!s.reads.causal || s.queries == s.keys, "causal attention over ", s.queries, " queries and ",
           s.keys, " keys");
  LS_CHECK(s.kv_heads > 0 && s.heads % s.kv_heads == 0, s.heads, " heads over ", s.kv_heads);
  LS_CHECK(is_dense(lse) && lse.dtype == (s.dtype == DType::f64 ? DType::f64 : DType::f32),
           "lse is dense, f32 (f64 for f64)");
  size_t first = s.backward ? 1 : 0;
  s.q = view_of(in[first]), s.k = view_of(in[first + 1]), s.v = view_of(in[first + 2]);
  s.o = view_of(s.backward ? in[4] : out[0]);
  if (s.reads.mask) s.mask = score_view(in[s.reads.mask]);
  if (s.reads.bias) s.bias = score_view(in[s.reads.bias]);
  if (s.backward)
    s.grad = view_of(in[0]), s.dq = view_of(out[0]), s.dk = view_of(out[1]), s.dv = view_of(out[2]);
  return s;
}

std::string attention_text(const AttentionShape& s) {
  return str(s.backward ? "sdpa_grad " : "sdpa ", name(s.dtype), " b=", s.batch, " t=", s.queries,
             s.keys == s.queries ? std::string() : str(" s=", s.keys), " h=", s.heads, "/", s.kv_heads,
             " d=", s.size, masks_text(s.reads));
}
double attention_flops(const AttentionShape& s) {
  return (s.backward ? 10.0 : 4.0) * static_cast<double>(s.batch * s.heads) *
         attention_pairs(s.reads, s.queries, s.keys) * static_cast<double>(s.size);
}

AttentionPointers attention_pointers(const AttentionShape& shape, void* const* args) {
  AttentionPointers p;
  const AttentionReads& reads = shape.reads;
  void* const* out = args + reads.inputs;
  if (shape.backward)
    p.grad = args[0], p.q = args[1], p.k = args[2], p.v = args[3], p.o = args[4], p.lse = args[5],
    p.dq = out[0], p.dk = out[1], p.dv = out[2];
  else
    p.q = args[0], p.k = args[1], p.v = args[2], p.o = out[0], p.lse = out[1];
  if (reads.bias_gradient) p.dbias = out[3];
  if (reads.lengths) p.lengths = args[reads.lengths];
  if (reads.documents) p.documents = args[reads.documents];
  if (reads.mask) p.mask = args[reads.mask];
  if (reads.bias) p.bias = args[reads.bias];
  return p;
}

int64_t score_bytes(const AttentionShape& s) {
  return s.batch * s.heads * round_up(s.queries, 64) * round_up(s.keys, 128) * 2;
}

int64_t score_cap(int64_t device_bytes) {
  return std::clamp(device_bytes / 32, kLeastScoreCap, kMostScoreCap);
}

std::vector<AttentionPiece> cut_attention(const AttentionShape& shape, int64_t cap) {
  return cut_attention(shape, score_bytes(shape) / std::max<int64_t>(shape.batch, 1) / shape.kv_heads, cap);
}
std::vector<AttentionPiece> cut_attention(const AttentionShape& shape, int64_t per_head, int64_t cap) {
  const int64_t per_batch = per_head * shape.kv_heads;
  // Distributes `count` things over as few and as equal pieces as possible, at most `at_once` per piece.
  auto cut = [](int64_t count, int64_t at_once) {
    int64_t pieces = (count + at_once - 1) / at_once;
    std::vector<int64_t> starts;
    for (int64_t i = 0; i <= pieces; ++i)
      starts.push_back(i * (count / pieces) + std::min(i, count % pieces));
    return starts;
  };
  std::vector<AttentionPiece> pieces;
  if (shape.batch == 0 || per_batch <= cap) {
    if (shape.batch == 0 || per_batch * shape.batch <= cap) return {{0, shape.batch, 0, shape.kv_heads}};
    std::vector<int64_t> starts = cut(shape.batch, cap / per_batch);
    for (size_t i = 0; i + 1 < starts.size(); ++i)
      pieces.push_back({starts[i], starts[i + 1] - starts[i], 0, shape.kv_heads});
    return pieces;
  }
  std::vector<int64_t> starts = cut(shape.kv_heads, std::max<int64_t>(1, cap / per_head));
  for (int64_t b = 0; b < shape.batch; ++b)
    for (size_t i = 0; i + 1 < starts.size(); ++i)
      pieces.push_back({b, 1, starts[i], starts[i + 1] - starts[i]});
  return pieces;
}

AttentionShape shape_of_piece(const AttentionShape& shape, const AttentionPiece& piece) {
  AttentionShape part = shape;
  part.batch = piece.batches;
  part.kv_heads = piece.kv_heads;
  part.heads = piece.kv_heads * (shape.heads / shape.kv_heads);
  return part;
}

AttentionPointers pointers_of_piece(const AttentionShape& s, const AttentionPiece& piece,
                                    AttentionPointers p) {
  int64_t head = piece.kv_head * (s.heads / s.kv_heads), kv = piece.kv_head, b = piece.batch;
  p.q = moved(p.q, s, s.q, b, head), p.o = moved(p.o, s, s.o, b, head);
  p.grad = moved(p.grad, s, s.grad, b, head), p.dq = moved(p.dq, s, s.dq, b, head);
  p.k = moved(p.k, s, s.k, b, kv), p.v = moved(p.v, s, s.v, b, kv);
  p.dk = moved(p.dk, s, s.dk, b, kv), p.dv = moved(p.dv, s, s.dv, b, kv);
  p.lse = static_cast<std::byte*>(p.lse) + (b * s.heads + head) * s.queries * (s.dtype == DType::f64 ? 8 : 4);
  return p;
}

}  // namespace lockstep::compiler::cuda
