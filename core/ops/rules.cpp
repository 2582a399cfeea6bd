// Checks, letters and samples that the rows of the op table share.
#include "core/ops/rules.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/apply.h"

namespace lockstep::rules {

DType statistic(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

std::string text(const TypedShape& type) { return shape_text(type.dtype, type.shape); }
std::string in_text(const InferContext& c, size_t i) { return text(c.in[i]); }

void expect_count(const InferContext& c, size_t least, size_t most) {
  if (c.in.size() < least || c.in.size() > most)
    c.fail(str("takes ",
               least == most        ? str(least)
               : most == size_t(-1) ? str(least, " or more")
                                    : str(least, " to ", most),
               " inputs, got ", c.in.size()));
}
void expect_count(const InferContext& c, size_t count) { expect_count(c, count, count); }

void expect_float(const InferContext& c, size_t i) {
  if (!is_float(c.in[i].dtype))
    c.fail(str("input ", i, " is ", in_text(c, i), ", needs floats; convert it?"));
}
void expect_dtype(const InferContext& c, size_t i, DType dtype, std::string_view role) {
  if (c.in[i].dtype != dtype)
    c.fail(str(role, " is ", in_text(c, i), ", needs dtype ", name(dtype), "; convert it?"));
}
void expect_rank(const InferContext& c, size_t i, size_t rank, std::string_view role) {
  if (c.in[i].shape.size() != rank) c.fail(str(role, " is ", in_text(c, i), ", needs ", rank, " dims"));
}
void expect_like(const InferContext& c, size_t i, size_t j) {
  if (c.in[i].shape != c.in[j].shape)
    c.fail(str("shapes differ: input ", i, " ", in_text(c, i), ", input ", j, " ", in_text(c, j)));
  if (c.in[i].dtype != c.in[j].dtype)
    c.fail(str("dtypes differ: input ", i, " ", in_text(c, i), ", input ", j, " ", in_text(c, j),
               "; convert one?"));
}
void expect_held(const InferContext& c, std::string_view attr, DType dtype) {
  const Number number = number_of(c.attrs, attr, dtype);
  if (!number.fits(dtype)) c.fail(str("the attribute \"", attr, "\" is ", not_held(number, dtype)));
}
void expect_scalar(const InferContext& c, size_t i, DType dtype, std::string_view role) {
  if (c.in[i] != TypedShape{dtype, {}})
    c.fail(str(role, " is ", in_text(c, i), ", needs ", name(dtype), "[]"));
}

std::vector<int64_t> checked_dims(const InferContext& c, const std::vector<int64_t>& dims, size_t rank,
                                  std::string_view role) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= static_cast<int64_t>(rank))
      c.fail(str(role, " ", dims, ": ", dims[i], " is not a dim of a tensor of ", rank, " dims"));
    if (std::find(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(i), dims[i]) !=
        dims.begin() + static_cast<std::ptrdiff_t>(i))
      c.fail(str(role, " ", dims, " names ", dims[i], " twice"));
  }
  return dims;
}

std::vector<int64_t> free_dims(size_t rank, const std::vector<int64_t>& taken) {
  std::vector<int64_t> out;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (std::find(taken.begin(), taken.end(), d) == taken.end()) out.push_back(d);
  return out;
}

std::vector<TypedShape> parse_types(std::string_view text) {
  std::vector<TypedShape> out;
  if (text.empty()) return out;
  for (const std::string& part : split(text, ';')) {
    size_t open = part.find('[');
    LS_CHECK(open != std::string::npos && part.back() == ']', "types \"", text, "\": \"", part,
             "\" is not dtype[sizes]");
    TypedShape type{parse_dtype(part.substr(0, open)), {}};
    std::string sizes = part.substr(open + 1, part.size() - open - 2);
    if (!sizes.empty())
      for (const std::string& size : split(sizes, ',')) type.shape.push_back(std::stoll(size));
    out.push_back(std::move(type));
  }
  return out;
}

std::vector<Tensor> no_gradient(const VjpContext& c) { return std::vector<Tensor>(c.in.size()); }

Tensor wide(Tensor x) {
  const DType to = statistic(x.dtype());
  return x.dtype() == to ? x : apply1(ops::convert, {x}, {{"dtype", to}});
}

char Letters::next() {
  LS_CHECK(next_ <= 'z', "a placement rule over more than 26 dims");
  return next_++;
}
std::string join_rule(const std::vector<std::string>& in, const std::vector<std::string>& out) {
  return join(in, ",") + "->" + join(out, ",");
}

std::string same_dims(const InferContext& c) {
  return join_rule(std::vector<std::string>(c.in.size(), "..."), {"..."});
}
std::string unsplit(const InferContext&) { return ""; }

TypedShape f32(Shape shape) { return {DType::f32, std::move(shape)}; }
TypedShape i32(Shape shape) { return {DType::i32, std::move(shape)}; }
TypedShape i64(Shape shape) { return {DType::i64, std::move(shape)}; }
TypedShape boolean(Shape shape) { return {DType::boolean, std::move(shape)}; }
Sample floats(Types in, Attrs attrs, double lo, double hi) {
  return {std::move(in), std::move(attrs), lo, hi, 0, 4};
}
Sample integers(Types in, Attrs attrs, int64_t lo, int64_t hi) {
  return {std::move(in), std::move(attrs), -2, 2, lo, hi};
}

}  // namespace lockstep::rules
