// READ THIS FIRST: the order of the compiler.
#include "compiler/pipeline.h"

#include <algorithm>
#include <chrono>

#include "compiler/autodiff/autodiff.h"
#include "compiler/codegen/target.h"
#include "compiler/fuse/fuse.h"
#include "compiler/fuse/views.h"
#include "compiler/lower/channels_last.h"
#include "compiler/lower/decompose.h"
#include "compiler/lower/gradients_by_rows.h"
#include "compiler/lower/join.h"
#include "compiler/lower/join_row_sums.h"
#include "compiler/lower/number_rows.h"
#include "compiler/lower/outline_updates.h"
#include "compiler/lower/pad_products.h"
#include "compiler/lower/record_amax.h"
#include "compiler/lower/round_rows.h"
#include "compiler/lower/share_scales.h"
#include "compiler/lower/simplify.h"
#include "compiler/own_pass.h"
#include "compiler/partition/cut_products.h"
#include "compiler/partition/data.h"
#include "compiler/partition/model.h"
#include "compiler/partition/placements.h"
#include "compiler/remat/rematerialize.h"
#include "compiler/schedule/bucket.h"
#include "compiler/schedule/fill_waits.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ir/print.h"
#include "core/ops/op.h"

namespace lockstep::compiler {

namespace {
Graph fuse_phase(Graph graph, const PassContext& context) {
  FuseOptions options;
  options.enabled = context.options.fusion && context.options.backend == Backend::native;
  const Target& target = target_of(context.options);
  options.is_kernel = [&](const Node& node) { return op_row(node.op).own && !target.is_library_op(node.op); };
  options.sums_both_ways = [&](int64_t rows, int64_t columns) {
    return target.sums_both_ways(rows, columns);
  };
  return fuse(graph, options);
}

const PassRow kStepPasses[] = {
    {"round_rows", round_rows, true, Typed::no, "lower",
     "before differentiation, so that the gradient of a large table is not rounded either"},
    {"differentiate", differentiate, false, Typed::lanes, "autodiff",
     "first: composites are whole, so that their hand-written gradients apply"},
    {"record_amax", record_amax, false, Typed::lanes, "lower",
     "after differentiation, which makes the gradients whose maxima are recorded; while products are whole "
     "and name their histories"},
    {"simplify", simplify, true, Typed::lanes, "simplify",
     "before expansion, so that equal composites expand once"},
    {"number_rows", number_rows, false, Typed::lanes, "lower",
     "after differentiation, which repeats draws of the forward pass; on global shapes"},
    {"share_scales", share_scales, true, Typed::lanes, "lower",
     "after simplify, which leaves one convert of a tensor for all its readers; while products are whole"},
    {"cut_products", cut_products, true, Typed::lanes, "partition",
     "on global shapes and whole composites, before placements are chosen for each piece; after "
     "differentiation, so that the backward pass is not cut"},
    {"partition_model", partition_model, false, Typed::lanes, "partition",
     "while composites are whole and have a rule each; later passes see one rank's shapes"},
    {"rematerialize", rematerialize, false, Typed::lanes, "lower",
     "while composites are whole, so that recomputation is "
     "chosen by layers; after equal nodes have been merged"},
    {"decompose", decompose, false, Typed::lanes, "lower", "after differentiation; claimed composites stay"},
    {"simplify_primitives", simplify, true, Typed::lanes, "simplify",
     "expansions repeat work, such as converts and broadcasts of constants"},
    {"join_pads", join_pads, true, Typed::lanes, "lower", "gradients of splits are now sums of pads"},
    {"outline_updates", outline_updates, false, Typed::lanes, "lower",
     "on primitives and one rank's shapes of the model dims; partition_data splits updates by rows"},
    {"gradients_by_rows", gradients_by_rows, true, Typed::lanes, "lower",
     "once updates are nodes, since only these may read a gradient by rows; partition_data makes rows "
     "travel"},
    {"partition_data", partition_data, false, Typed::placements, "partition",
     "last of the rewrites of values: the part that belongs "
     "to one micro-batch is the same graph on every "
     "data mesh, whatever is inserted after it"},
    {"bucket", bucket, false, Typed::placements, "overlap",
     "after partition, which makes the collectives; before phases are cut at them"},
};
const PassRow kPhasePasses[] = {
    {"join_row_sums", join_row_sums, true, Typed::no, "lower",
     "on phases, where gradients of tables are those of a rank; before the layout of values is decided"},
    {"channels_last", channels_last, true, Typed::no, "lower",
     "on phases, whose values no rank splits further; before fusion, which then sees the layout of values"},
    {"pad_products", pad_products, true, Typed::no, "lower",
     "on phases, whose products are those that run; before "
     "fusion, which takes its pads and slices into kernels"},
    {"fill_waits", fill_waits, true, Typed::no, "overlap",
     "on phases, whose nodes run in graph order; before fusion, which keeps that order"},
    {"mark_views", mark_views, true, Typed::no, "fusion", "before fusion, which would make copies of them"},
    {"fuse", fuse_phase, false, Typed::no, "fusion", "last: its nodes are the ones that run"},
};
// All other passes see the program of one rank of the model dims.
bool sees_model_dims(std::string_view pass) { return pass == "cut_products" || pass == "partition_model"; }
}  // namespace

std::span<const PassRow> step_passes() { return kStepPasses; }
std::span<const PassRow> phase_passes() { return kPhasePasses; }

namespace {
// `from`: the key or the variable that lists them.
void check_skips(const std::vector<std::string>& skips, const char* from) {
  std::vector<std::string> known;
  for (auto table : {step_passes(), phase_passes()})
    for (const auto& row : table) known.push_back(row.name);
  for (const auto& name : skips) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError(str(from, ": no pass \"", name, "\"; nearest: ", nearest(name, known),
                          "; passes: ", join(known, ", ")));
    for (auto table : {step_passes(), phase_passes()})
      for (const auto& row : table)
        if (row.name == name && !row.may_skip)
          throw UserError(
              str(from, ": pass \"", name, "\" may not be skipped: the program would be incomplete"));
  }
}
}  // namespace

std::vector<std::string> passes_skipped_by_environment() {
  std::vector<std::string> out;
  for (auto& word : split(env("LOCKSTEP_SKIP_PASSES"), ','))
    if (!trim(word).empty()) out.push_back(trim(word));
  check_skips(out, "LOCKSTEP_SKIP_PASSES");
  return out;
}

Graph run_passes(Graph graph, std::span<const PassRow> rows, const PassContext& context) {
  auto skips = context.options.skip_passes;
  check_skips(skips, "compile.skip_passes");
  for (auto& name : passes_skipped_by_environment()) skips.push_back(std::move(name));
#ifdef NDEBUG
  bool check = env_flag("LOCKSTEP_VERIFY");
#else
  bool check = true;
#endif
  // Once the model is partitioned, its values and the state have the shapes of one rank: on the model dims
  // they are whole.
  PassContext local = context;
  local.layout_of = [&context](const std::string& fqn) {
    Layout layout = context.layout_of(fqn);
    for (int dim = 0; dim < context.mesh.ndim(); ++dim)
      if (!is_data_dim(context.mesh.dim_names[dim])) layout.set(dim, Replicate());
    return layout;
  };
  for (const auto& row : rows) {
    const bool skipped = std::find(skips.begin(), skips.end(), row.name) != skips.end();
    auto start = std::chrono::steady_clock::now();
    auto checked = [&](const char* name) {
      if (row.typed == Typed::lanes) check_lanes(graph);
      if (row.typed == Typed::placements) place_values(graph, local);
      if (logs::enabled(row.topic)) logs::topic(row.topic, str("after ", name, ":\n", print(graph)));
      if (check) verify(graph, name);
    };
    if (!skipped) {
      graph = row.pass(std::move(graph), sees_model_dims(row.name) ? context : local);
      checked(row.name);
    }
    for (const NamedPass& own : own_passes_after(row.name, context.options.extra_passes)) {
      graph = run_own_pass(own, graph);
      checked(own.name.c_str());
    }
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (logs::enabled("passes"))
      logs::topic("passes", str(row.name, ": ", graph.nodes.size(), " nodes, ", ms, " ms"));
  }
  return graph;
}

}  // namespace lockstep::compiler
