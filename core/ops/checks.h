// Helpers for functions that make nodes: errors that name the user's line, checks of arguments, shapes.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops/apply.h"
#include "core/ops/held_number.h"
#include "core/ops/precision.h"
#include "core/ops/rules.h"

namespace lockstep::functions {

// UserError "[name] file:line (layer): what".
[[noreturn]] void refuse(std::string_view name, const std::vector<Tensor>& inputs, Here at,
                         const std::string& what);
[[noreturn]] void refuse(std::string_view name, const SourceLine& line, const std::string& what);
void need(std::string_view name, const std::vector<Tensor>& inputs, Here at);  // no empty Tensor
// No empty Tensor, and floats of one dtype, or of several under a policy.
void need_floats(std::string_view name, const std::vector<Tensor>& inputs, Here at);
void need_ids(std::string_view name, const Tensor& ids, Here at);  // i32 or i64
// Records a read by `ids` that no single op represents (composed losses, gather). `read` describes what is
// read; its value, name and line are filled in here. Ids of the data are checked when a batch is filled,
// constants when the step is compiled.
void reads_by_ids(std::string_view name, const Tensor& ids, Here at, IdRead read);
// The attribute for a number used with x, or created in a dtype. Throws UserError if that dtype cannot
// represent it.
Attr held(std::string_view name, const Tensor& x, const Number& number, Here at);
Attr held(std::string_view name, const Tensor& beside, const Number& number, DType dtype, Here at);
// Converts a dim that may count from the end into one that counts from 0.
int64_t dim_of(std::string_view name, const Tensor& x, int64_t dim, Here at);
// The same for a list: ascending, each named once.
std::vector<int64_t> dims_of(std::string_view name, const Tensor& x, std::vector<int64_t> dims, Here at);
std::vector<int64_t> all_dims(const Tensor& x);
std::vector<int64_t> counted(int64_t first, int64_t last);  // first ... last - 1

// NumPy's broadcast shape; false when the shapes do not broadcast.
bool broadcast_shape(const Shape& a, const Shape& b, Shape& out);

// The random stream for the next node of these ops: a hash of the layer, of `what` and of the number of such
// nodes traced so far. The same trace gives the same streams.
int64_t stream_of(const Builder& builder, const char* what, std::initializer_list<OpId> made_by);

// While an object lives, appended nodes take the user's line `at`: for a function that appends several nodes.
class InFunction {
 public:
  InFunction(const Tensor& x, Here at) : line_(source_line(*x.builder(), at)), at_(line_) {}

 private:
  SourceLine line_;
  AtLine at_;
};

// x, converted as the function `name` takes it under the policy of its graph.
Tensor under_policy(std::string_view name, Tensor x, Here at);

// f(x) of floats, computed in f32 (f64 for f64) and rounded once to x's dtype, which a policy may widen.
template <class F>
Tensor rounded_once(std::string_view name, Tensor x, Here at, const F& f) {
  need_floats(name, {x}, at);
  x = under_policy(name, x, at);
  InFunction line(x, at);
  const Precision unrounded(x, DType::f32);
  Tensor y = f(rules::wide(x));
  return y.dtype() == x.dtype() ? y : apply1(ops::convert, {y}, {{"dtype", x.dtype()}});
}

}  // namespace lockstep::functions
