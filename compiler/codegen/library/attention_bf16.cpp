// Attention of bf16 heads with the processor's bf16 instructions. A key head is packed once. Blocks of query
// rows process it in chunks of keys, so only scores of one block and chunk exist at a time. Products sum in
// f32, and the softmax over the chunks is f32. Its probabilities and the gradients of scores are rounded to
// bf16 when a product reads them. The order of all sums depends only on the shapes and the masks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/codegen/library/attention_call.h"
#include "compiler/codegen/library/attention_rows.h"
#include "compiler/codegen/library/attention_rows_bf16.h"
#include "compiler/codegen/library/panels.h"

namespace lockstep::compiler {

#if defined(__x86_64__)
namespace {
using namespace rows;
using panels::filled, panels::kSide, panels::right_offset;
constexpr int64_t kKeys = 256;  // per chunk

// Allocates parts of a thread's scratch; with a null base it counts their bytes.
class Room {
 public:
  explicit Room(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(int64_t count) {
    T* at = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* base_;
  size_t bytes_ = 0;
};

class Bf16Attention : public AttentionCall {
 public:
  Bf16Attention(const Node& node, const std::vector<Operand>& in, const std::vector<Operand>& out,
                panels::Unit unit)
      : AttentionCall(node, in, out), unit_(unit), wide_(filled(size_)), deep_(filled(keys_)) {
    // Apart from a power of two, so that rows of scores do not share one cache set.
    chunk_ = std::min(kKeys, deep_), apart_ = chunk_ + kSide;
  }
  std::string algorithm() const override {
    return str(AttentionCall::algorithm(), " keys=", chunk_, " ", panels::name(unit_));
  }

 private:
  struct Forward {
    uint16_t *k, *v, *q, *p;
    float *s, *o;
  };
  Forward forward_room(Room& room) const {
    Forward f;
    f.k = room.take<uint16_t>(deep_ * wide_), f.v = room.take<uint16_t>(deep_ * wide_);
    f.q = room.take<uint16_t>(kRows * wide_), f.p = room.take<uint16_t>(kRows * apart_);
    f.s = room.take<float>(kRows * apart_), f.o = room.take<float>(kRows * wide_);
    return f;
  }
  struct Backward {
    uint16_t *k_deep, *k, *v;  // right sides: keys deep; head_dim deep
    uint16_t *q, *grad, *q_right, *grad_right, *p, *ds, *p_turned, *ds_turned;
    float *s, *dp, *dq, *dk, *dv;
  };
  Backward backward_room(Room& room) const {
    Backward f;
    for (uint16_t** one : {&f.k_deep, &f.k, &f.v}) *one = room.take<uint16_t>(deep_ * wide_);
    for (uint16_t** one : {&f.q, &f.grad, &f.q_right, &f.grad_right})
      *one = room.take<uint16_t>(kRows * wide_);
    for (uint16_t** one : {&f.p, &f.ds}) *one = room.take<uint16_t>(kRows * apart_);
    for (uint16_t** one : {&f.p_turned, &f.ds_turned}) *one = room.take<uint16_t>(chunk_ * kRows);
    f.s = room.take<float>(kRows * apart_), f.dp = room.take<float>(kRows * apart_);
    f.dq = room.take<float>(kRows * wide_);
    f.dk = room.take<float>(deep_ * wide_), f.dv = room.take<float>(deep_ * wide_);
    return f;
  }
  size_t bytes_per_thread() const override {
    Room room(nullptr);
    if (backward_)
      backward_room(room);
    else
      forward_room(room);
    return room.bytes();
  }

  panels::MatrixRows rows_of(const Heads& heads, void* base, int64_t b, int64_t h, int64_t from,
                             int64_t count) const {
    return {reinterpret_cast<const uint16_t*>(heads.at(base, b, h, from)), heads.token, count, size_};
  }
  void write(const float* from, float by, const Heads& heads, void* base, int64_t b, int64_t h,
             int64_t t) const {
    round_row(from, size_, by, reinterpret_cast<uint16_t*>(heads.at(base, b, h, t)));
  }
  // The keys of a block, widened to whole panels.
  Keys block_panels(void* const* args, int64_t b, int64_t i0, int64_t i1) const {
    const Keys keys = block_keys(args, b, i0, i1);
    if (!keys.count()) return keys;
    return {keys.from / kSide * kSide, filled(keys.to)};
  }
  static void zero_beside(uint16_t* row, Keys chunk, Keys keys) {
    std::fill_n(row, keys.from - chunk.from, uint16_t{0});
    std::fill_n(row + (keys.to - chunk.from), chunk.to - keys.to, uint16_t{0});
  }

  void forward(void* const* args, void* scratch, int64_t b, int64_t kv) const override {
    const panels::UnitSession session(unit_);
    Room room(scratch);
    const Forward f = forward_room(room);
    panels::fill_right_transposed(rows_of(in_[1], args[1], b, kv, 0, keys_), f.k);
    panels::fill_right(rows_of(in_[2], args[2], b, kv, 0, keys_), f.v);
    const int64_t group = heads_ / kv_heads_;
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h)
      for (int64_t i0 = 0; i0 < tokens_; i0 += kRows)
        forward_block(args, f, b, h, i0, std::min(tokens_, i0 + kRows));
  }
  void forward_block(void* const* args, const Forward& f, int64_t b, int64_t h, int64_t i0,
                     int64_t i1) const {
    const int64_t m = filled(i1 - i0);
    const Keys block = block_panels(args, b, i0, i1);
    panels::fill_left(rows_of(in_[0], args[0], b, h, i0, i1 - i0), f.q, wide_);
    RunningSoftmax running[kRows];
    std::fill_n(running, kRows, RunningSoftmax{-std::numeric_limits<float>::infinity(), 0});
    for (int64_t from = block.from; from < block.to; from += chunk_) {
      const Keys chunk{from, std::min(block.to, from + chunk_)};
      panels::multiply(unit_, m, chunk.count(), wide_, {f.q, wide_},
                       {f.k + right_offset(wide_, 0, from), wide_}, false, {f.s, apart_});
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t r = i - i0;
        const float factor = softmax(args, f.s + r * apart_, f.p + r * apart_, b, h, i, chunk, &running[r]);
        if (from > block.from && factor != 1.0f) scale_row(f.o + r * wide_, wide_, factor);
      }
      panels::multiply(unit_, m, wide_, chunk.count(), {f.p, apart_},
                       {f.v + right_offset(deep_, from, 0), deep_}, from > block.from, {f.o, wide_});
    }
    if (!block.count()) fill_zero(f.o, kRows * wide_);
    float* lse = static_cast<float*>(args[reads_.inputs + 1]) + (b * heads_ + h) * tokens_;
    for (int64_t i = i0; i < i1; ++i) {
      const auto [max, sum] = running[i - i0];
      write(f.o + (i - i0) * wide_, sum == 0 ? 1.0f : 1.0f / sum, out_[0], args[reads_.inputs], b, h, i);
      lse[i] = sum == 0 ? 0.0f : max + std::log(sum);
    }
  }
  // The probabilities of row i and the chunk, 0 for keys that the row does not attend to.
  float softmax(void* const* args, float* s, uint16_t* p, int64_t b, int64_t h, int64_t i, Keys chunk,
                RunningSoftmax* running) const {
    Keys keys = row_keys_in(args, b, i, chunk);
    const int64_t at = keys.from - chunk.from;
    if (keys.count() && one_by_one() && !masked(args, s + at, b, h, i, keys)) keys.to = keys.from;
    zero_beside(p, chunk, keys);
    if (!keys.count()) return 1;
    return softmax_chunk(s + at, keys.count(), one_by_one() ? 1.0f : scale_, p + at, running);
  }

  void backward(void* const* args, void* scratch, int64_t b, int64_t kv) const override {
    const panels::UnitSession session(unit_);
    Room room(scratch);
    const Backward f = backward_room(room);
    panels::fill_right(rows_of(in_[2], args[2], b, kv, 0, keys_), f.k_deep);
    panels::fill_right_transposed(rows_of(in_[2], args[2], b, kv, 0, keys_), f.k);
    panels::fill_right_transposed(rows_of(in_[3], args[3], b, kv, 0, keys_), f.v);
    fill_zero(f.dk, deep_ * wide_), fill_zero(f.dv, deep_ * wide_);
    const int64_t group = heads_ / kv_heads_;
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h)
      for (int64_t i0 = 0; i0 < tokens_; i0 += kRows)
        backward_block(args, f, b, h, i0, std::min(tokens_, i0 + kRows));
    void* const* to = args + reads_.inputs;
    for (int64_t j = 0; j < keys_; ++j) {
      write(f.dk + j * wide_, 1.0f, out_[1], to[1], b, kv, j);
      write(f.dv + j * wide_, 1.0f, out_[2], to[2], b, kv, j);
    }
  }
  void backward_block(void* const* args, const Backward& f, int64_t b, int64_t h, int64_t i0,
                      int64_t i1) const {
    const int64_t rows = i1 - i0, m = filled(rows);
    const Keys block = block_panels(args, b, i0, i1);
    const panels::MatrixRows grad = rows_of(in_[0], args[0], b, h, i0, rows),
                             q = rows_of(in_[1], args[1], b, h, i0, rows),
                             o = rows_of(in_[4], args[4], b, h, i0, rows);
    panels::fill_left(grad, f.grad, wide_), panels::fill_right(grad, f.grad_right);
    panels::fill_left(q, f.q, wide_), panels::fill_right(q, f.q_right);
    float delta[kRows];
    for (int64_t r = 0; r < rows; ++r) {
      delta[r] = dot_bf16(grad.at + r * grad.stride, o.at + r * o.stride, size_);
      if (float* dbias = bias_gradient(args, b, h, i0 + r)) fill_zero(dbias, keys_);
    }
    for (int64_t from = block.from; from < block.to; from += chunk_) {
      const Keys chunk{from, std::min(block.to, from + chunk_)};
      const int64_t n = chunk.count();
      panels::multiply(unit_, m, n, wide_, {f.q, wide_}, {f.k + right_offset(wide_, 0, from), wide_}, false,
                       {f.s, apart_});
      panels::multiply(unit_, m, n, wide_, {f.grad, wide_}, {f.v + right_offset(wide_, 0, from), wide_},
                       false, {f.dp, apart_});
      for (int64_t r = 0; r < rows; ++r) backward_row_of(args, f, r, delta[r], b, h, i0 + r, chunk);
      panels::fill_left_transposed({f.p, apart_, rows, n}, f.p_turned, m);
      panels::fill_left_transposed({f.ds, apart_, rows, n}, f.ds_turned, m);
      panels::multiply(unit_, n, wide_, m, {f.p_turned, m}, {f.grad_right, m}, true,
                       {f.dv + from * wide_, wide_});
      panels::multiply(unit_, n, wide_, m, {f.ds_turned, m}, {f.q_right, m}, true,
                       {f.dk + from * wide_, wide_});
      panels::multiply(unit_, m, wide_, n, {f.ds, apart_}, {f.k_deep + right_offset(deep_, from, 0), deep_},
                       from > block.from, {f.dq, wide_});
    }
    if (!block.count()) fill_zero(f.dq, kRows * wide_);
    for (int64_t r = 0; r < rows; ++r)
      write(f.dq + r * wide_, 1.0f, out_[0], args[reads_.inputs], b, h, i0 + r);
  }
  // Row i of the chunk: probabilities, and gradients of the scores.
  void backward_row_of(void* const* args, const Backward& f, int64_t r, float delta, int64_t b, int64_t h,
                       int64_t i, Keys chunk) const {
    const Keys keys = row_keys_in(args, b, i, chunk);
    const int64_t first = r * apart_, at = first + keys.from - chunk.from;
    const float lse = static_cast<const float*>(args[5])[(b * heads_ + h) * tokens_ + i];
    zero_beside(f.p + first, chunk, keys), zero_beside(f.ds + first, chunk, keys);
    if (!keys.count()) return;
    float* dbias = bias_gradient(args, b, h, i);
    if (one_by_one()) masked(args, f.s + at, b, h, i, keys);
    backward_chunk(f.s + at, f.dp + at, keys.count(), {one_by_one() ? 1.0f : scale_, lse, delta, scale_},
                   f.p + at, f.ds + at, dbias ? dbias + keys.from : nullptr);
  }

  panels::Unit unit_;
  int64_t wide_, deep_;    // head_dim and keys, padded
  int64_t chunk_, apart_;  // keys; distance between rows of scores
};
}  // namespace

std::unique_ptr<LibraryCall> make_bf16_attention(const Node& node, const std::vector<Operand>& in,
                                                 const std::vector<Operand>& out, panels::Unit unit) {
  if (in[0].dtype != DType::bf16 || unit == panels::Unit::none) return nullptr;
  return std::make_unique<Bf16Attention>(node, in, out, unit);
}
#else
std::unique_ptr<LibraryCall> make_bf16_attention(const Node&, const std::vector<Operand>&,
                                                 const std::vector<Operand>&, panels::Unit) {
  return nullptr;
}
#endif

}  // namespace lockstep::compiler
