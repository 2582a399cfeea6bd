// Error texts, source lines and shapes that the functions share.
#include "core/ops/checks.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace lockstep::functions {

void refuse(std::string_view name, const std::vector<Tensor>& inputs, Here at, const std::string& what) {
  SourceLine line =
      !inputs.empty() && inputs[0].defined() ? source_line(*inputs[0].builder(), at) : line_of(at);
  refuse(name, line, what);
}
void refuse(std::string_view name, const SourceLine& line, const std::string& what) {
  throw UserError(str("[", name, "] ", line.text(), ": ", what));
}
void need(std::string_view name, const std::vector<Tensor>& inputs, Here at) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) refuse(name, inputs, at, str("input ", i, " is an empty Tensor"));
}
void need_floats(std::string_view name, const std::vector<Tensor>& inputs, Here at) {
  need(name, inputs, at);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_float(inputs[i].dtype()))
      refuse(name, inputs, at, str("input ", i, " is ", inputs[i].text(), ", needs floats; convert it?"));
    if (inputs[i].dtype() != inputs[0].dtype() && !has_policy(inputs[0]))
      refuse(name, inputs, at,
             str("dtypes differ: input 0 ", inputs[0].text(), ", input ", i, " ", inputs[i].text(),
                 "; convert one?"));
  }
}
Tensor under_policy(std::string_view name, Tensor x, Here at) {
  return lockstep::under_policy(name, {x}, source_line(*x.builder(), at))[0];
}
void need_ids(std::string_view name, const Tensor& ids, Here at) {
  need(name, {ids}, at);
  if (ids.dtype() != DType::i32 && ids.dtype() != DType::i64)
    refuse(name, {ids}, at, str("ids are ", ids.text(), ", need i32 or i64; convert them?"));
}
void reads_by_ids(std::string_view name, const Tensor& ids, Here at, IdRead read) {
  read.ids = ids.id(), read.op = name, read.at = source_line(*ids.builder(), at);
  ids.builder()->id_reads.push_back(std::move(read));
}
Attr held(std::string_view name, const Tensor& x, const Number& number, Here at) {
  need(name, {x}, at);
  if (!number.fits(x.dtype())) refuse(name, {x}, at, not_held(number, x.dtype(), x.text()));
  return attr_of(number, x.dtype());
}
Attr held(std::string_view name, const Tensor& beside, const Number& number, DType dtype, Here at) {
  need(name, {beside}, at);
  if (!number.fits(dtype)) refuse(name, {beside}, at, not_held(number, dtype));
  return attr_of(number, dtype);
}
int64_t dim_of(std::string_view name, const Tensor& x, int64_t dim, Here at) {
  int64_t rank = x.ndim();
  if (dim < -rank || dim >= rank) refuse(name, {x}, at, str("dim ", dim, " is not a dim of ", x.text()));
  return dim < 0 ? dim + rank : dim;
}
std::vector<int64_t> dims_of(std::string_view name, const Tensor& x, std::vector<int64_t> dims, Here at) {
  for (int64_t& dim : dims) dim = dim_of(name, x, dim, at);
  std::sort(dims.begin(), dims.end());
  if (auto twice = std::adjacent_find(dims.begin(), dims.end()); twice != dims.end())
    refuse(name, {x}, at, str("dims ", dims, " names ", *twice, " twice"));
  return dims;
}
std::vector<int64_t> counted(int64_t first, int64_t last) {
  std::vector<int64_t> out(std::max<int64_t>(last - first, 0));
  std::iota(out.begin(), out.end(), first);
  return out;
}
std::vector<int64_t> all_dims(const Tensor& x) { return counted(0, x.ndim()); }

bool broadcast_shape(const Shape& a, const Shape& b, Shape& out) {
  size_t rank = std::max(a.size(), b.size());
  out.assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank],
            y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x != y && x != 1 && y != 1) return false;
    out[i] = x == 1 ? y : x;
  }
  return true;
}

int64_t stream_of(const Builder& builder, const char* what, std::initializer_list<OpId> made_by) {
  int64_t made = 0;
  for (const Node& node : builder.graph.nodes)
    for (OpId op : made_by) made += node.op == op;
  return static_cast<int64_t>(hash64(str(builder.scope, what, made)));
}

}  // namespace lockstep::functions
