// Initial weights: selects tensors by name, reads them, and merges adapters.
#include "checkpoint/initial_weights.h"

#include <algorithm>
#include <functional>
#include <set>

#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/io/read_chunks.h"
#include "checkpoint/optimizer_tensors.h"
#include "checkpoint/tensor_files.h"
#include "core/mesh/nonfinite.h"
#include "core/nn/lora.h"

namespace lockstep::checkpoint {

namespace {
constexpr std::string_view kDown = ".lora_A.weight", kUp = ".lora_B.weight";

std::string parent_path(const std::string& fqn) { return fqn.substr(0, fqn.rfind('.') + 1); }
bool below(const std::string& fqn, const std::string& at) { return at.empty() || fqn.starts_with(at + "."); }
const NamedType* find(const std::vector<NamedType>& types, const std::string& fqn) {
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const auto& one) { return one.fqn == fqn; });
  return found == types.end() ? nullptr : &*found;
}
std::string first_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 12;
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<long>(std::min(names.size(), kShown)));
  return join(shown, ", ") + (names.size() > kShown ? str(", and ", names.size() - kShown, " more") : "");
}

// The tensors that the state needs, from its specs: weights, and the buffers of their layers if the source
// has them. Not the histories of float8 scales, which belong to the run that wrote them.
std::vector<NamedType> wanted_of(const State& state, const std::string& at,
                                 const std::vector<NamedType>& stored) {
  std::set<std::string> layers, histories;
  for (const Spec& spec : state.specs()) {
    if (spec.role == Role::parameter && !spec.adapter) layers.insert(parent_path(spec.fqn));
    histories.insert(spec.amax_history);
  }
  std::vector<NamedType> out;
  for (const Spec& spec : state.specs()) {
    const bool weight = spec.role == Role::parameter && !spec.adapter;
    const bool kept = spec.role == Role::buffer && layers.count(parent_path(spec.fqn)) &&
                      find(stored, spec.fqn) && !histories.count(spec.fqn);
    if (below(spec.fqn, at) && (weight || kept)) out.push_back({spec.fqn, spec.dtype, spec.shape});
  }
  return out;
}

// The weight that a layer's adapter modifies.
std::string weight_of_layer(const State& state, const std::string& layer, const Shape& shape) {
  for (const Spec& spec : state.specs())
    if (spec.role == Role::parameter && !spec.adapter && spec.shape == shape && layer_of(spec.fqn) == layer)
      return spec.fqn;
  return "";
}
}  // namespace

void merge_adapter(Array& weight, const Array& a, const Array& b, double scale) {
  const int64_t out = weight.shape.at(0), in = weight.shape.at(1), rank = a.shape.at(0);
  LS_CHECK(a.shape == (Shape{rank, in}) && b.shape == (Shape{out, rank}) && weight.dtype == DType::f32 &&
           a.dtype == DType::f32 && b.dtype == DType::f32);
  weight.fetch();
  auto* w = reinterpret_cast<float*>(weight.data.data());
  const auto *down = reinterpret_cast<const float*>(a.data.data()),
             *up = reinterpret_cast<const float*>(b.data.data());
  for (const Piece& piece : weight.pieces) {
    const int64_t first = piece.global.offset[1], columns = piece.global.size[1];
    std::vector<double> row(static_cast<size_t>(columns));
    for (int64_t o = 0; o < piece.global.size[0]; ++o) {
      std::fill(row.begin(), row.end(), 0.0);
      for (int64_t r = 0; r < rank; ++r) {
        const double factor = up[(piece.global.offset[0] + o) * rank + r];
        for (int64_t i = 0; i < columns; ++i) row[i] += factor * down[r * in + first + i];
      }
      float* const to = w + (piece.local.offset[0] + o) * weight.local_shape[1] + piece.local.offset[1];
      for (int64_t i = 0; i < columns; ++i) to[i] = static_cast<float>(to[i] + scale * row[i]);
    }
  }
  weight.host_wrote();
}

Json adapters_of(const State& state) {
  for (const Spec& spec : state.specs())
    if (spec.low_rank) return {{"rank", spec.low_rank->a.shape()[0]}, {"scale", spec.low_rank->scale}};
  return {};
}

double adapter_scale(const Manifest& manifest, int64_t rank, const std::string& step_dir) {
  const Json::json_pointer in_config("/train/lora/alpha"), in_extra(str("/", kAdapters, "/scale"));
  if (manifest.config.contains(in_config) && manifest.config[in_config].is_number())
    return manifest.config[in_config].get<double>() / static_cast<double>(rank);
  if (manifest.extra.contains(in_extra) && manifest.extra[in_extra].is_number())
    return manifest.extra[in_extra].get<double>();
  throw UserError(str(step_dir,
                      " holds adapters and says nowhere what they are scaled by (train.lora.alpha of its "
                      "config): resume it with the program that made it, by Checkpoint(...).resume(state), "
                      "and save it anew, which writes it down"));
}

InitialWeights::InitialWeights(const WeightSource& source, const State& state, const WeightChoice& choice,
                               const std::string& whose, Storage& storage)
    : source_(source), at_(choice.at), where_(source.path), storage_(storage) {
  if (std::none_of(state.specs().begin(), state.specs().end(),
                   [&](const Spec& spec) { return below(spec.fqn, at_); })) {
    std::vector<std::string> paths;
    for (const Spec& spec : state.specs())
      for (size_t dot = spec.fqn.find('.'); dot != std::string::npos; dot = spec.fqn.find('.', dot + 1))
        paths.push_back(spec.fqn.substr(0, dot));
    const std::string near = nearest(at_, paths);
    throw UserError(str("at is \"", shortened(printable(at_), 100), "\", and ", whose,
                        " has nothing below it",
                        near.empty() ? "; build the model there first" : str("; nearest: \"", near, "\"")));
  }
  std::vector<NamedType> stored = stored_types(state);
  sort_adapters(stored, state);
  choose_names(stored, state, choice.partial, whose);
  choose_adapters(state);
}

std::vector<NamedType> InitialWeights::stored_types(const State& state) {
  std::vector<NamedType> out;
  if (!source_.step) {
    const TensorFiles files(source_.path, storage_);
    where_ = files.path(), told_ = files.told();
    for (NamedType& type : files.types()) out.push_back({own(type.fqn), type.dtype, type.shape, type.other});
    return out;
  }
  manifest_ = read_manifest(source_.path, storage_);
  const auto moments = optimizer_tensors(manifest_);
  const std::set<std::string> left(moments.begin(), moments.end());
  for (TensorRecord& tensor : manifest_.tensors) {
    const bool moment = left.contains(tensor.fqn) && !state.find_spec(own(tensor.fqn));
    tensor.fqn = own(tensor.fqn);
    if (!moment) out.push_back({tensor.fqn, tensor.dtype, tensor.shape});
  }
  return out;
}

// Moves adapters out of the stored tensors. A name that the state has as a weight stays a weight.
void InitialWeights::sort_adapters(std::vector<NamedType>& stored, const State& state) {
  auto plain = [&](const std::string& fqn) {
    const Parameter known = state.find_spec(fqn);
    return known && !known.spec().adapter;
  };
  std::set<std::string> taken;
  for (const NamedType& down : stored) {
    if (!down.fqn.ends_with(kDown) || down.shape.size() != 2 || plain(down.fqn)) continue;
    const std::string layer = down.fqn.substr(0, down.fqn.size() - kDown.size());
    const NamedType* up = find(stored, layer + std::string(kUp));
    if (!up || up->shape.size() != 2 || up->shape[1] != down.shape[0]) continue;
    adapters_.push_back(
        {down.fqn, up->fqn, weight_of_layer(state, layer, {up->shape[0], down.shape[1]}), down.shape[0]});
    taken.insert({down.fqn, up->fqn});
  }
  if (!taken.empty() && !source_.step)
    throw UserError(str(where_, " holds ", adapters_.size(), adapters_.size() == 1 ? " adapter" : " adapters",
                        ", as ", adapters_[0].a,
                        ", and no file of tensors says what they are scaled by: name the run or the step "
                        "folder that they are of, or write weights with them merged by export-hf"));
  std::erase_if(stored, [&](const NamedType& one) { return taken.contains(one.fqn); });
}

void InitialWeights::choose_names(const std::vector<NamedType>& stored, const State& state, bool partial,
                                  const std::string& whose) {
  std::vector<NamedType> wanted = wanted_of(state, at_, stored), offered = stored;
  auto lacks = [](const std::vector<NamedType>& types) {
    return [&types](const NamedType& one) { return !find(types, one.fqn); };
  };
  if (partial) {
    std::vector<std::string> kept, unread;
    for (const NamedType& one : wanted)
      if (!find(stored, one.fqn)) kept.push_back(one.fqn);
    for (const NamedType& one : stored)
      if (!find(wanted, one.fqn)) unread.push_back(one.fqn.substr(at_.empty() ? 0 : at_.size() + 1));
    if (kept.size() == wanted.size())
      throw UserError(str(where_, " has no weight of ", whose, at_.empty() ? "" : str(" below ", at_),
                          ", and partial wants at least one",
                          kept.empty() || unread.empty()
                              ? ""
                              : str(": the first is ", kept[0], " there and ", unread[0], " here")));
    if (!kept.empty())
      told_.push_back(str(kept.size(), " of ", whose, " keep their values, which ", where_,
                          " does not have: ", first_of(kept)));
    if (!unread.empty())
      told_.push_back(str(unread.size(), " of ", where_, " are not read, since ", whose,
                          " does not have them: ", first_of(unread)));
    std::erase_if(wanted, lacks(stored));
  }
  if (partial || source_.step) std::erase_if(offered, lacks(wanted));  // a checkpoint holds more than weights
  const std::string text = misfit_text(offered, where_, wanted, whose, !source_.step);
  if (!text.empty()) throw UserError(text);
  for (const NamedType& one : wanted) names_.push_back(one.fqn);
}

bool InitialWeights::alike(const State& state) const {
  size_t own = 0;
  for (const Spec& spec : state.specs()) own += spec.low_rank && below(spec.fqn, at_);
  return own == adapters_.size() && std::all_of(adapters_.begin(), adapters_.end(), [&](const Adapter& one) {
           const Parameter weight = state.find_spec(one.weight);
           const LowRank* beside = weight ? weight.spec().low_rank.get() : nullptr;
           return beside && beside->a.fqn() == one.a && beside->a.shape()[0] == one.rank &&
                  beside->scale == scale_;
         });
}

void InitialWeights::choose_adapters(const State& state) {
  if (adapters_.empty()) return;
  scale_ = adapter_scale(manifest_, adapters_[0].rank, source_.path);
  const std::string what = str("the adapters of ", source_.path, ", rank ", adapters_[0].rank, " and alpha ",
                               number_text(scale_ * static_cast<double>(adapters_[0].rank)));
  if (alike(state)) {
    for (const Adapter& one : adapters_) names_.push_back(one.a), names_.push_back(one.b);
    told_.push_back(str(what, ", go on as adapters beside ", adapters_.size(), " weights"));
    return;
  }
  for (const Adapter& one : adapters_)
    if (std::find(names_.begin(), names_.end(), one.weight) != names_.end()) merged_.push_back(one);
  const Json fresh = adapters_of(state);
  told_.push_back(str(
      what, ", are merged into ", merged_.size(), " weights",
      fresh.is_null()
          ? ""
          : str(", and those of this run, rank ", fresh["rank"].get<int64_t>(), " and alpha ",
                number_text(fresh["scale"].get<double>() * static_cast<double>(fresh["rank"].get<int64_t>())),
                ", begin anew")));
}

std::vector<std::string> InitialWeights::load(State& state) const {
  std::vector<Array*> arrays;
  for (const auto& name : names_) arrays.push_back(&state.array(name));
  raise(settle(*state.mesh().world, attempt([&] {
    if (!source_.step) {
      const TensorFiles files(source_.path, storage_);
      for (Array* array : arrays) files.read(array->fqn.substr(at_.empty() ? 0 : at_.size() + 1), *array);
      return;
    }
    read_arrays(storage_, source_.path, manifest_, arrays);
    for (const Adapter& one : merged_) {
      const TensorRecord &down = *manifest_.find(one.a), &up = *manifest_.find(one.b);
      Array a = make_array(one.a, down.dtype, down.shape, Layout{}, Mesh{}, 0),
            b = make_array(one.b, up.dtype, up.shape, Layout{}, Mesh{}, 0);
      read_arrays(storage_, source_.path, manifest_, {&a, &b});
      Array& weight = state.array(one.weight);
      merge_adapter(weight, a, b, scale_);
      if (Device* const device = weight.device()) weight.on(*device);  // so the host has one tensor at a time
    }
  })));
  if (const auto bad = find_nonfinite({arrays.begin(), arrays.end()}, state.mesh()))
    throw UserError(str(source_.path, ": ", bad->text(), "; weights must be finite numbers"));
  return told_;
}

}  // namespace lockstep::checkpoint
