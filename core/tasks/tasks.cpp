// The list of tasks.
#include <algorithm>

#include "core/tasks/all.h"

namespace lockstep::tasks {

std::span<const Task* const> tasks() {
  static const Task* const all[] = {&causal_lm(),      &masked_lm(),    &seq2seq(),
                                    &classification(), &segmentation(), &regression(),
                                    &binary(),         &autoencoding(), &adversarial()};
  return all;
}

std::vector<std::string> task_names() {
  std::vector<std::string> out;
  for (const Task* row : tasks()) out.emplace_back(row->kind);
  return out;
}

const Task& task(std::string_view kind) {
  for (const Task* row : tasks())
    if (row->kind == kind) return *row;
  const std::string near = nearest(kind, task_names());
  throw UserError(str("[task] no task is called \"", shortened(kind, 120), "\"",
                      near.empty() ? "" : str("; did you mean \"", near, "\"?"),
                      "; kinds: ", join(task_names(), ", ")));
}

std::string_view pace_unit(const Task& task) { return task.unit == "token" ? "tokens" : "samples"; }
bool fits(const Task& task, const models::Family& family) {
  return std::find(task.takes.begin(), task.takes.end(), family.output) != task.takes.end();
}

bool Batch::has(std::string_view name) const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& field) { return field.name == name; });
}
const Tensor& Batch::operator[](std::string_view name) const {
  for (size_t i = 0; i < fields_.size(); ++i)
    if (fields_[i].name == name) return values_[i];
  throw InternalError(str("the batch has no field ", name));
}
std::vector<Tensor> Batch::of(const std::vector<Field>& fields) const {
  std::vector<Tensor> out;
  for (const Field& field : fields) out.push_back((*this)[field.name]);
  return out;
}

}  // namespace lockstep::tasks
