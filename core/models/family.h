// Family: a family of models that a config can name, one row each; Model: what is built from one.
//
// A family is one file of this folder: its options (a struct of keys, core/base/key.h), its network, its
// placements, and a Family made by family_of. One line in families.h registers it; then `model.kind` takes
// it, its options are keys of the config, and every task that fits its output trains it.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/key.h"
#include "core/nn/placement_rule.h"
#include "core/nn/scope.h"

namespace lockstep::models {

// The output of a forward pass; it decides which tasks can train the model. B: samples of a micro-batch.
enum class Output {
  next_tokens,     // ids i32 [B,T] -> logits [B,T,V]; position t sees positions up to t
  tokens,          // ids i32 [B,T] -> logits [B,T,V]; each position sees all
  sequences,       // ids i32 [B,S], decoder_ids i32 [B,T] -> logits [B,T,V] of the decoder's next tokens
  classes,         // ... -> logits [B,K]
  values,          // ... -> [B,K]
  pixels,          // images [B,C,H,W] -> logits [B,K,H,W]
  reconstruction,  // x [B,...] -> x again as logits, mean [B,Z], log variance [B,Z]
  adversaries,     // parts "generator": noise [B,Z] -> images; "discriminator": images -> logits [B,1]
};
std::string_view words(Output output);  // "logits of the next token"

// A tensor of the batch: its name in the data, and the shape of a sample.
struct Field {
  std::string name;
  DType dtype;
  Shape shape;
  int64_t below = 0;   // integers are in [0, below), or -100 (ignored) for a task's targets; 0: any
  bool zeros = false;  // arrays that lack it mean zeros, as transformers reads token_type_ids
};

using Network = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

// A model of any family. Under Evaluation (core/nn/layers.h) it computes as in inference, not as in training.
struct Model {
  std::vector<Field> inputs;                   // of a forward pass, in order
  Network forward;                             // as Output says; floats in the state's compute dtype
  int64_t classes = 0;                         // V or K of the output, where it has one
  std::vector<PlacementRule> placements = {};  // the tp rows, for State::place_by_default; none: no tp
  // For a family of several networks, whose FQNs begin with the name.
  std::map<std::string, Network> parts = {};
  bool packs = false;  // forward reads DocumentRows (core/nn/document_rows.h)
  Shape noise = {};    // adversaries: shape of a sample of the generator's input
  // The last hidden state after its norm, which the head reads: [B,T,C] for tokens, or for a class token and
  // patches. Empty if the family has none.
  Network features = {};

  // forward's first output. `training` false: under Evaluation.
  Tensor logits(Tensor ids, bool training) const;
};

// A size that the mesh dim tp has to divide, with its name: {"model.heads", 12}.
struct SplitSize {
  std::string what;
  int64_t size;
};
// An estimate of a model's size from its options only; usually too high.
struct RoughSize {
  double parameters = 0;
  double activations = 0;  // elements that forward keeps for backward, of a sample
};

struct Family {
  std::string_view kind;   // model.kind: "gpt"
  std::string_view about;  // what it is, and whose: "GPT-2: learned positions, ... Radford et al., 2019"
  Output output;
  std::string_view task;  // the task if the config names none
  std::span<const ConfigKey> (*keys)();
  // Errors in combinations of keys, one line each, which names keys as the config does: "model.heads".
  std::function<std::vector<std::string>(const Json& options)> errors;
  std::function<std::vector<SplitSize>(const Json& options)> split_sizes;
  std::function<RoughSize(const Json& options)> rough;  // empty: not known
  // Records the parameters under `at`; placements name them relative to it. Throws UserError for options that
  // are unknown, out of range, or in the list of `errors`.
  std::function<Model(Scope at, const Json& options, Here line)> make;
};

// Makes a family from typed options; each file of this folder calls it.
template <class Options>
struct FamilyOf {
  std::string_view kind, about;
  Output output;
  std::string_view task;
  Model (*make)(Scope at, const Options& options, Here line);
  std::vector<std::string> (*errors)(const Options&) = nullptr;
  std::vector<SplitSize> (*split_sizes)(const Options&) = nullptr;
  RoughSize (*rough)(const Options&) = nullptr;
};
template <class Options>
Family family_of(const FamilyOf<Options>& of) {
  auto typed = [kind = std::string(of.kind)](const Json& given) {
    return options_from<Options>(given, "model " + kind);
  };
  Family out{of.kind, of.about, of.output, of.task, &keys_of<Options>, {}, {}, {}, {}};
  out.errors = [=](const Json& given) {
    return of.errors ? of.errors(typed(given)) : std::vector<std::string>{};
  };
  out.split_sizes = [=](const Json& given) {
    return of.split_sizes ? of.split_sizes(typed(given)) : std::vector<SplitSize>{};
  };
  if (of.rough) out.rough = [=](const Json& given) { return of.rough(typed(given)); };
  out.make = [=](Scope at, const Json& given, Here line) {
    const Options options = typed(given);
    std::vector<std::string> wrong;
    for (const ConfigKey& row : keys_of<Options>())
      if (given.contains(row.path))
        if (auto error = range_error(row, given[row.path]); !error.empty()) wrong.push_back("model." + error);
    if (of.errors && wrong.empty()) wrong = of.errors(options);
    if (!wrong.empty()) throw UserError(str("[model] ", line_of(line).text(), ": ", join(wrong, "; ")));
    return of.make(at, options, line);
  };
  return out;
}

// All families, in the order of help and messages: those of this folder, then those registered. The span
// holds until the next is registered.
std::span<const Family* const> families();
// Adds a user-defined family for the life of the process; its texts are copied. A library of compile.load_ops
// calls it, and a config then names the family and its keys: register_model(family_of<Options>({...})).
// Throws UserError, naming the line, if the kind is taken or empty, if an option is named "kind", or if it
// has the name of another family's option but another type. Not thread-safe with readers of families().
void register_model(Family family, Here line = Here::current());
std::vector<std::string> family_names();
const Family& family(std::string_view kind);  // UserError naming the kinds, and the nearest

// Builds a model of a family from named options: build(state.root(), "gpt", {{"width", 64}}), or under a
// path, for a second model: build(state / "teacher", "gpt"). Placements name tensors of the state. Throws
// what Family::make throws.
Model build(Scope at, std::string_view kind, const Json& options = Json::object(),
            Here line = Here::current());

}  // namespace lockstep::models
