// Formulas of creation, random, view and index rows: elements computed from an index, or read at another one.
#include "compiler/reference/array.h"
#include "core/base/philox.h"
#include "core/ops/held_number.h"

namespace lockstep::compiler::reference {

namespace {

void fill(DenseArray& out, const Attrs& attrs) {
  const Number value = number_of(attrs, "value", out.dtype);
  out.f.assign(out.f.size(), value.real(out.dtype));
  if (!out.real()) out.i.assign(out.i.size(), value.bits());
}
std::vector<DenseArray> full(const Call& call) {
  DenseArray out = make(call.attrs().dtype("dtype"), call.attrs().list("shape"));
  fill(out, call.attrs());
  return {out};
}

std::vector<DenseArray> iota(const Call& call) {
  DenseArray out = make(call.attrs().dtype("dtype"), call.attrs().list("shape"));
  const size_t dim = call.attrs().integer("dim");
  const int64_t stride = row_major_strides(out.shape)[dim], size = out.shape[dim];
  for (int64_t k = 0; k < out.size(); ++k) {
    int64_t index = k / stride % size;
    if (out.real())
      out.f[k] = static_cast<double>(index);
    else
      out.i[k] = index;
  }
  return {out};
}

uint32_t random_word(const Call& call, const Shape& shape, int64_t k) {
  int64_t per_sample = shape.empty() ? 1 : numel(Shape(shape.begin() + 1, shape.end()));
  uint64_t seed = static_cast<uint64_t>(call.in[0].i[0]), step = static_cast<uint64_t>(call.in[1].i[0]);
  int64_t index = call.in[2].i[0] * per_sample + k;
  return philox::bits(seed, static_cast<uint64_t>(call.attrs().integer("stream")), step,
                      static_cast<uint64_t>(index));
}

std::vector<DenseArray> rng_bits(const Call& call) {
  DenseArray out = make(DType::u32, call.attrs().list("shape"));
  for (int64_t k = 0; k < out.size(); ++k) out.i[k] = random_word(call, out.shape, k);
  return {out};
}

std::vector<DenseArray> rng_uniform(const Call& call) {
  DenseArray out = make(DType::f32, call.attrs().list("shape"));
  for (int64_t k = 0; k < out.size(); ++k) out.f[k] = philox::uniform(random_word(call, out.shape, k));
  return {out};
}

std::vector<DenseArray> reshape(const Call& call) {
  DenseArray out = call.in[0];
  const Shape& shape = call.attrs().list("shape");
  LS_CHECK(numel(shape) == out.size(), "[reshape] ", shape_text(out.dtype, out.shape), " to ",
           shape_text(out.dtype, shape));
  out.shape = shape;
  return {out};
}

std::vector<DenseArray> permute(const Call& call) {
  return {permuted(call.in[0], call.attrs().list("order"))};
}

std::vector<DenseArray> broadcast(const Call& call) {
  const DenseArray& x = call.in[0];
  const Shape& shape = call.attrs().list("shape");
  const auto& dims = call.attrs().list("dims");
  std::vector<int64_t> from = row_major_strides(x.shape), strides(shape.size(), 0);
  for (size_t d = 0; d < dims.size(); ++d) {
    size_t to = dims[d];
    LS_CHECK(x.shape[d] == shape[to] || x.shape[d] == 1, "[broadcast] ", shape_text(x.dtype, x.shape), " to ",
             shape_text(x.dtype, shape));
    if (x.shape[d] != 1) strides[to] = from[d];
  }
  return {gather(x, shape, strides)};
}

std::vector<DenseArray> slice(const Call& call) {
  const DenseArray& x = call.in[0];
  const auto &start = call.attrs().list("start"), &limit = call.attrs().list("limit"),
             &step = call.attrs().list("step");
  std::vector<int64_t> from = row_major_strides(x.shape), strides;
  Shape shape;
  int64_t offset = 0;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    shape.push_back(limit[d] <= start[d] ? 0 : (limit[d] - start[d] + step[d] - 1) / step[d]);
    strides.push_back(from[d] * step[d]);
    offset += from[d] * start[d];
  }
  return {gather(x, shape, strides, offset)};
}

// Writes the elements of `part` into `whole` with its first element at `offset` along each dim.
void place(const DenseArray& part, DenseArray& whole, const std::vector<int64_t>& offset) {
  std::vector<int64_t> from = row_major_strides(part.shape), to = row_major_strides(whole.shape);
  for (int64_t k = 0; k < part.size(); ++k) {
    int64_t at = 0;
    for (size_t d = 0; d < from.size(); ++d) at += (k / from[d] % part.shape[d] + offset[d]) * to[d];
    if (part.real())
      whole.f[at] = part.f[k];
    else
      whole.i[at] = part.i[k];
  }
}

std::vector<DenseArray> pad(const Call& call) {
  const DenseArray& x = call.in[0];
  const auto &lo = call.attrs().list("lo"), &hi = call.attrs().list("hi");
  Shape shape;
  for (size_t d = 0; d < x.shape.size(); ++d) shape.push_back(lo[d] + x.shape[d] + hi[d]);
  DenseArray out = make(x.dtype, shape);
  fill(out, call.attrs());
  place(x, out, lo);
  return {out};
}

std::vector<DenseArray> concat(const Call& call) {
  const size_t dim = call.attrs().integer("dim");
  Shape shape = call.in[0].shape;
  shape[dim] = 0;
  for (const auto& x : call.in) shape[dim] += x.shape[dim];
  DenseArray out = make(call.in[0].dtype, shape);
  std::vector<int64_t> offset(shape.size(), 0);
  for (const auto& x : call.in) {
    place(x, out, offset);
    offset[dim] += x.shape[dim];
  }
  return {out};
}

std::vector<DenseArray> take(const Call& call) {
  const DenseArray &table = call.in[0], &ids = call.in[1];
  const int64_t rows = table.shape[0], width = numel(Shape(table.shape.begin() + 1, table.shape.end()));
  Shape shape = ids.shape;
  shape.insert(shape.end(), table.shape.begin() + 1, table.shape.end());
  DenseArray out = make(table.dtype, shape);
  for (int64_t k = 0; k < ids.size(); ++k) {
    int64_t id = ids.i[k];
    if (id < 0 || id >= rows)
      throw UserError(str("[", call.node.op, "] ", call.node.at.text(), ": id ", id, " at position ", k,
                          " is outside the table's ", rows, " rows; ids must lie in [0, ", rows, ")"));
    auto copy = [&](const auto& from, auto& to) {
      std::copy_n(from.begin() + id * width, width, to.begin() + k * width);
    };
    if (table.real())
      copy(table.f, out.f);
    else
      copy(table.i, out.i);
  }
  return {out};
}

std::vector<DenseArray> add_rows(const Call& call, const DenseArray& ids, const DenseArray& u) {
  const int64_t rows = call.attrs().integer("rows");
  Shape shape{rows};
  shape.insert(shape.end(), u.shape.begin() + static_cast<std::ptrdiff_t>(ids.shape.size()), u.shape.end());
  DenseArray out = make(u.dtype, shape);
  const int64_t width = numel(Shape(shape.begin() + 1, shape.end()));
  for (int64_t k = 0; k < ids.size(); ++k) {
    int64_t id = ids.i[k];
    if (id < 0 || id >= rows)
      throw UserError(str("[", call.node.op, "] ", call.node.at.text(), ": id ", id, " at position ", k,
                          " is outside the table's ", rows, " rows; ids must lie in [0, ", rows, ")"));
    for (int64_t w = 0; w < width; ++w) {
      size_t to = id * width + w, from = k * width + w;
      if (u.real())
        out.f[to] += u.f[from];
      else
        out.i[to] = static_cast<int64_t>(static_cast<uint64_t>(out.i[to]) + static_cast<uint64_t>(u.i[from]));
    }
  }
  return {out};
}

std::vector<DenseArray> index_add(const Call& call) { return add_rows(call, call.in[0], call.in[1]); }
std::vector<DenseArray> embedding_grad(const Call& call) { return add_rows(call, call.in[1], call.in[0]); }

const FormulaRow kCreation[] = {
    {"full", full}, {"iota", iota}, {"rng_bits", rng_bits}, {"rng_uniform", rng_uniform}};
const FormulaRow kView[] = {
    {"reshape", reshape},
    {"permute", permute},
    {"broadcast", broadcast},
    {"slice", slice},
    {"pad", pad},
    {"concat", concat},
    {"take", take},
    {"embedding", take},
    {"index_add", index_add},
    {"embedding_grad", embedding_grad},
};

}  // namespace

std::span<const FormulaRow> creation_formulas() { return kCreation; }
std::span<const FormulaRow> view_formulas() { return kView; }

}  // namespace lockstep::compiler::reference
