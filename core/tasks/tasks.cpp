// The list of tasks, and those registered.
#include <algorithm>
#include <deque>

#include "core/tasks/all.h"

namespace lockstep::tasks {

namespace {
std::vector<const Task*>& list() {
#define LOCKSTEP_TASK_ADDRESS(name) &name(),
  static std::vector<const Task*> all = {LOCKSTEP_TASKS(LOCKSTEP_TASK_ADDRESS)};
#undef LOCKSTEP_TASK_ADDRESS
  return all;
}
// A registered task, and the texts that its row points to.
struct Registered {
  explicit Registered(Task given)
      : kind(given.kind), about(given.about), unit(given.unit), task(std::move(given)) {
    task.kind = kind, task.about = about, task.unit = unit;
  }
  Registered(const Registered&) = delete;
  std::string kind, about, unit;
  Task task;
};
}  // namespace

std::span<const Task* const> tasks() { return list(); }

void register_task(Task task, Here line) {
  const std::string kind(task.kind);
  auto refuse = [&](const std::string& what) {
    throw UserError(str("[register_task] \"", kind, "\" at ", line_of(line).text(), ": ", what));
  };
  if (kind.empty() || kind == "auto")
    refuse("its kind is \"\" or \"auto\"; give the word that a config writes as task.kind");
  if (task.takes.empty()) refuse("it takes no output of a model; name at least one in `takes`");
  if (!task.keys || !task.fields || !task.objectives)
    refuse("it has no keys, no fields or no objectives; task_of<Options>({...}) gives them");
  for (const ConfigKey& row : task.keys())
    if (row.path == "kind")
      refuse("an option has the name \"kind\", which is task.kind; give it another name");
  for (const Task* known : tasks()) {
    if (known->kind == kind) refuse("another task has this kind; give one of them another name");
    if (const auto conflict = type_conflict(task.keys(), known->keys()))
      refuse(str("its option ", conflict->first.path, " has the type ", conflict->first.type, ", and task.",
                 conflict->second.path, " of ", known->kind, " the type ", conflict->second.type,
                 "; give it that type, or another name"));
  }
  static std::deque<Registered> registered;
  list().push_back(&registered.emplace_back(std::move(task)).task);
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
