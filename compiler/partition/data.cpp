// Partition over the data dims.
#include "compiler/partition/data.h"

#include <map>

#include "core/base/error.h"
#include "core/ir/walk.h"
#include "core/ops/functions.h"
#include "core/ops/op.h"

namespace lockstep {

namespace {
// What is known of an old value in the new graph: whole on every rank, or rows of dim 0, or both.
struct Forms {
  ValueId whole = kNoValue;
  ValueId rows = kNoValue;
  ValueId row_squares = kNoValue;
  bool scalar = false;  // rows is [1] for a value of rank 0
};

class Partitioner {
 public:
  Partitioner(const Graph& old, const PassContext& context) : old_(old), context_(context), forms_(old.values.size()) {
    made_ = std::make_shared<Builder>();
    made_->graph.mesh = context.mesh;
  }

  Graph run() {
    for (int dim = 0; dim < context_.mesh.ndim(); ++dim)
      if (context_.mesh.dim_names[dim] == "dp_replicate")
        dim_ = dim;
      else if (context_.mesh.shape[dim] > 1)
        throw UserError(
            str("mesh dim ", context_.mesh.dim_names[dim], " has size ", context_.mesh.shape[dim],
                ": this version places data parallelism on dp_replicate only; use mesh.shape [-1] with dim_names [\"dp_replicate\"]"));
    if (dim_ < 0) throw UserError(str("the mesh ", text(context_.mesh), " has no dim dp_replicate; add one (its size may be 1)"));
    Graph& graph = made_->graph;
    for (const auto& input : old_.inputs) {
      ValueId v = graph.add_input(input.kind, input.name, old_[input.value].dtype, old_[input.value].shape);
      Layout layout = input.kind == InputKind::state ? context_.layout_of(input.name) : Layout{};
      // What belongs to a micro-batch: its data, and the index of its first sample.
      if (input.kind == InputKind::batch || input.name == "rng.sample") layout.set(dim_, PerLane());
      graph[v].layout = layout;
      bool rows = layout.on(dim_) == Shard(0);
      (rows ? forms(input.value).rows : forms(input.value).whole) = v;
    }
    std::vector<ValueId> data;
    for (const auto& input : old_.inputs)
      if (input.kind == InputKind::batch || input.name == "rng.sample") data.push_back(input.value);
    of_data_ = depends_on(old_, data);
    for (const Node& node : old_.nodes) rewrite(node);
    for (const auto& output : old_.outputs) {
      bool rows = false;
      if (output.kind == OutputKind::state) rows = context_.layout_of(output.name).on(dim_) == Shard(0);
      graph.add_output(output.kind, output.name, rows ? rows_of(output.value, {}) : whole(output.value, {}));
    }
    return prune(graph);
  }

 private:
  Forms& forms(ValueId old) { return forms_[static_cast<size_t>(old)]; }
  Tensor tensor(ValueId v) { return {made_, v}; }
  Attrs on_dim() const { return {{"mesh_dim", Attr(context_.mesh.dim_names[dim_])}}; }
  Attrs alone() const {
    return {{"mesh_dim", Attr(context_.mesh.dim_names[dim_])}, {"bucket", Attr(int64_t{0})}};
  }  // the bucket pass merges
  std::vector<Tensor> emit(const std::string& op, const std::vector<Tensor>& inputs, const Attrs& attrs, const SourceLine& at) {
    return apply_at(op, inputs, attrs, at, made_);
  }
  Tensor wait(Tensor handle, const std::string& types, const SourceLine& at) {
    return emit("wait", {handle}, {{"types", Attr(types)}}, at)[0];
  }

  ValueId whole(ValueId old, const SourceLine& asked) {
    Forms& f = forms(old);
    if (f.whole != kNoValue) return f.whole;
    LS_CHECK(f.rows != kNoValue, "value %", old, " has no form");
    SourceLine at = line_of(old, asked);
    Tensor rows = tensor(f.rows);
    Tensor handle = emit("all_gather_start", {rows}, alone(), at)[0];
    Tensor result = wait(handle, rows.text(), at);
    if (f.scalar) result = emit("reshape", {result}, {{"shape", Attr(std::vector<int64_t>{})}}, at)[0];
    return f.whole = result.id();
  }
  ValueId rows_of(ValueId old, const SourceLine& asked) {
    Forms& f = forms(old);
    if (f.rows != kNoValue) return f.rows;
    SourceLine at = line_of(old, asked);
    if (old_[old].shape.empty())
      throw UserError(str("[update] ", at.text(), ": a parameter of rank 0 cannot be split into rows; give it the shape [1]"));
    return f.rows = emit("local_rows", {tensor(f.whole)}, on_dim(), at)[0].id();
  }
  SourceLine line_of(ValueId old, const SourceLine& asked) const {
    if (!asked.file.empty() || !asked.scope.empty()) return asked;
    NodeId producer = old_[old].producer;
    return producer >= 0 ? old_.nodes[static_cast<size_t>(producer)].at : asked;
  }

  void rewrite(const Node& node) {
    if (node.op == "sum_lanes") return sum_lanes(node);
    if (node.op == "global_norm") return global_norm(node);
    // A rounded copy of rows is rows: what is gathered is the smaller copy.
    const bool smaller =
        node.op == "convert" && size_of(old_[node.outputs[0]].dtype) < size_of(old_[node.inputs[0]].dtype);
    if (smaller && forms(node.inputs[0]).whole == kNoValue && !forms(node.inputs[0]).scalar) {
      forms(node.outputs[0]).rows = emit("convert", {tensor(forms(node.inputs[0]).rows)}, node.attrs, node.at)[0].id();
      return;
    }
    std::vector<Tensor> inputs;
    bool update = op_row(node.op).kind == OpKind::update;
    for (ValueId v : node.inputs) {
      bool rows = update && !old_[v].shape.empty();
      inputs.push_back(tensor(rows ? rows_of(v, node.at) : whole(v, node.at)));
    }
    auto outputs = emit(node.op, inputs, node.attrs, node.at);
    for (size_t i = 0; i < outputs.size(); ++i) (update ? forms(node.outputs[i]).rows : forms(node.outputs[i]).whole) = outputs[i].id();
  }

  void sum_lanes(const Node& node) {
    Tensor x = tensor(whole(node.inputs[0], node.at));
    if (!of_data_[static_cast<size_t>(node.inputs[0])]) x = of_micro_batch(x, node.at);
    Forms& f = forms(node.outputs[0]);
    if (!is_float(x.dtype())) {
      Tensor count = emit("lane_count", {x}, on_dim(), node.at)[0];
      f.whole = all_reduce(count, node.at).id();
      return;
    }
    if (x.dtype() != DType::f32)
      throw UserError(str("[sum_lanes] ", node.at.text(), ": a sum over micro-batches of ", x.text(),
                          "; losses and gradients are f32, convert it first"));
    f.scalar = x.shape().empty();
    if (f.scalar) x = emit("reshape", {x}, {{"shape", Attr(std::vector<int64_t>{1})}}, node.at)[0];
    Tensor handle = emit("lane_exchange_start", {x}, alone(), node.at)[0];
    Tensor mine = wait(handle, x.text(), node.at);
    auto sums = emit("lane_sum", {mine}, on_dim(), node.at);
    f.rows = sums[0].id();
    f.row_squares = sums[1].id();
  }

  // A value that no data reaches (a constant count, the gradient of a parameter that the loss reads alone) counts once per micro-batch:
  // plus a zero that is of the micro-batch, since nothing is less than itself.
  Tensor of_micro_batch(Tensor x, const SourceLine& at) {
    AtLine line(at);
    for (const auto& input : old_.inputs)
      if (input.kind == InputKind::batch) {
        Tensor batch = tensor(forms(input.value).whole);
        std::vector<int64_t> dims;
        for (int d = 0; d < batch.ndim(); ++d) dims.push_back(d);
        Tensor zero = sum(convert(less(batch, batch), x.dtype()), dims);
        return x + broadcast_to(zero, x.shape());
      }
    throw UserError(str("[sum_lanes] ", at.text(), ": the step has no batch input to sum over"));
  }

  void global_norm(const Node& node) {
    std::vector<Tensor> squares;
    for (ValueId v : node.inputs) {
      if (forms(v).row_squares == kNoValue)
        throw UserError(
            str("[global_norm] ", node.at.text(), ": reads a value that is no gradient summed over micro-batches; pass what grad() gave"));
      squares.push_back(tensor(forms(v).row_squares));
    }
    Tensor limbs = all_reduce(emit("norm_limbs", squares, on_dim(), node.at)[0], node.at);
    forms(node.outputs[0]).whole = emit("norm_of_limbs", {limbs}, on_dim(), node.at)[0].id();
  }

  Tensor all_reduce(Tensor x, const SourceLine& at) {
    Attrs attrs = on_dim();
    attrs.set("op", std::string("sum"));
    Tensor handle = emit("all_reduce_start", {x}, attrs, at)[0];
    return wait(handle, x.text(), at);
  }

  const Graph& old_;
  const PassContext& context_;
  std::shared_ptr<Builder> made_;
  std::vector<Forms> forms_;
  int dim_ = -1;
  std::vector<bool> of_data_;  // per old value: computed from a micro-batch
};
}  // namespace

Graph partition_data(Graph graph, const PassContext& context) { return Partitioner(graph, context).run(); }

}  // namespace lockstep
