// One attention call as a test sees it: inputs and outputs in one block of memory, packed or apart, and a
// reference in double.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compiler/codegen/library/library.h"
#include "core/base/text.h"
#include "core/types/dtype.h"

namespace lockstep::test {

struct AttentionCase {
  DType dtype = DType::f32;
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, size = 16;
  bool causal = false,
       packed =
           false;  // packed: q, k, v (and their gradients) are views into one [batch, tokens, heads, size]
  double scale = 0.3;
  int64_t window = 0;
  // lengths [B]; documents [B, T]; mask [B, 1, T, S]; bias [1, H, T, S] with its gradient [B, H, T, S]
  bool lengths = false, documents = false, mask = false, bias = false;

  std::string text() const {
    return str(name(dtype), " b=", batch, " t=", queries, " s=", keys, " h=", heads, "/", kv_heads,
               " d=", size, causal ? " causal" : "", packed ? " packed" : "",
               window ? str(" window=", window) : "", lengths ? " lengths" : "",
               documents ? " documents" : "", mask ? " mask" : "", bias ? " bias" : "");
  }
  DType wide() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
  Node node(bool backward) const {
    Node n;
    n.op = backward ? ops::sdpa_grad : ops::sdpa;
    n.attrs = {{"causal", causal}, {"scale", scale}};
    if (window) n.attrs.set("window", window);
    for (auto [name, there] : {std::pair{"lengths", lengths}, {"documents", documents}, {"mask", mask}})
      if (there) n.attrs.set(name, true);
    if (bias) n.attrs.set("bias", true);
    if (bias && backward) n.attrs.set("bias_gradient", true);
    return n;
  }
};

// A tensor in the block.
struct Slot {
  size_t at = 0;  // bytes
  compiler::Operand operand;
  int64_t index(int64_t b, int64_t t, int64_t h, int64_t d) const {
    const auto& s = operand.strides;
    return b * s[0] + t * s[1] + h * s[2] + d * s[3];
  }
};

// What is computed: [batch, tokens, heads, size] in order, and lse [batch, heads, queries].
struct AttentionValues {
  std::vector<double> q, k, v, grad, bias, o, lse, dq, dk, dv, dbias;
  std::vector<int32_t> lengths, documents;
  std::vector<uint8_t> mask;
};

class AttentionBlock {
 public:
  explicit AttentionBlock(const AttentionCase& c, unsigned seed = 1) : c_(c) {
    Shape query{c.batch, c.queries, c.heads, c.size}, key{c.batch, c.keys, c.kv_heads, c.size};
    place_three(q, k, v, query, key);
    place_three(dq, dk, dv, query, key);
    o = place(c.dtype, query);
    grad = place(c.dtype, query);
    lse = place(c.wide(), {c.batch, c.heads, c.queries});
    lengths = place(DType::i32, {c.batch});
    documents = place(DType::i32, {c.batch, c.queries});
    mask = place(DType::boolean, {c.batch, 1, c.queries, c.keys});
    bias = place(c.wide(), {1, c.heads, c.queries, c.keys});
    dbias = place(c.wide(), {c.batch, c.heads, c.queries, c.keys});
    bytes.assign(size_, std::byte{0xff});  // NaN in every float dtype: outputs are poisoned
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (auto [slot, values] : {std::pair{&q, &want.q}, {&k, &want.k}, {&v, &want.v}, {&grad, &want.grad}}) {
      each(*slot, [&](int64_t i) {
        set_double(c_.dtype, bytes.data() + slot->at, i, uniform(random));
        values->push_back(get_double(c_.dtype, bytes.data() + slot->at, i));
      });
    }
    for (int64_t i = 0; i < numel(bias.operand.shape); ++i) {
      set_double(c_.wide(), bytes.data() + bias.at, i, uniform(random));
      want.bias.push_back(get_double(c_.wide(), bytes.data() + bias.at, i));
    }
    make_masks(random);
    compute();
  }
  std::vector<const Slot*> slots(bool backward) const {  // in the order of the op's arguments
    std::vector<const Slot*> all = inputs(backward);
    if (backward)
      all.insert(all.end(), {&dq, &dk, &dv});
    else
      all.insert(all.end(), {&o, &lse});
    if (backward && c_.bias) all.push_back(&dbias);
    return all;
  }
  std::vector<compiler::Operand> in(bool backward) const {
    return operands(backward, 0, inputs(backward).size());
  }
  std::vector<compiler::Operand> out(bool backward) const {
    return operands(backward, inputs(backward).size(), slots(backward).size());
  }
  std::vector<void*> args(bool backward, void* base) const {
    std::vector<void*> all;
    for (const Slot* slot : slots(backward)) all.push_back(static_cast<std::byte*>(base) + slot->at);
    return all;
  }
  std::vector<double> read(const std::vector<std::byte>& from, const Slot& slot) const {
    std::vector<double> values;
    each(slot,
         [&](int64_t i) { values.push_back(get_double(slot.operand.dtype, from.data() + slot.at, i)); });
    return values;
  }
  // Empty, or the first tensor of `from` whose largest difference is above `tolerance` * max(1/4, largest
  // value).
  std::string differs(const std::vector<std::byte>& from, bool backward, double tolerance) const {
    auto check = [&](const char* what, const Slot& slot, const std::vector<double>& expected) -> std::string {
      std::vector<double> got = read(from, slot);
      double most = 0.25, error = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        most = std::max(most, std::fabs(expected[i]));
        double e = std::fabs(got[i] - expected[i]);
        if (!(e <= error)) error = e;  // NaN stays
      }
      if (error <= tolerance * most) return "";
      return str(c_.text(), ": ", what, " differs by ", error, " where values reach ", most, ", allowed ",
                 tolerance * most);
    };
    std::string why = check("o", o, want.o);
    if (why.empty()) why = check("lse", lse, want.lse);
    if (why.empty() && backward) why = check("dq", dq, want.dq);
    if (why.empty() && backward) why = check("dk", dk, want.dk);
    if (why.empty() && backward) why = check("dv", dv, want.dv);
    if (why.empty() && backward && c_.bias) why = check("dbias", dbias, want.dbias);
    return why;
  }

  Slot q, k, v, dq, dk, dv, o, grad, lse, lengths, documents, mask, bias, dbias;
  std::vector<std::byte> bytes;
  AttentionValues want;

 private:
  std::vector<const Slot*> inputs(bool backward) const {
    std::vector<const Slot*> all{&q, &k, &v};
    if (backward) all = {&grad, &q, &k, &v, &o, &lse};
    for (auto [slot, there] :
         {std::pair{&lengths, c_.lengths}, {&documents, c_.documents}, {&mask, c_.mask}, {&bias, c_.bias}})
      if (there) all.push_back(slot);
    return all;
  }
  // Lengths from none to all keys, documents of different lengths, a mask that shuts one row in eleven out.
  void make_masks(std::mt19937_64& random) {
    for (int64_t b = 0; b < c_.batch; ++b) {
      want.lengths.push_back(static_cast<int32_t>((b + 1) % 3 * c_.keys / 2));
      for (int64_t t = 0, id = 0; t < c_.queries; ++t) {
        id += t > 0 && random() % 20 == 0;
        want.documents.push_back(static_cast<int32_t>(id));
        for (int64_t s = 0; s < c_.keys; ++s) want.mask.push_back(t % 11 != 3 && random() % 4 != 0);
      }
    }
    std::memcpy(bytes.data() + lengths.at, want.lengths.data(), want.lengths.size() * 4);
    std::memcpy(bytes.data() + documents.at, want.documents.data(), want.documents.size() * 4);
    std::memcpy(bytes.data() + mask.at, want.mask.data(), want.mask.size());
  }
  bool seen(int64_t b, int64_t t, int64_t s) const {
    auto document = [&](int64_t at) { return want.documents[static_cast<size_t>(b * c_.queries + at)]; };
    return !(c_.causal && s > t) && !(c_.window && s <= t - c_.window) &&
           !(c_.lengths && s >= want.lengths[static_cast<size_t>(b)]) &&
           !(c_.documents && document(t) != document(s)) &&
           !(c_.mask && !want.mask[static_cast<size_t>((b * c_.queries + t) * c_.keys + s)]);
  }
  Slot place(DType dtype, const Shape& shape) {
    Slot slot{size_, compiler::dense_operand(dtype, shape)};
    size_ += (static_cast<size_t>(numel(shape)) * size_of(dtype) + 511) / 256 * 256;
    return slot;
  }
  void place_three(Slot& a, Slot& b, Slot& c, const Shape& query, const Shape& key) {
    if (!c_.packed) {
      a = place(c_.dtype, query), b = place(c_.dtype, key), c = place(c_.dtype, key);
      return;
    }
    int64_t heads = c_.heads + 2 * c_.kv_heads;
    Slot whole = place(c_.dtype, {c_.batch, c_.queries, heads, c_.size});
    a = b = c = whole;
    a.operand.shape = query, b.operand.shape = c.operand.shape = key;
    b.at += static_cast<size_t>(c_.heads * c_.size) * size_of(c_.dtype);
    c.at += static_cast<size_t>((c_.heads + c_.kv_heads) * c_.size) * size_of(c_.dtype);
  }
  std::vector<compiler::Operand> operands(bool backward, size_t from, size_t to) const {
    std::vector<compiler::Operand> all;
    auto list = slots(backward);
    for (size_t i = from; i < to; ++i) all.push_back(list[i]->operand);
    return all;
  }
  template <class Run>
  static void each(const Slot& slot, Run run) {
    const Shape& s = slot.operand.shape;
    if (s.size() == 3 || compiler::is_dense(slot.operand)) {
      for (int64_t i = 0; i < numel(s); ++i) run(i);
      return;
    }
    for (int64_t b = 0; b < s[0]; ++b)
      for (int64_t t = 0; t < s[1]; ++t)
        for (int64_t h = 0; h < s[2]; ++h)
          for (int64_t d = 0; d < s[3]; ++d) run(slot.index(b, t, h, d));
  }
  static double dot(const double* a, const double* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  static void add(double* to, const double* from, double times, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] += times * from[i];
  }
  void compute() {
    const int64_t D = c_.size;
    auto zero = [](std::vector<double>& x, int64_t n) { x.assign(static_cast<size_t>(n), 0.0); };
    zero(want.o, c_.batch * c_.queries * c_.heads * D), zero(want.dq, c_.batch * c_.queries * c_.heads * D);
    zero(want.dk, c_.batch * c_.keys * c_.kv_heads * D), zero(want.dv, c_.batch * c_.keys * c_.kv_heads * D);
    zero(want.lse, c_.batch * c_.heads * c_.queries);
    zero(want.dbias, c_.batch * c_.heads * c_.queries * c_.keys);
    std::vector<double> p(static_cast<size_t>(c_.keys));
    for (int64_t b = 0; b < c_.batch; ++b)
      for (int64_t h = 0; h < c_.heads; ++h)
        for (int64_t i = 0; i < c_.queries; ++i) {
          int64_t kv = h / (c_.heads / c_.kv_heads), n = c_.keys;
          int64_t row = ((b * c_.queries + i) * c_.heads + h) * D;
          auto key = [&](int64_t j) { return ((b * c_.keys + j) * c_.kv_heads + kv) * D; };
          double most = -INFINITY, total = 0, delta = 0;
          for (int64_t j = 0; j < n; ++j) {
            p[static_cast<size_t>(j)] = -INFINITY;
            if (!seen(b, i, j)) continue;
            p[static_cast<size_t>(j)] = dot(&want.q[row], &want.k[key(j)], D) * c_.scale;
            if (c_.bias)
              p[static_cast<size_t>(j)] += want.bias[static_cast<size_t>((h * c_.queries + i) * n + j)];
            most = std::max(most, p[static_cast<size_t>(j)]);
          }
          if (most == -INFINITY) continue;  // zeros
          for (int64_t j = 0; j < n; ++j)
            total += p[static_cast<size_t>(j)] = std::exp(p[static_cast<size_t>(j)] - most);
          want.lse[static_cast<size_t>((b * c_.heads + h) * c_.queries + i)] = most + std::log(total);
          for (int64_t j = 0; j < n; ++j)
            add(&want.o[row], &want.v[key(j)], p[static_cast<size_t>(j)] / total, D);
          delta = dot(&want.grad[row], &want.o[row], D);
          for (int64_t j = 0; j < n; ++j) {
            double pj = p[static_cast<size_t>(j)] / total,
                   dbias = pj * (dot(&want.grad[row], &want.v[key(j)], D) - delta), ds = dbias * c_.scale;
            want.dbias[static_cast<size_t>(((b * c_.heads + h) * c_.queries + i) * n + j)] = dbias;
            add(&want.dv[key(j)], &want.grad[row], pj, D);
            add(&want.dk[key(j)], &want.q[row], ds, D);
            add(&want.dq[row], &want.k[key(j)], ds, D);
          }
        }
  }

  AttentionCase c_;
  size_t size_ = 0;
};

// Each way of masking alone and together, over several blocks of keys and queries.
inline std::vector<AttentionCase> masked_cases(DType dtype) {
  AttentionCase base{.dtype = dtype, .batch = 3, .queries = 150, .keys = 150, .heads = 4, .kv_heads = 2};
  std::vector<AttentionCase> all(9, base);
  all[0].causal = true, all[0].window = 1;
  all[1].causal = all[1].packed = true, all[1].window = 70;
  all[2].lengths = true, all[2].keys = 90;
  all[3].causal = all[3].documents = true;
  all[4].documents = true;
  all[5].mask = true, all[5].keys = 40;
  all[6].bias = true, all[6].keys = 70;
  all[7].causal = all[7].bias = all[7].lengths = true;
  all[8].causal = all[8].lengths = all[8].documents = all[8].mask = all[8].bias = true, all[8].window = 33;
  return all;
}

}  // namespace lockstep::test
