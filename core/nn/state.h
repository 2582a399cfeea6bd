// State: everything that outlives a step, in one place, so that save and resume are complete by construction.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/nn/float8.h"
#include "core/nn/lora.h"
#include "core/nn/loss_scale.h"
#include "core/nn/placement_rule.h"
#include "core/nn/scope.h"

namespace lockstep {

// Specs are first recorded (models, then optimizers), then placed, then materialised shard by shard: no rank
// ever holds the whole model.
class State {
 public:
  State(const LiveMesh& mesh, uint64_t seed) : mesh_(mesh), seed_(seed) {}
  State(const State&) = delete;  // scopes and parameters point here
  State& operator=(const State&) = delete;

  Scope root() { return {*this, ""}; }
  Scope operator/(std::string_view part) { return root() / part; }
  const LiveMesh& mesh() const { return mesh_; }
  uint64_t seed() const { return seed_; }
  // The dtype that a model computes in: f32 (the default), bf16 or f16. bf16 and f16 are policies as in
  // torch.autocast, for everything that is traced from now on. Contractions round their inputs of any dtype;
  // sums, exponentials and losses are f32; inputs of different dtypes take the wider one.
  // core/ops/precision.h has the table, and Precision for a part of a model. Parameters, their gradients,
  // moments and updates stay f32: a layer reads a rounded copy (Parameter::computed). f16 records a loss
  // scale. Throws UserError for another dtype, and for f16 if the state is already materialised.
  void compute_dtype(DType dtype, Here at = Here::current());
  DType compute_dtype() const { return compute_; }
  // Sets the loss scale of f16; call it before compute_dtype(DType::f16). Throws UserError if it is called
  // later or a number is not a power of two.
  void loss_scale(LossScale how, Here at = Here::current());
  const LossScale& loss_scale() const { return loss_scale_; }
  // The policy of what is traced: none in f32, which is typed strictly.
  std::optional<DType> policy() const {
    return compute_ == DType::f32 ? std::nullopt : std::optional<DType>(compute_);
  }

  // Makes the linear layers recorded so far multiply in float8, forward and backward, if both sizes are
  // multiples of 16 (linear_float8 of core/functions/float8.h). Everything else is in the compute dtype,
  // which must be set to bf16 before. options.recipe chooses one scale per tensor or per row, computed from
  // each micro-batch. Or it chooses delayed scales, per tensor from the last `options.history` steps, for
  // which each weight gets a history buffer. Bits do not depend on the number of data ranks. Throws UserError
  // for another compute dtype, gradients of another dtype, a mesh with tp, a glob that names nothing, or if
  // no layer is left.
  void float8(const Float8Options& options = {}, Here at = Here::current()) { float8(options, line_of(at)); }
  void float8(const Float8Options& options, const SourceLine& at);
  bool float8_products() const;  // whether any layer multiplies in float8

  // How much of the state dp_shard splits: 1 and 2 split moments, 3 (the default) parameters too. It changes
  // the placement of tensors and the communication of a step, never a bit. Throws UserError for another
  // number, and if the state is already materialised.
  void zero(int level, Here at = Here::current());
  int zero() const { return zero_; }

  // Records a tensor. Throws UserError if the FQN is not a path of parts of letters, digits, _ and -, is
  // reserved by file formats, or is taken (both lines are named). Also if a size is below 1 or the state is
  // already materialised.
  Parameter record(Spec spec);
  const std::deque<Spec>& specs() const { return specs_; }  // in order of recording; references stay valid
  std::vector<Parameter> parameters() const;                // the trainable ones, in order of recording
  Parameter find_spec(std::string_view fqn) const;          // empty when there is none

  // Fine-tune only a part of the tensors recorded so far; optimizers are constructed afterwards. freeze():
  // the weights that any glob names are not trained; they have no gradient, no moments and no exchange.
  // lora(): freezes all weights except those of `also` and trains an adapter for each target
  // (core/nn/lora.h). The adapter is LAYER.lora_A.weight [rank, in], uniform in +-1 / sqrt(in), and
  // LAYER.lora_B.weight [out, rank], zeros, so that the model's output is unchanged at first. Throw UserError
  // for a glob that names nothing, if nothing is left to train, for an option out of range or a second
  // adapter, and if the state is already materialised.
  void freeze(const std::vector<std::string>& globs, Here at = Here::current()) {
    freeze(globs, line_of(at));
  }
  void lora(const LoraOptions& options, Here at = Here::current()) { lora(options, line_of(at)); }
  void freeze(const std::vector<std::string>& globs, const SourceLine& at);
  void lora(const LoraOptions& options, const SourceLine& at);

  // Sets the placement of tensors. Every rule must match a recorded tensor; layout_for describes how rules
  // are applied, check_rule and layout_for what they throw. Rules of several calls add up. Throws UserError
  // if the state is already materialised.
  void place(std::vector<PlacementRule> rules, Here at = Here::current());
  // Default rules, such as a model's own table; rules of place() override them.
  void place_by_default(std::vector<PlacementRule> rules, Here at = Here::current());
  Layout layout(std::string_view fqn) const;  // UserError naming the nearest FQN when there is no such tensor
  // The text of the rule that names this FQN on a mesh dim; "" if there is none (a moment then follows its
  // parameter).
  std::string row_of(const std::string& fqn, const std::string& mesh_dim) const;
  // Parameters that a mesh dim does not split, in order of recording.
  std::vector<std::string> whole_on(const std::string& mesh_dim) const;
  // Bytes of state on the fullest rank; needs no allocation.
  int64_t bytes_per_rank() const;

  // Allocates this rank's shards, zeroed. Does nothing the second time.
  void allocate();
  // Allocates tensors in the memory of `device` from now on, if the host does not address that memory.
  // Initial values and checkpoints are copied straight to the device; the host holds one tensor at a time.
  void live_on(Device& device);
  // Allocates and sets the initial values, which are the same on any mesh. A second call starts over in
  // place.
  void materialize();
  // Adds a function that materialize() calls after the initial values, in the order of these calls, such as
  // one that loads weights. `gives`: the tensors that it overwrites completely. An earlier function that
  // writes only such tensors is dropped.
  void start_with(std::function<void(State&)> weights, std::set<std::string> gives = {});
  // Sets the initial elements of a tensor, dense and row-major, as start_with does, and writes them at once
  // if the state has memory. Each rank keeps a copy of its part; it replaces that of an earlier call. All
  // ranks pass the same elements: collective over mesh().world. Throws UserError for an unknown FQN (naming
  // the nearest), another dtype or shape, a value that is not finite, and elements that differ between ranks.
  void set(std::string_view fqn, const void* elements, DType dtype, const Shape& shape,
           Here at = Here::current());
  bool allocated() const { return allocated_; }
  // Whether every tensor has initial values or values from a checkpoint. Allocated memory does not count,
  // except for tensors that start as zeros.
  bool has_values() const;
  // Gives values to a state that has none before its first step: initial values, then the functions of
  // start_with().
  void start();

  // This rank's shards, in order of recording; pointers stay valid. InternalError before allocate().
  std::vector<Array*> arrays();
  std::vector<const Array*> arrays() const;
  Array& array(std::string_view fqn);  // UserError naming the nearest FQN when there is no such tensor
  Array* find(std::string_view fqn);   // nullptr when there is no such tensor

  // Adds the host scalars ("optim.lr") of the optimizer at `path`: a function of the step, counted from 1, or
  // of step and update. Schedules count steps; the optimizer's rule counts updates, and a skipped step makes
  // none. Throws UserError if `path` has an optimizer already, or two optimizers set one scalar (both lines
  // are named).
  using Scalars = std::map<std::string, double>;
  void add_optimizer(const std::string& path, const SourceLine& at,
                     std::function<Scalars(int64_t step)> scalars);
  void add_optimizer(const std::string& path, const SourceLine& at,
                     std::function<Scalars(int64_t step, int64_t update)> scalars);
  // All host scalars for this step and update; the two numbers are equal if no earlier step was skipped.
  Scalars scalars(int64_t step) const { return scalars(step, step); }
  Scalars scalars(int64_t step, int64_t update) const;
  // Multiplies the rates of the optimizer at `path` by this tensor, f32 [1], when its update reads them.
  void follow(const std::string& path, const std::string& factor) { factors_[path] = factor; }
  // The current value of that factor on this rank; 1 if there is none, or if another rank holds it.
  double factor_of(const std::string& path);
  // The number of updates that a moment has had; 0 before the state has memory.
  int64_t updates_of(std::string_view fqn) const;

 private:
  size_t index_of(std::string_view fqn) const;
  // For a weight that multiplies in float8 by the delayed recipe.
  void record_history(Spec& of, int64_t steps, const SourceLine& at);
  void add_rules(std::vector<PlacementRule>& to, std::vector<PlacementRule> rules, Here at);

  LiveMesh mesh_;
  uint64_t seed_;
  StatePolicy placed_by() const { return {compute_ != DType::f32, zero_}; }
  int zero_ = 3;
  DType compute_ = DType::f32;
  LossScale loss_scale_;
  std::deque<Spec> specs_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<PlacementRule> rules_, defaults_;
  std::deque<Array> arrays_;  // in the order of specs_
  bool allocated_ = false, drawn_ = false;
  void draw(bool again);  // sets initial values of tensors that have none, or of all
  struct Weights {
    std::function<void(State&)> give;
    std::set<std::string> gives;
  };
  std::vector<Weights> weights_;
  struct OfStep {
    std::string path;
    SourceLine at;
    std::function<Scalars(int64_t step, int64_t update)> scalars;
  };
  std::vector<OfStep> optimizers_;
  std::map<std::string, std::string> factors_;  // by an optimizer's path
};

}  // namespace lockstep
