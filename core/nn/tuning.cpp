// Fine-tuning: freezes weights, records adapters, and selects the weights that multiply in float8.
#include "core/nn/tuning.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/functions/delayed_float8.h"
#include "core/nn/state.h"

namespace lockstep {

namespace {
// Merges the names of all blocks: "blocks.*.attn.q.weight".
std::vector<std::string> by_kind(const std::vector<std::string>& fqns) {
  std::vector<std::string> out;
  for (const auto& fqn : fqns) {
    std::vector<std::string> parts = split(fqn, '.');
    for (auto& part : parts)
      if (part.find_first_not_of("0123456789") == std::string::npos) part = "*";
    const std::string kind = join(parts, ".");
    if (std::find(out.begin(), out.end(), kind) == out.end()) out.push_back(kind);
  }
  return out;
}
std::string some_of(std::vector<std::string> names) {
  constexpr size_t kMost = 24;
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return join(names, ", ") + (more ? str(", and ", more, " more") : "");
}

bool among(const std::vector<std::string>& globs, const std::string& fqn) {
  return std::any_of(globs.begin(), globs.end(), [&](const auto& glob) { return glob_match(glob, fqn); });
}

// The start of an error: a line of a program, or a key of a config.
std::string named(const SourceLine& at, const char* verb) {
  return at.file.empty() ? at.text() : str("[", verb, "] ", at.text());
}

// The tensors that any of the globs names. Throws UserError for a glob that names none.
std::set<std::string> named_by(const std::vector<std::string>& globs, const std::vector<std::string>& fqns,
                               const std::string& who, const std::string& what) {
  std::set<std::string> out;
  for (const auto& glob : globs) {
    bool any = false;
    for (const auto& fqn : fqns)
      if (names_weight(glob, fqn)) any = true, out.insert(fqn);
    if (!any)
      throw UserError(str(who, " names \"", shortened(printable(glob), 100), "\", which matches no ", what,
                          ": ", some_of(by_kind(fqns))));
  }
  return out;
}

void check(const LoraOptions& o, const std::string& who) {
  if (o.rank < 1) throw UserError(str(who, ": rank is ", o.rank, "; it must be at least 1"));
  if (!(o.alpha > 0)) throw UserError(str(who, ": alpha is ", number_text(o.alpha), "; it must be above 0"));
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw UserError(
        str(who, ": dropout is ", number_text(o.dropout), "; it must be at least 0 and less than 1"));
}
}  // namespace

void State::freeze(const std::vector<std::string>& globs, const SourceLine& at) {
  const std::string who = named(at, "freeze");
  if (allocated_)
    throw UserError(
        str(who, ": the state is already materialised; freeze weights before materialize() or resume()"));
  std::vector<std::string> trained;
  for (const Parameter& parameter : parameters()) trained.push_back(parameter.fqn());
  const auto frozen = named_by(globs, trained, who, "weight that is trained; there are");
  if (frozen.size() == trained.size())
    throw UserError(str(who, ": all ", trained.size(), " weights are frozen, and nothing is left to train"));
  for (Spec& spec : specs_)
    if (frozen.contains(spec.fqn)) spec.trainable = false;
}

void State::lora(const LoraOptions& options, const SourceLine& at) {
  const std::string who = named(at, "lora");
  check(options, who);
  if (allocated_)
    throw UserError(
        str(who, ": the state is already materialised; add adapters before materialize() or resume()"));
  std::vector<std::string> targets, heads, trained;
  for (const Spec& spec : specs_) {
    if (spec.low_rank) throw UserError(str(who, ": \"", spec.fqn, "\" has an adapter already"));
    if (spec.trainable) trained.push_back(spec.fqn);
    const bool head = among(no_hidden_matrices(), spec.fqn);
    if (spec.projection) (options.targets.empty() && head ? heads : targets).push_back(spec.fqn);
  }
  if (targets.empty()) targets = std::move(heads);
  if (targets.empty()) throw UserError(str(who, ": the model has no weights that can have adapters"));
  const auto also = named_by(options.also, trained, who + ": also", "weight that is trained; there are");
  auto chosen = named_by(options.targets.empty() ? std::vector<std::string>{"**"} : options.targets, targets,
                         who + ": targets", "weight of a linear layer; there are");
  for (const auto& fqn : chosen)
    if (also.contains(fqn))
      throw UserError(str(who, ": \"", fqn,
                          "\" is among the targets and among also; a weight with an "
                          "adapter is not trained itself"));
  for (Spec& spec : specs_) spec.trainable = spec.trainable && also.contains(spec.fqn);
  for (size_t i = 0, recorded = specs_.size(); i < recorded; ++i) {
    if (!chosen.contains(specs_[i].fqn)) continue;
    const Shape shape = specs_[i].shape;
    auto low_rank = std::make_shared<LowRank>();
    low_rank->path = layer_of(specs_[i].fqn);
    low_rank->scale = options.alpha / static_cast<double>(options.rank);
    low_rank->dropout = options.dropout;
    auto matrix = [&](const char* name, const Shape& of, const Init& init) {
      Spec spec{
          str(low_rank->path, ".", name, ".weight"), DType::f32, of, init, Role::parameter, true, "", at};
      spec.adapter = true;
      return record(std::move(spec));
    };
    const Init first = init::kaiming_uniform(init::leaky_relu_gain(std::sqrt(5.0)));
    low_rank->a = matrix("lora_A", {options.rank, shape[1]}, first);
    low_rank->b = matrix("lora_B", {shape[0], options.rank}, init::zeros());
    specs_[i].low_rank = std::move(low_rank);
  }
}

void State::float8(const Float8Options& options, const SourceLine& at) {
  const std::string who = named(at, "float8");
  if (compute_ != DType::bf16)
    throw UserError(str(who, ": layers compute in ", name(compute_),
                        ", and float8 products need bf16 layers; call compute_dtype(DType::bf16) first"));
  if (!is_float8(options.gradients))
    throw UserError(str(who, ": gradients are ", name(options.gradients), "; choose f8_e5m2 or f8_e4m3"));
  if (const int64_t tp = mesh_.words.size("tp"); tp > 1)
    throw UserError(str(who, ": the mesh has tp ", tp, ", and a weight that tp splits has no scale yet; ",
                        "use dp_shard instead, or train in bf16"));
  std::vector<std::string> linear;
  std::string ragged;  // the first linear layer whose sizes do not fit
  int64_t all = 0;
  for (const Spec& spec : specs_) {
    const bool head = among(no_hidden_matrices(), spec.fqn);
    const bool tied = head && spec.shape.size() == 2 && spec.role == Role::parameter && !spec.sparse;
    const bool sizes = spec.shape.size() == 2 && spec.shape[0] % kFloat8Multiple == 0 &&
                       spec.shape[1] % kFloat8Multiple == 0;
    if (!(spec.projection || tied) || (head && !options.head)) continue;
    ++all;
    if (sizes)
      linear.push_back(spec.fqn);
    else if (ragged.empty())
      ragged = str(spec.fqn, " is ", str(spec.shape));
  }
  const auto skipped =
      named_by(options.skip, linear, who + ": skip", "weight that float8 multiplies; there are");
  if (linear.size() == skipped.size()) {
    std::string why = str("all ", skipped.size(), " are skipped; skip fewer");
    if (all == 0)
      why = "the model has none but heads and embeddings; set head";
    else if (linear.empty())
      why = str("the sizes of a weight must be multiples of ", kFloat8Multiple, ", and ", ragged,
                "; choose such sizes");
    throw UserError(
        str(who, ": no linear layer is left to multiply in float8: ", why, ", or compute in bf16"));
  }
  if (options.recipe == Float8Recipe::delayed && (options.history < 1 || options.history > kMostAmaxSteps))
    throw UserError(
        str(who, ": history is ", options.history, "; it must be between 1 and ", kMostAmaxSteps, " steps"));
  for (size_t i = 0, recorded = specs_.size(); i < recorded; ++i) {
    Spec& spec = specs_[i];  // a deque keeps the reference valid while others are recorded
    const bool chosen = std::find(linear.begin(), linear.end(), spec.fqn) != linear.end();
    const bool multiplies = chosen && !skipped.contains(spec.fqn);
    spec.float8_gradients = multiplies ? options.gradients : DType::bf16;
    spec.float8_recipe = options.recipe;
    if (multiplies && options.recipe == Float8Recipe::delayed) record_history(spec, options.history, at);
  }
}
void State::record_history(Spec& of, int64_t steps, const SourceLine& at) {
  of.amax_history = str(layer_of(of.fqn), ".", kAmaxHistory), of.amax_steps = steps;
  const auto before = index_.find(of.amax_history);
  if (before != index_.end() && specs_[before->second].shape == Shape{kAmaxRows, steps}) return;
  record({of.amax_history, DType::f32, {kAmaxRows, steps}, init::zeros(), Role::buffer, false, "", at});
}
Float8Recipe parse_float8_recipe(std::string_view name, Here at) {
  if (name == "tensorwise") return Float8Recipe::tensorwise;
  if (name == "rowwise") return Float8Recipe::rowwise;
  if (name == "delayed") return Float8Recipe::delayed;
  throw UserError(str(named(line_of(at), "float8"), ": recipe is \"",
                      shortened(printable(std::string(name)), 120),
                      "\"; choose tensorwise | rowwise | delayed"));
}
bool State::float8_products() const {
  return std::any_of(specs_.begin(), specs_.end(),
                     [](const Spec& spec) { return is_float8(spec.float8_gradients); });
}

std::vector<PlacementRule> adapter_placements(const State& state) {
  std::vector<PlacementRule> out;
  const int tp = state.mesh().words.find("tp");
  if (tp < 0) return out;
  for (const Spec& spec : state.specs()) {
    if (!spec.low_rank) continue;
    const Placement place = state.layout(spec.fqn).on(tp);
    if (place.kind != Placement::Kind::shard) continue;
    const Parameter& beside = place.dim == 0 ? spec.low_rank->b : spec.low_rank->a;
    out.push_back({"tp", beside.fqn(), place});
  }
  return out;
}

}  // namespace lockstep
