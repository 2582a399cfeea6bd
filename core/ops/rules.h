// Helpers for the rows of the op table: checks of type rules, letters of placement rules, samples, and a few
// tensor shapes.
#pragma once

#include "core/ops/held_number.h"
#include "core/ops/op.h"

namespace lockstep::rules {

using Types = std::vector<TypedShape>;

// The dtype of statistics, sums and losses of a float dtype: f64 for f64, else f32.
DType statistic(DType dtype);

// Type checks; each fails through context.fail naming the input and its type.
void expect_count(const InferContext& c, size_t least, size_t most);  // number of inputs
void expect_count(const InferContext& c, size_t count);
void expect_float(const InferContext& c, size_t i);
void expect_dtype(const InferContext& c, size_t i, DType dtype, std::string_view role);
void expect_rank(const InferContext& c, size_t i, size_t rank, std::string_view role);
void expect_like(const InferContext& c, size_t i, size_t j);  // equal dtype and shape
void expect_scalar(const InferContext& c, size_t i, DType dtype, std::string_view role);
// A number that the dtype represents
void expect_held(const InferContext& c, std::string_view attr, DType dtype);
std::string in_text(const InferContext& c, size_t i);  // "f32[2,3]"
std::string text(const TypedShape& type);
// Dim `name` of attrs, negative from the end; fails when out of range of input i.
std::vector<int64_t> checked_dims(const InferContext& c, const std::vector<int64_t>& dims, size_t rank,
                                  std::string_view role);  // distinct, in range
// The dims that are not in `taken`, ascending.
std::vector<int64_t> free_dims(size_t rank, const std::vector<int64_t>& taken);
std::vector<TypedShape> parse_types(std::string_view text);  // "f32[4,8];f32[4]"

// Convert to the statistic dtype (no node for f32, f64).
Tensor wide(Tensor x);

// Fresh letters for a placement rule.
class Letters {
 public:
  char next();  // a, b, c, ...
 private:
  char next_ = 'a';
};
// "ab,bc->ac"
std::string join_rule(const std::vector<std::string>& in, const std::vector<std::string>& out);

// Placement rules that many rows share.
// All inputs have the rank of the first one, one output: "...,...->...".
std::string same_dims(const InferContext& c);
std::string unsplit(const InferContext& c);  // ""

// The gradient rule of a row whose inputs have no gradient.
std::vector<Tensor> no_gradient(const VjpContext& c);

// Samples.
TypedShape f32(Shape shape);
TypedShape i32(Shape shape);
TypedShape i64(Shape shape);
TypedShape boolean(Shape shape);
Sample floats(Types in, Attrs attrs = {}, double lo = -2, double hi = 2);
Sample integers(Types in, Attrs attrs = {}, int64_t lo = 0, int64_t hi = 4);

}  // namespace lockstep::rules
