// Task: what a model is trained for. A task defines the fields of a data sample, the loss to minimise, and
// the metrics to report. It can train any family (core/models/family.h) whose output it takes.
//
// A task is one file of this folder; one line in all.h registers it.
#pragma once

#include "core/functions/losses.h"
#include "core/models/family.h"

namespace lockstep::tasks {

using models::Field;
using models::Model;
using models::Output;

// A micro-batch by the names of its fields.
class Batch {
 public:
  Batch(const std::vector<Field>& fields, const std::vector<Tensor>& values)
      : fields_(fields), values_(values) {}
  bool has(std::string_view name) const;
  const Tensor& operator[](std::string_view name) const;  // InternalError for another name
  std::vector<Tensor> of(const std::vector<Field>& fields) const;

 private:
  const std::vector<Field>& fields_;
  const std::vector<Tensor>& values_;
};

// A loss, and the parameters that it trains.
struct Objective {
  Loss loss;
  std::string parameters = "**";  // FQN glob
};

struct Task {
  std::string_view kind;   // task.kind: "classification"
  std::string_view about;  // "classes of samples: cross-entropy; accuracy, top-5"
  std::vector<Output> takes;
  std::string_view unit;  // what the loss counts: "token", "sample", "pixel"
  bool perplexity;        // e^loss is meaningful and reported
  std::span<const ConfigKey> (*keys)();
  // Of the batch: the model's inputs, and the task's targets.
  std::function<std::vector<Field>(const Model& model, const Json& options)> fields;
  // Traced on a micro-batch; the loss of the first objective is the run's. Reports metrics. Under Evaluation
  // it uses no random numbers.
  std::function<std::vector<Objective>(const Model& model, const Batch& batch, const Json& options)>
      objectives;
};

struct NoOptions {};

// Makes a task from typed options; each file of this folder calls it.
template <class Options>
struct TaskOf {
  std::string_view kind, about;
  std::vector<Output> takes;
  std::string_view unit;
  bool perplexity = false;
  std::vector<Field> (*fields)(const Model&, const Options&);
  std::vector<Objective> (*objectives)(const Model&, const Batch&, const Options&);
};
template <class Options>
Task task_of(const TaskOf<Options>& of) {
  auto typed = [kind = std::string(of.kind)](const Json& given) {
    return options_from<Options>(given, "task " + kind);
  };
  return {of.kind,
          of.about,
          of.takes,
          of.unit,
          of.perplexity,
          &keys_of<Options>,
          [=](const Model& model, const Json& given) { return of.fields(model, typed(given)); },
          [=](const Model& model, const Batch& batch, const Json& given) {
            return of.objectives(model, batch, typed(given));
          }};
}

// All tasks, in the order of help and messages: those of this folder, then those registered. The span holds
// until the next is registered.
std::span<const Task* const> tasks();
// Adds a user-defined task, as models::register_model adds a family: register_task(task_of<Options>({...})).
// Throws UserError, naming the line, if the kind is taken, empty or "auto", or if the task takes no output.
// Also if an option is named "kind", or has the name of another task's option but another type.
void register_task(Task task, Here line = Here::current());
std::vector<std::string> task_names();
const Task& task(std::string_view kind);  // UserError naming the kinds, and the nearest
bool fits(const Task& task, const models::Family& family);
// The unit of training speed in reports: "tokens" if the loss counts tokens, else "samples".
std::string_view pace_unit(const Task& task);

}  // namespace lockstep::tasks
