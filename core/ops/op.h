// One op = one row of a table: types, placement rule, gradient, expansion or scalar code, and samples for its
// own tests. The sweep test walks the table and gives each row five laws. Codegen switches on kinds, never on
// names.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops/tensor.h"

namespace lockstep {

enum class OpKind {
  pointwise,  // out[i] = f(in[i]...): equal shapes, scalar code
  creation,   // full, iota: no tensor inputs
  random,     // Philox by global element index
  reduce,     // over attrs.dims, which vanish
  view,       // the same elements elsewhere: reshape, permute, broadcast, slice, pad, concat
  index,      // take, index_add
  contract,   // dot
  composite,  // kept whole through autodiff; expands into primitives unless a backend claims it
  update,  // writes state: adamw, sgd, update. Reads gradients that are whole (never PerLane, never Partial)
  lanes,   // sum_lanes and what partition makes of it
  collective,  // *_start and wait
  structural,  // grad, vjp, custom_gradient, fused
};

struct TypedShape {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TypedShape&) const = default;
};

// What a type rule sees.
struct InferContext {
  OpId op;
  const std::vector<TypedShape>& in;
  const Attrs& attrs;
  const SourceLine& at;
  [[noreturn]] void fail(const std::string& what) const;  // UserError "[op] file:line: what"
};

// What a gradient rule sees. `grad[i]` is empty when output i has no gradient.
struct VjpContext {
  const std::vector<Tensor>& in;
  const std::vector<Tensor>& out;
  const std::vector<Tensor>& grad;
  const std::vector<bool>& wants;  // per input: whether its gradient is needed
  const Attrs& attrs;
};

struct ExpandContext {
  const std::vector<Tensor>& in;
  const Attrs& attrs;
  std::shared_ptr<Builder> builder;
};

// Inputs for the sweep: types and attributes; float elements uniform in [lo, hi], integers in [int_lo,
// int_hi).
struct Sample {
  std::vector<TypedShape> in;
  Attrs attrs = {};
  double lo = -2, hi = 2;
  int64_t int_lo = 0, int_hi = 4;
};

// A collective is in flight between its start and its wait.
enum class CollectiveHalf { none, start, wait };
// The library calls that a target may have for an op.
enum class Library { none, contraction, convolution, attention, row_sums, pooling, float8 };

// What a type rule may read of a node: names and types are checked before it runs.
enum class AttrType { flag, integer, number, word, list, dtype };  // an integer is a number, too
struct AttrField {
  std::string_view name;
  AttrType type = AttrType::flag;
  bool optional = false;
};

// What a language must know of scalar code beyond its text.
// call: functions of the prelude, and operators that are the same everywhere. neg to shr: one operator, which
// a language may leave undefined for some integers. convert, bitcast: from one dtype to another. select: one
// of its operands.
enum class ScalarVerb : uint8_t { call, neg, add, sub, mul, div, shl, shr, convert, bitcast, select };

// One element of a pointwise primitive: C++ on scalars and on vectors alike, in terms of the prelude's ls_*
// functions. It names operands {0}, {1}, {2}, attributes {attr}, and the dtype of operand 0 {from}. A
// comparison gives a mask, and ls_where, ls_not, &, | and ^ take masks.
struct ScalarCode {
  std::string_view text = {};
  ScalarVerb verb = ScalarVerb::call;
  int cost = 1;  // about vector instructions, for f32
  ScalarCode() = default;
  ScalarCode(const char* code, int price = 1) : text(code), cost(price) {}
  ScalarCode(const char* code, ScalarVerb what) : text(code), verb(what) {}
};

struct OwnCode;  // core/ops/register.h

struct Op {
  OpId id;
  OpKind kind = OpKind::pointwise;
  std::vector<AttrField> attrs = {};  // all that a node of it may have
  // Output types; throws UserError through context.fail.
  std::function<std::vector<TypedShape>(const InferContext&)> infer = {};
  // Placement rule for these inputs, as a string over named dims: "...mk,...kn->...mn". A letter kept in the
  // output may be sharded, a letter that vanishes leaves Partial(sum); "..." is any number of leading dims,
  // equal in all. "" = may not be split. A letter written upper-case may not be sharded, nor may a dim
  // written '#', which has no name. A letter that stands in outputs only may be sharded: each rank makes its
  // own part.
  std::function<std::string(const InferContext&)> split = {};
  // One gradient per input (empty Tensor: none). Unset: not differentiable.
  std::function<std::vector<Tensor>(const VjpContext&)> vjp = {};
  // The op in terms of primitives (composites and updates). Unset: a primitive.
  std::function<std::vector<Tensor>(const ExpandContext&)> expand = {};
  ScalarCode scalar = {};  // of a pointwise primitive
  // Arguments in which the op is linear: a Partial(sum) may pass through them. One at a time (mul: the other
  // argument is whole), or, when `joint`, all of them together (add: all are Partial, or none is).
  std::vector<int> linear = {};
  std::vector<Sample> samples = {};
  bool joint = false;
  // Trailing outputs that are statistics saved for the gradient (mean, rstd, lse): no gradient flows into
  // them, and vjp ignores one.
  int statistics = 0;
  Library library = Library::none;
  CollectiveHalf half = CollectiveHalf::none;
  std::string_view verb = {};               // of a start: what travels, as reports say it
  bool of_model = false;                    // a collective of a model dim, between values of one micro-batch
  std::shared_ptr<const OwnCode> own = {};  // of a registered row
};

std::string types_text(const std::vector<TypedShape>& types);  // "f32[4,8];i64[];u8[0]"

// Families; op.cpp lists them.
std::span<const Op> pointwise_ops();
std::span<const Op> creation_ops();  // creation and random
std::span<const Op> reduce_ops();
std::span<const Op> view_ops();       // view and index
std::span<const Op> contract_ops();   // dot, linear, sdpa and their gradients
std::span<const Op> composite_ops();  // and products in float8
std::span<const Op> update_ops();
std::span<const Op> lane_ops();  // lanes, collectives, structural

// Built-in rows and those that were registered before this call, in this order. The list stays as it is.
const std::vector<const Op*>& all_ops();
const Op* find_op(OpId op);  // nullptr when there is no such row
const Op& op_row(OpId op);   // InternalError naming the nearest row
// Where the op table is: two copies of this code in one process have one each.
const void* op_table_address();
// Puts a row into the table, for the life of the process: register_op's part here. The caller holds a lock of
// its own.
void add_row(Op row);
std::string unknown_op(OpId op);  // no op is named "relu6"; did you mean "relu"?

// Output types of a node from its inputs and attributes. UserError "[op] file:line: what" when they do not
// fit: an attribute that the row does not have (and the nearest that it has), one that is missing or of
// another type.
std::vector<TypedShape> infer(const Op& row, const InferContext& context);
std::vector<TypedShape> infer(const Graph& graph, const Node& node);
// verify_structure, and every node's types as its row infers them. InternalError naming `after` and the node.
void verify(const Graph& graph, std::string_view after);

// A placement rule, parsed: one letter per tensor dim of every input and output ("..." expanded to unique
// letters).
struct SplitRule {
  std::vector<std::string> in, out;
  // Letters that may not be sharded: upper-case ones and '#', which is any unnamed dim (sizes may differ).
  std::string fixed;
};
// The rule "" gives '#' for every dim. InternalError when rule and types do not fit (counts, ranks, two sizes
// for one letter).
SplitRule parse_split_rule(std::string_view rule, const std::vector<TypedShape>& in,
                           const std::vector<TypedShape>& out);

}  // namespace lockstep
