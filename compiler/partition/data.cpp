// Partition over the data dims: rewrites the graph with split values and explicit collectives.
#include "compiler/partition/data.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/functions/functions.h"
#include "core/ir/walk.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
// The forms of an old value in the new graph, by level. Level 0 is whole on every rank. Level 1 is split over
// the first data dim of the mesh in the order of splits (dp_shard, then dp_replicate), and so on. At the last
// level each rank has the rows that it updates.
struct Forms {
  ValueId level[3] = {kNoValue, kNoValue, kNoValue};
  ValueId row_squares;
  bool scalar = false;  // split forms are [1] for a value of rank 0
};

class Partitioner {
 public:
  Partitioner(const Graph& old, const PassContext& context)
      : old_(old), context_(context), forms_(old.values.size()) {
    made_ = std::make_shared<Builder>();
    made_->graph.mesh = context.mesh;
    Mesh& mesh = made_->graph.mesh;
    // A mesh without data dims has one data rank.
    if (mesh.find("dp_shard") < 0 && mesh.find("dp_replicate") < 0)
      mesh.shape.push_back(1), mesh.dim_names.emplace_back("dp_replicate");
    for (const char* name : {"dp_shard", "dp_replicate"})
      if (int dim = mesh.find(name); dim >= 0) dims_.push_back(dim);
  }

  Graph run() {
    const Mesh& mesh = made_->graph.mesh;
    for (int dim = 0; dim < mesh.ndim(); ++dim)
      if (!is_data_dim(mesh.dim_names[dim]) && mesh.dim_names[dim] != "tp" &&
          mesh.shape[dim] > 1)  // partition_model handled it
        throw UserError(str("mesh dim ", mesh.dim_names[dim], " has size ", mesh.shape[dim],
                            ": this version splits work over dp_replicate, dp_shard and tp; give it size 1, "
                            "or leave it out"));
    Graph& graph = made_->graph;
    for (const auto& input : old_.inputs) {
      ValueId v = graph.add_input(input.kind, input.name, old_[input.value].dtype, old_[input.value].shape);
      Layout layout = input.kind == InputKind::state ? context_.layout_of(input.name) : Layout{};
      const int level = level_of(input.name, layout);
      // Values of a micro-batch: its data, and the index of its first sample.
      if (input.kind == InputKind::batch || input.name == "rng.sample")
        for (int dim : dims_) layout.set(dim, PerLane());
      graph[v].layout = layout;
      forms(input.value).level[level] = v;
    }
    std::vector<ValueId> data;
    for (const auto& input : old_.inputs)
      if (input.kind == InputKind::batch || input.name == "rng.sample") data.push_back(input.value);
    of_data_ = depends_on(old_, data);
    find_sparse();
    for (const Node& node : old_.nodes) rewrite(node);
    for (const auto& output : old_.outputs) {
      const int level =
          output.kind == OutputKind::state ? level_of(output.name, context_.layout_of(output.name)) : 0;
      graph.add_output(output.kind, output.name, get(output.value, level, {}));
    }
    return prune(graph);
  }

 private:
  Forms& forms(ValueId old) { return forms_[old]; }
  Tensor tensor(ValueId v) { return {made_, v}; }
  int rows() const { return static_cast<int>(dims_.size()); }  // the last level
  const std::string& dim_name(int dim) const { return made_->graph.mesh.dim_names[dim]; }
  // All data dims together, under the name that collectives use.
  Attrs on_data() const {
    return {{"mesh_dim", Attr(rows() == 1 ? dim_name(dims_[0]) : std::string(kDataDims))}};
  }
  static Attrs alone(Attrs attrs) {
    attrs.set("bucket", int64_t{0});  // the bucket pass merges
    return attrs;
  }
  std::vector<Tensor> emit(OpId op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                           const SourceLine& at) {
    return apply_at(op, inputs, attrs, at, made_);
  }
  Tensor wait(Tensor handle, const std::string& types, const SourceLine& at) {
    return emit(ops::wait, {handle}, {{"types", Attr(types)}}, at)[0];
  }

  // The level of a tensor of the state on the data dims.
  int level_of(const std::string& name, const Layout& layout) const {
    int level = 0;
    for (size_t d = 0; d < dims_.size(); ++d) {
      Placement place = layout.on(dims_[d]);
      if (place == Replicate()) continue;
      if (!(place == Shard(0)))
        throw UserError(str("[place] \"", name, "\" is ", text(place), " on ", dim_name(dims_[d]),
                            "; data dims split rows: use shard(0) or replicate"));
      if (level != static_cast<int>(d))
        throw UserError(str("[place] \"", name, "\" is Shard(0) on ", dim_name(dims_[d]),
                            " and Replicate on ", dim_name(dims_[0]),
                            ": dp_shard is split first; make it shard(0) on ", dim_name(dims_[0]), " too"));
      ++level;
    }
    return level;
  }

  // The value at a level: a slice of an existing form if that has a lower level, else gathered, one dim after
  // another.
  ValueId get(ValueId old, int level, const SourceLine& asked) {
    Forms& f = forms(old);
    if (f.level[level] != kNoValue) return f.level[level];
    SourceLine at = line_of(old, asked);
    for (int held = level - 1; held >= 0; --held) {
      if (f.level[held] == kNoValue) continue;
      if (old_[old].shape.empty())
        throw UserError(str("[update] ", at.text(),
                            ": a parameter of rank 0 cannot be split into rows; give it the shape [1]"));
      Attrs attrs = level - held == 1 ? Attrs{{"mesh_dim", Attr(dim_name(dims_[held]))}} : on_data();
      return f.level[level] = emit(ops::local_rows, {tensor(f.level[held])}, attrs, at)[0].id();
    }
    LS_CHECK(level < rows(), "value %", old, " has no form");
    Tensor more = tensor(get(old, level + 1, asked));
    Attrs attrs{{"mesh_dim", Attr(dim_name(dims_[level]))}};
    Tensor result = wait(emit(ops::all_gather_start, {more}, alone(attrs), at)[0], more.text(), at);
    if (level == 0 && forms(old).scalar)
      result = emit(ops::reshape, {result}, {{"shape", Attr(std::vector<int64_t>{})}}, at)[0];
    return forms(old).level[level] = result.id();
  }
  ValueId whole(ValueId old, const SourceLine& asked) { return get(old, 0, asked); }
  SourceLine line_of(ValueId old, const SourceLine& asked) const {
    if (!asked.file.empty() || !asked.scope.empty()) return asked;
    NodeId producer = old_[old].producer;
    return producer.valid() ? old_.node(producer).at : asked;
  }

  void rewrite(const Node& node) {
    if (node.op == ops::sum_lanes) return sum_lanes(node);
    if (node.op == ops::lane_rows) return lane_rows(node);
    if (node.op == ops::spread_rows) return spread_rows(node);
    if (node.op == ops::put_rows) return put_rows(node);
    if (node.op == ops::take && sparse_[node.inputs[0]]) return take_rows(node);
    if (node.op == ops::global_norm) return global_norm(node);
    if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return owned_[v]; }))
      return of_owned(node);
    // A rounded copy of rows consists of rows: the smaller copy is gathered.
    const bool smaller =
        node.op == ops::convert && size_of(old_[node.outputs[0]].dtype) < size_of(old_[node.inputs[0]].dtype);
    if (const Forms& held = forms(node.inputs.empty() ? ValueId(0) : node.inputs[0]);
        smaller && held.level[0] == kNoValue && !held.scalar) {
      int level = rows();
      while (held.level[level] == kNoValue) --level;
      forms(node.outputs[0]).level[level] =
          emit(ops::convert, {tensor(held.level[level])}, node.attrs, node.at)[0].id();
      return;
    }
    std::vector<Tensor> inputs;
    const bool update = op_row(node.op).kind == OpKind::update;
    if (update && old_[node.inputs[0]].shape.empty()) refuse_scalar(node);
    for (ValueId v : node.inputs)
      inputs.push_back(tensor(get(v, update && !old_[v].shape.empty() ? rows() : 0, node.at)));
    auto outputs = apply_again(node, inputs, made_);
    for (size_t i = 0; i < outputs.size(); ++i)
      forms(node.outputs[i]).level[update ? rows() : 0] = outputs[i].id();
  }

  // Updates work on rows, which belong to ranks, so a scalar is refused.
  [[noreturn]] void refuse_scalar(const Node& update) const {
    std::string name;
    for (const auto& input : old_.inputs)
      if (input.value == update.inputs[0]) name = str(" \"", input.name, "\"");
    throw UserError(str("[", update.op, "] ", update.at.text(), ": the parameter", name,
                        " has rank 0, and an update is made by rows, each by one rank; give it the shape "
                        "[1], which broadcasts in the same way"));
  }

  void sum_lanes(const Node& node) {
    // A gradient that was rounded travels in the rounded dtype: widening it is the first part of its sum.
    ValueId source = node.inputs[0];
    if (const NodeId made = old_[source].producer; made.valid())
      if (const Node& wide = old_.node(made);
          wide.op == ops::convert && old_[wide.inputs[0]].dtype == DType::bf16)
        source = wide.inputs[0];
    Tensor x = tensor(whole(source, node.at));
    if (!of_data_[node.inputs[0]]) x = of_micro_batch(x, node.at);
    Forms& f = forms(node.outputs[0]);
    if (!is_float(x.dtype())) {
      if (x.dtype() != DType::i64 || !x.shape().empty())
        throw UserError(str("[sum_lanes] ", node.at.text(), ": ", x.text(),
                            " is summed over micro-batches; integers "
                            "are summed as i64[], so reduce and "
                            "convert it first, or convert it to f32"));
      Tensor count = emit(ops::lane_count, {x}, on_data(), node.at)[0];
      f.level[0] = all_reduce(count, node.at).id();
      return;
    }
    if (x.dtype() != DType::f32 && source == node.inputs[0])
      throw UserError(str("[sum_lanes] ", node.at.text(), ": a sum over micro-batches of ", x.text(),
                          "; losses and gradients are f32, convert it first"));
    f.scalar = x.shape().empty();
    if (f.scalar) x = emit(ops::reshape, {x}, {{"shape", Attr(std::vector<int64_t>{1})}}, node.at)[0];
    Tensor handle = emit(ops::lane_exchange_start, {x}, alone(on_data()), node.at)[0];
    Tensor mine = wait(handle, x.text(), node.at);
    auto sums = emit(ops::lane_sum, {mine}, on_data(), node.at);
    f.level[rows()] = sums[0].id();
    f.row_squares = sums[1].id();
  }

  // Marks sparse tables and their moments, and values that are known only when the body runs, or after it.
  void find_sparse() {
    sparse_ = owned_ = PerValue<bool>(old_.values.size());
    std::vector<ValueId> of_step, summed;
    for (const auto& input : old_.inputs) {
      if (input.kind != InputKind::state) continue;
      sparse_[input.value] = context_.is_sparse && context_.is_sparse(input.name);
      const ValueId next = old_.find_output(input.name);
      if (sparse_[input.value] || (next != kNoValue && next != input.value)) of_step.push_back(input.value);
    }
    for (const Node& node : old_.nodes) {
      if (op_row(node.op).kind != OpKind::lanes) continue;
      of_step.insert(of_step.end(), node.outputs.begin(), node.outputs.end());
      if (node.op == ops::lane_rows) summed.insert(summed.end(), node.outputs.begin(), node.outputs.end());
    }
    of_step_ = depends_on(old_, of_step), summed_ = depends_on(old_, summed);
  }
  // Whether each rank has the rows of a sparse table that it owns.
  bool is_split(ValueId table) { return sparse_[table] && forms(table).level[1] != kNoValue; }
  ValueId held(ValueId table) { return forms(table).level[is_split(table) ? 1 : 0]; }

  // Rows of a sparse table. Rows that a micro-batch reads are brought before its body runs, if their ids
  // depend only on data, because other ranks may own them. Rows of summed gradients belong to the owner.
  void take_rows(const Node& node) {
    const ValueId table = node.inputs[0], old_ids = node.inputs[1];
    Attrs attrs = node.attrs;
    if (!summed_[old_ids] && !of_step_[old_ids]) {
      const auto [found, fresh] = fetched_.try_emplace({table, first_alike(old_ids)}, node.outputs[0]);
      if (!fresh) {
        forms(node.outputs[0]).level[0] = forms(found->second).level[0];
        return;
      }
      attrs.set("fetch", true);
    } else if (is_split(table) && !owned_[old_ids]) {
      refuse_ids(node);
    }
    const Tensor ids = tensor(whole(old_ids, node.at));
    forms(node.outputs[0]).level[0] = emit(ops::take, {tensor(held(table)), ids}, attrs, node.at)[0].id();
    owned_[node.outputs[0]] = owned_[old_ids];
  }
  // The first value with the same definition as v; backward may compute ids again.
  ValueId first_alike(ValueId v) {
    if (!old_[v].producer.valid()) return v;
    if (const auto known = alike_.find(v); known != alike_.end()) return known->second;
    const Node& node = old_.producer(v);
    if (node.op == ops::reshape && node.attrs.flag("again")) return alike_[v] = first_alike(node.inputs[0]);
    auto inputs_of = [&](const Node& of) {
      std::vector<ValueId> out;
      for (ValueId input : of.inputs) out.push_back(first_alike(input));
      return out;
    };
    const auto inputs = inputs_of(node);
    for (ValueId other : distinct_)
      if (const Node& first = old_.producer(other); first.op == node.op && first.attrs == node.attrs &&
                                                    old_[other].index == old_[v].index &&
                                                    inputs_of(first) == inputs)
        return alike_[v] = other;
    distinct_.push_back(v);
    return alike_[v] = v;
  }
  [[noreturn]] void refuse_ids(const Node& node) const {
    std::string name;
    for (const auto& input : old_.inputs)
      if (input.value == node.inputs[0]) name = input.name;
    throw UserError(str("[take] ", node.at.text(), ": ids of the sparse table \"", name,
                        "\" follow from weights or sums of the step, and its rows are split over dp_shard (",
                        context_.mesh.size("dp_shard"),
                        " ranks), which send them before a micro-batch begins: take rows by ids that follow "
                        "from the batch and from buffers that stay, or keep the table whole (mesh.zero 1 or "
                        "2, or a placement: replicate on dp_shard)"));
  }

  // Rows of all micro-batches, on every rank. If the table is whole, each rank adds the rows of every id, and
  // counts the squares of its part of them. Else it adds the rows of the ids that it owns, and counts their
  // squares. Along dp_replicate, where all ranks have the same rows, each counts its part.
  void lane_rows(const Node& node) {
    Attrs gather = on_data(), sum = on_data(), part = on_data();
    gather.set("of", node.attrs.word("of"));
    sum.set("rows", node.attrs.integer("rows"));
    const bool split = is_split(old_.find_input(node.attrs.word("of")));
    if (split) sum.set("owners", dim_name(dims_[0]));
    if (split) part = {{"mesh_dim", Attr(dim_name(dims_.back()))}};
    const Tensor ids = tensor(whole(node.inputs[0], node.at));
    Tensor taken = tensor(whole(node.inputs[1], node.at));
    if (!of_data_[node.inputs[1]]) taken = of_micro_batch(taken, node.at);
    const Tensor handle = emit(ops::lane_gather_start, {ids, taken}, gather, node.at)[0];
    const Value &all_ids = old_[node.outputs[0]], &all_rows = old_[node.outputs[1]];
    const std::string types =
        str(shape_text(all_ids.dtype, all_ids.shape), ";", shape_text(all_rows.dtype, all_rows.shape));
    const auto made =
        emit(ops::sum_rows, emit(ops::wait, {handle}, {{"types", Attr(types)}}, node.at), sum, node.at);
    for (size_t o = 0; o < 2; ++o)
      forms(node.outputs[o]).level[0] = made[o].id(), owned_[node.outputs[o]] = split;
    forms(node.outputs[1]).row_squares =
        split && rows() == 1 ? made[2].id() : emit(ops::local_rows, {made[2]}, part, node.at)[0].id();
  }
  // The gradient of a dense table: its updates look for their rows among the rows of all micro-batches.
  void spread_rows(const Node& node) {
    Attrs attrs = on_data();
    attrs.set("rows", node.attrs.integer("rows"));
    const Tensor ids = tensor(whole(node.inputs[0], node.at)), taken = tensor(whole(node.inputs[1], node.at));
    Forms& f = forms(node.outputs[0]);
    f.level[rows()] = emit(ops::spread_rows, {ids, taken}, attrs, node.at)[0].id();
    f.row_squares = forms(node.inputs[1]).row_squares;
  }
  // Ranks with a whole table replace rows of all ids; else each rank replaces the rows of the ids that it
  // owns.
  void put_rows(const Node& node) {
    const ValueId table = node.inputs[0];
    const int level = is_split(table) ? 1 : 0;
    LS_CHECK(level == (owned_[node.inputs[1]] ? 1 : 0), "a sparse table and its ids are split differently");
    std::vector<Tensor> inputs{tensor(held(table))};
    for (size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(tensor(whole(node.inputs[i], node.at)));
    forms(node.outputs[0]).level[level] = apply_again(node, inputs, made_)[0].id();
  }
  // Arithmetic on rows of owners stays with the owners.
  void of_owned(const Node& node) {
    std::vector<Tensor> inputs;
    for (ValueId v : node.inputs) inputs.push_back(tensor(whole(v, node.at)));
    auto outputs = apply_again(node, inputs, made_);
    for (size_t i = 0; i < outputs.size(); ++i) {
      forms(node.outputs[i]).level[0] = outputs[i].id();
      owned_[node.outputs[i]] = true;
    }
  }

  // A value that depends on no data (a constant count, the gradient of a parameter that only the loss reads)
  // counts once per micro-batch. Adding a zero computed from the micro-batch's data makes it depend on them.
  Tensor of_micro_batch(Tensor x, const SourceLine& at) {
    AtLine line(at);
    for (const auto& input : old_.inputs)
      if (input.kind == InputKind::batch) {
        Tensor batch = tensor(forms(input.value).level[0]);
        if (batch.dtype() == DType::boolean) batch = convert(batch, DType::i32);
        Tensor zero = sum(convert(less(batch, batch), x.dtype()));
        return x + broadcast_to(zero, x.shape());
      }
    throw UserError(str("[sum_lanes] ", at.text(), ": the step has no batch input to sum over"));
  }

  void global_norm(const Node& node) {
    std::vector<Tensor> squares;
    for (ValueId v : node.inputs) {
      if (forms(v).row_squares == kNoValue)
        throw UserError(str("[global_norm] ", node.at.text(),
                            ": reads a value that is no gradient summed over micro-batches; pass what grad() "
                            "gave, as of a sum of losses, grad(a + b, parameters)"));
      squares.push_back(tensor(forms(v).row_squares));
    }
    Attrs attrs = on_data();
    for (const char* attr : {"model_dim", "once"})
      if (node.attrs.has(attr))
        attrs.set(attr,
                  attr == std::string("once") ? Attr(node.attrs.list(attr)) : Attr(node.attrs.word(attr)));
    Tensor limbs = all_reduce(emit(ops::norm_limbs, squares, attrs, node.at)[0], node.at);
    if (node.attrs.has("model_dim")) {
      Attrs on_model{{"mesh_dim", Attr(node.attrs.word("model_dim"))}, {"op", Attr(std::string("sum"))}};
      limbs = wait(emit(ops::all_reduce_start, {limbs}, on_model, node.at)[0], limbs.text(), node.at);
    }
    forms(node.outputs[0]).level[0] = emit(ops::norm_of_limbs, {limbs}, on_data(), node.at)[0].id();
  }

  Tensor all_reduce(Tensor x, const SourceLine& at) {
    Attrs attrs = on_data();
    attrs.set("op", std::string("sum"));
    Tensor handle = emit(ops::all_reduce_start, {x}, attrs, at)[0];
    return wait(handle, x.text(), at);
  }

  const Graph& old_;
  const PassContext& context_;
  std::shared_ptr<Builder> made_;
  PerValue<Forms> forms_;   // per value of the old graph
  std::vector<int> dims_;   // data dims of the mesh in the order of splits
  PerValue<bool> of_data_;  // computed from a micro-batch
  PerValue<bool> sparse_;   // inputs
  // of_step_: computed from values that the step replaces, sums, or takes from sparse tables. summed_: from
  // summed rows of these. owned_: rows that their owners have.
  PerValue<bool> of_step_, summed_, owned_;
  std::map<std::pair<ValueId, ValueId>, ValueId> fetched_;  // table and ids: the first take
  std::map<ValueId, ValueId> alike_;
  std::vector<ValueId> distinct_;
};
}  // namespace

Graph partition_data(Graph graph, const PassContext& context) { return Partitioner(graph, context).run(); }

}  // namespace lockstep::compiler
