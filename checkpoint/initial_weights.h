// Initial weights of a state, by FQN: from a run's checkpoint, whose adapters are kept or merged into the
// weights, or from safetensors files of any origin.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/plan/fit.h"
#include "checkpoint/storage/storage.h"
#include "core/nn/state.h"

namespace lockstep::checkpoint {

// weight += scale * B * A for this rank's part of the weight, in f64, rounded once. All are f32; a [rank,in]
// and b [out,rank] are complete.
void merge_adapter(Array& weight, const Array& a, const Array& b, double scale);

// How a user program's checkpoint, which has no config, describes the adapters of its state:
// SaveInfo::extra[kAdapters]. Null for a state without adapters.
inline constexpr const char* kAdapters = "adapters";
Json adapters_of(const State& state);

// The scale of the adapters: from train.lora of the stored config, else from extra[kAdapters]. UserError
// naming `step_dir` when neither has it.
double adapter_scale(const Manifest& manifest, int64_t rank, const std::string& step_dir);

struct WeightChoice {
  std::string at = {};   // the path in the state below which the stored names are looked up; "": its root
  bool partial = false;  // a tensor that either side lacks is skipped and reported
};

// Where weights are read from: `path` is a step folder, else safetensors files (TensorFiles).
struct WeightSource {
  std::string path;
  bool step = false;
};

class InitialWeights {
 public:
  // Reads names and types. From a checkpoint it takes weights and, if present, their layers' buffers such as
  // running means; optimizer state is skipped. Adapters of the source stay adapters when the state has the
  // same ones (names, ranks, scale); else they are merged into their weights. UserError listing what is
  // missing or has another type (and, for files, what is extra) unless the choice is partial; for adapters
  // without a known scale; for a path of the state with nothing below it. `whose` names the state in
  // messages.
  InitialWeights(const WeightSource& source, const State& state, const WeightChoice& choice,
                 const std::string& whose, Storage& storage = any_storage());

  // Fills the weights of the state, which is allocated. Collective. UserError for a value that is not finite,
  // DamagedError as load_checkpoint. Returns lines that report what became of adapters and what a partial
  // choice skipped.
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
