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

// First specs are recorded (models, then optimizers), then placed, then materialised shard by shard: no rank
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
  // What a model computes in: f32 (the start), or bf16 or f16, a policy as torch.autocast for all that is
  // traced from now on, whenever it was recorded: contractions round their inputs, whatever dtype these have,
  // sums, exponentials and losses are f32, and where dtypes meet the wider one stays (core/ops/precision.h:
  // the table, and Precision for a part of a model). Parameters stay f32, and so do their gradients, moments
  // and updates: a layer reads a rounded copy (Parameter::computed). f16 records a loss scale. UserError for
  // another dtype, and for f16 when the state is already materialised.
  void compute_dtype(DType dtype, Here at = Here::current());
  DType compute_dtype() const { return compute_; }
  // The loss scale of f16, to be chosen before compute_dtype(DType::f16). UserError: it comes later, or is no
  // power of two.
  void loss_scale(LossScale how, Here at = Here::current());
  const LossScale& loss_scale() const { return loss_scale_; }
  // The policy of what is traced: none in f32, which is typed strictly.
  std::optional<DType> policy() const {
    return compute_ == DType::f32 ? std::nullopt : std::optional<DType>(compute_);
  }

  // Of what is recorded so far, linear layers of which both sizes are multiples of 16 multiply in float8,
  // forward and backward: linear_float8 of core/ops/functions/float8.h. Between them all is as compute_dtype
  // says, which is bf16, chosen before. A scale is a tensor's, or a row's (options.recipe), and follows from
  // each micro-batch alone, or, delayed, a tensor's by what it had in the last `options.history` steps, of
  // which a buffer is recorded beside each weight. Bits do not depend on the number of data ranks.
  // UserError: another compute dtype, gradients of another dtype, a mesh with tp, a glob that names nothing,
  // or nothing is left to multiply.
  void float8(const Float8Options& options = {}, Here at = Here::current()) { float8(options, line_of(at)); }
  void float8(const Float8Options& options, const SourceLine& at);
  bool float8_products() const;  // whether any layer multiplies in float8

  // How much of the state dp_shard splits: 1 and 2 moments, 3 (the start) parameters too. It changes where
  // tensors lie and what a step sends when, never a bit. UserError for another number, and when the state is
  // already materialised.
  void zero(int level, Here at = Here::current());
  int zero() const { return zero_; }

  // Records a tensor. UserError: the FQN is no path of parts of letters, digits, _ and -, or one that files
  // keep for themselves, or it is taken (both lines are named), a size is below 1, or the state is already
  // materialised.
  Parameter record(Spec spec);
  const std::deque<Spec>& specs() const { return specs_; }  // in order of recording; references stay valid
  std::vector<Parameter> parameters() const;                // the trainable ones, in order of recording
  Parameter find_spec(std::string_view fqn) const;          // empty when there is none

  // Fine-tuning of a part, of what is recorded so far; optimizers come afterwards. freeze(): the weights that
  // any of the globs names are not trained; they have no gradient, no moments and no exchange. lora(): nor is
  // any other but those of `also`, and beside each target an adapter is trained (core/nn/lora.h), as
  // LAYER.lora_A.weight [rank, in], uniform in +-1 / sqrt(in), and LAYER.lora_B.weight [out, rank], zeros, so
  // that the model computes at first what it did. UserError: a glob that names nothing, nothing is left to
  // train, an option out of range, a second adapter, or the state is already materialised.
  void freeze(const std::vector<std::string>& globs, Here at = Here::current()) {
    freeze(globs, line_of(at));
  }
  void lora(const LoraOptions& options, Here at = Here::current()) { lora(options, line_of(at)); }
  void freeze(const std::vector<std::string>& globs, const SourceLine& at);
  void lora(const LoraOptions& options, const SourceLine& at);

  // Where tensors lie. Every rule must match something that is recorded already; see layout_for for how rules
  // are read, and check_rule and layout_for for what is thrown. The rules of all calls count together.
  // UserError when the state is already materialised.
  void place(std::vector<PlacementRule> rules, Here at = Here::current());
  // Rules that yield to those of place(): a model's own table.
  void place_by_default(std::vector<PlacementRule> rules, Here at = Here::current());
  Layout layout(std::string_view fqn) const;  // UserError naming the nearest FQN when there is no such tensor
  // The row that says where a tensor lies on a mesh dim, or (a moment) where its parameter does not say it;
  // "" for none.
  std::string row_of(const std::string& fqn, const std::string& mesh_dim) const;
  std::vector<std::string> whole_on(
      const std::string& mesh_dim) const;  // parameters that a mesh dim does not split, in order of recording
  // Bytes of state on the fullest rank; needs no allocation.
  int64_t bytes_per_rank() const;

  // Allocates this rank's shards, zeroed. Does nothing the second time.
  void allocate();
  // From now on what is allocated lives in the memory of `device`, where the host does not address it:
  // initial values and checkpoints go straight there, and the host holds a tensor at a time.
  void live_on(Device& device);
  // allocate(), then initial values: the same on any mesh. Calling it again starts over, in place.
  void materialize();
  // What materialize() calls behind the initial values, in the order of these calls: weights from elsewhere.
  // `gives`: the tensors that it writes whole, whatever they had; what wrote some of these alone before, and
  // nothing else, is let go.
  void start_with(std::function<void(State&)> weights, std::set<std::string> gives = {});
  // The tensor starts from these elements, dense and row-major, wherever the state starts (as start_with),
  // and has them now where the state has memory; each rank keeps its part. They are copied, and those of an
  // earlier call let go. The same on all
  // ranks: collective over mesh().world. UserError for another dtype or shape, naming the nearest FQN where
  // there is no such tensor, for a value that is not finite, and for elements that differ between ranks.
  void set(std::string_view fqn, const void* elements, DType dtype, const Shape& shape,
           Here at = Here::current());
  bool allocated() const { return allocated_; }
  // Whether all of it has initial values, or what a checkpoint gave; memory alone is zeros that nobody chose,
  // but for what starts as zeros.
  bool has_values() const;
  // What a step does that is called before the state has values: initial values for what has none, then what
  // start_with() gave.
  void start();

  // This rank's shards, in order of recording; pointers stay valid. InternalError before allocate().
  std::vector<Array*> arrays();
  std::vector<const Array*> arrays() const;
  Array& array(std::string_view fqn);  // UserError naming the nearest FQN when there is no such tensor
  Array* find(std::string_view fqn);   // nullptr when there is no such tensor

  // Host scalars of a step ("optim.lr"): the optimizer at `path` adds a function of the step, counted from 1,
  // or of the step, which schedules count, and the update, which its own rule counts: a step that is passed
  // over makes none. UserError when `path` has an optimizer already, or two of them set one scalar (both
  // lines are named).
  using Scalars = std::map<std::string, double>;
  void add_optimizer(const std::string& path, const SourceLine& at,
                     std::function<Scalars(int64_t step)> scalars);
  void add_optimizer(const std::string& path, const SourceLine& at,
                     std::function<Scalars(int64_t step, int64_t update)> scalars);
  // What all of them give for this step and update; where each step before was applied, they are one number.
  Scalars scalars(int64_t step) const { return scalars(step, step); }
  Scalars scalars(int64_t step, int64_t update) const;
  // The rates of the optimizer at `path` are times this tensor, f32 [1], where its update reads them.
  void follow(const std::string& path, const std::string& factor) { factors_[path] = factor; }
  // That factor as this rank has it now: 1 where nothing is followed, or its row lies on other ranks.
  double factor_of(const std::string& path);
  // The updates that a moment has had: 0 before the state has memory.
  int64_t updates_of(std::string_view fqn) const;

 private:
  size_t index_of(std::string_view fqn) const;
  void record_history(Spec& of, int64_t steps,
                      const SourceLine& at);  // of a weight that multiplies in float8
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
  std::deque<Array> arrays_;  // beside specs_
  bool allocated_ = false, drawn_ = false;
  void draw(bool again);  // initial values of all that has none, or of all
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
