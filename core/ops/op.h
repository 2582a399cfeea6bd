// One op = one row of a table: types, placement rule, gradient, expansion or scalar code, and samples for its
// own tests. The sweep test checks five laws for each row. Codegen switches on kinds, never on names.
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
  view,       // the same elements at other positions: reshape, permute, broadcast, slice, pad, concat
  index,      // take, index_add
  contract,   // dot
  composite,  // kept whole through autodiff; expands into primitives unless a backend claims it
  update,  // writes state: adamw, sgd, update. Reads gradients that are whole (never PerLane, never Partial)
  lanes,   // sum_lanes and the ops that partition replaces it with
  collective,  // *_start and wait
  structural,  // grad, vjp, custom_gradient, fused
};

struct TypedShape {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TypedShape&) const = default;
};

// The input of a type rule.
struct InferContext {
  OpId op;
  const std::vector<TypedShape>& in;
  const Attrs& attrs;
  const SourceLine& at;
  [[noreturn]] void fail(const std::string& what) const;  // UserError "[op] file:line: what"
};

// The input of a gradient rule. `grad[i]` is empty if output i has no gradient.
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

// A collective is in flight (started, not yet complete) between its start and its wait.
enum class CollectiveHalf { none, start, wait };
// The library calls that a target may have for an op.
enum class Library { none, contraction, convolution, attention, row_sums, pooling, float8 };

// The type of an attribute; names and types of attributes are checked before the type rule runs.
enum class AttrType { flag, integer, number, word, list, dtype };  // an integer is a number, too
struct AttrField {
  std::string_view name;
  AttrType type = AttrType::flag;
  bool optional = false;
};

// The kind of a piece of scalar code, which kernel languages need in addition to its text. call: functions of
// the prelude, and operators that are the same in every language. neg to shr: one operator, which a language
// may leave undefined for some integers. convert, bitcast: from one dtype to another. select: one of its
// operands.
enum class ScalarVerb : uint8_t { call, neg, add, sub, mul, div, shl, shr, convert, bitcast, select };

// One element of a pointwise primitive: C++ that works on scalars and on vectors, written with the prelude's
// ls_* functions. It names operands {0}, {1}, {2}, attributes {attr}, and the dtype of operand 0 {from}. A
// comparison gives a mask, and ls_where, ls_not, &, | and ^ take masks.
struct ScalarCode {
  std::string_view text = {};
  ScalarVerb verb = ScalarVerb::call;
  int cost = 1;  // about vector instructions, for f32
  ScalarCode() = default;
  ScalarCode(const char* code, int price = 1) : text(code), cost(price) {}
  ScalarCode(const char* code, ScalarVerb what) : text(code), verb(what) {}
};

struct OwnCode;  // core/table/register.h

struct Op {
  OpId id;
  OpKind kind = OpKind::pointwise;
  std::vector<AttrField> attrs = {};  // all attributes that a node may have
  // Output types; throws UserError through context.fail.
  std::function<std::vector<TypedShape>(const InferContext&)> infer = {};
  // Placement rule for these inputs, as a string over named dims: "...mk,...kn->...mn". A letter that is kept
  // in the output may be sharded; sharding a letter that is summed leaves Partial(sum). "..." is any number
  // of leading dims, equal in all. "" = may not be split. An upper-case letter may not be sharded, nor may
  // '#', a dim without a name. A letter only in outputs may be sharded: each rank makes its own part.
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
  std::string_view verb = {};  // of a start: the verb in reports
  bool of_model = false;       // a collective along a model dim (tp), between values of one micro-batch
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

// Built-in rows, then those registered before this call. The list does not change later.
const std::vector<const Op*>& all_ops();
const Op* find_op(OpId op);  // nullptr when there is no such row
const Op& op_row(OpId op);   // InternalError naming the nearest row
// The address of the op table. Two copies of this code in one process have different tables.
const void* op_table_address();
// Adds a row to the table for the life of the process, for register_op. The caller holds its own lock.
void add_row(Op row);
std::string unknown_op(OpId op);  // no op is named "relu6"; did you mean "relu"?

// Output types of a node from its inputs and attributes. Throws UserError "[op] file:line: what" if they do
// not fit: an attribute that the row does not have (with its nearest one), a missing one, or one of another
// type.
std::vector<TypedShape> infer(const Op& row, const InferContext& context);
std::vector<TypedShape> infer(const Graph& graph, const Node& node);
// verify_structure, and compares every node's types with those that its row infers. Throws InternalError,
// naming `after` and the node.
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
