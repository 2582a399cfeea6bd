// Initial weights of a state, by FQN: from a run's checkpoint, whose adapters go on or are merged into the
// weights, or from safetensors files of any origin.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/plan/fit.h"
#include "checkpoint/storage/storage.h"
#include "core/nn/state.h"

namespace lockstep::checkpoint {

// weight += scale B A of the part of the weight that this rank has, in f64, rounded once. All are f32;
// a [rank,in] and b [out,rank] are whole.
void merge_adapter(Array& weight, const Array& a, const Array& b, double scale);

// What a program's checkpoint says of the adapters of its state, beside whose matrices it holds no config:
// SaveInfo::extra[kAdapters]. Null for a state without adapters.
inline constexpr const char* kAdapters = "adapters";
Json adapters_of(const State& state);

// What adapters add is times this: by train.lora of the stored config, else by extra[kAdapters]. UserError
// naming `step_dir` where neither says it.
double adapter_scale(const Manifest& manifest, int64_t rank, const std::string& step_dir);

struct WeightChoice {
  std::string at = {};   // the path in the state below which the stored names are looked up; "": its root
  bool partial = false;  // what one of both sides lacks is left as it is, and told
};

// Where weights are read from: `path` is a step folder, else safetensors files (TensorFiles).
struct WeightSource {
  std::string path;
  bool step = false;
};

class InitialWeights {
 public:
  // Reads names and types. Of a checkpoint weights are taken, and what their layers keep beside them, as
  // running means, where it has that; its optimizers are not. Adapters of the source go on as adapters where
  // the state has the same ones (names, ranks, scale); else they are merged into their weights. UserError
  // listing what is missing or of another type, and of files what is extra, too, unless the choice is
  // partial; for adapters whose scale nothing says; for a path of the state with nothing below it. `whose`
  // is its word for the state.
  InitialWeights(const WeightSource& source, const State& state, const WeightChoice& choice,
                 const std::string& whose, Storage& storage = any_storage());

  // Fills the weights of the state, which is allocated. Collective. UserError for a value that is not finite,
  // DamagedError as load_checkpoint. Returns what became of adapters, and what a partial choice left: a line
  // each.
  std::vector<std::string> load(State& state) const;
  const std::vector<std::string>& names() const { return names_; }  // FQNs of what load() fills, whole

 private:
  struct Adapter {
    std::string a, b, weight;  // FQNs in the state's spelling; no weight: the state has no such layer
    int64_t rank = 0;
  };
  std::string own(const std::string& stored) const { return at_.empty() ? stored : at_ + "." + stored; }
  std::vector<NamedType> stored_types(const State& state);
  void sort_adapters(std::vector<NamedType>& stored, const State& state);
  bool alike(const State& state) const;
  void choose_adapters(const State& state);
  void choose_names(const std::vector<NamedType>& stored, const State& state, bool partial,
                    const std::string& whose);

  WeightSource source_;
  std::string at_, where_;
  Storage& storage_;
  Manifest manifest_;  // of a step, with FQNs in the state's spelling
  std::vector<std::string> names_, told_;
  std::vector<Adapter> adapters_, merged_;
  double scale_ = 1;
};

}  // namespace lockstep::checkpoint
