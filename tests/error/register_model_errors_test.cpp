// register_model and register_task: every refusal, on its words.
#include <gtest/gtest.h>

#include <functional>

#include "core/base/error.h"
#include "core/tasks/task.h"

using namespace lockstep;

namespace {
// The message of the UserError that `what` throws; a failure when it throws none.
std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const UserError& e) { return e.what(); }
  ADD_FAILURE() << "no UserError";
  return "";
}
void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
}
std::string here(int line) { return str("register_model_errors_test.cpp:", line); }

struct Wide {
  int64_t width = key(&width, "width", 4, "features");
};
struct Wordy {
  std::string width = key(&width, "width", "wide", "features, in words");
};
struct Kind {
  std::string kind = key(&kind, "kind", "", "taken");
};
struct Alpha {
  int64_t label_smoothing = key(&label_smoothing, "label_smoothing", 0, "whole numbers");
};
template <class Options>
models::Family family(std::string_view kind) {
  return models::family_of<Options>({.kind = kind,
                                     .about = "",
                                     .output = models::Output::values,
                                     .task = "regression",
                                     .make = [](Scope, const Options&, Here) { return models::Model{}; }});
}
template <class Options>
tasks::Task task(std::string_view kind, std::vector<models::Output> takes = {models::Output::values}) {
  return tasks::task_of<Options>(
      {.kind = kind,
       .about = "",
       .takes = takes,
       .unit = "sample",
       .fields = [](const models::Model&, const Options&) { return std::vector<models::Field>{}; },
       .objectives = [](const models::Model&, const tasks::Batch&,
                        const Options&) { return std::vector<tasks::Objective>{}; }});
}
}  // namespace

TEST(RegisteredModels, RefusalsSayWhatIsTaken) {
  const size_t families = models::families().size(), all = tasks::tasks().size();
  int line = __LINE__ + 1;
  expect_words(refusal([&] { models::register_model(family<Wide>("gpt")); }),
               {"[register_model] \"gpt\" at " + here(line), "another model has this kind"});
  expect_words(refusal([&] { models::register_model(family<Wide>("")); }),
               {"its kind is empty", "model.kind"});
  expect_words(refusal([&] { models::register_model(family<Kind>("mine")); }),
               {"an option has the name \"kind\"", "give it another name"});
  expect_words(refusal([&] { models::register_model(family<Wordy>("mine")); }),
               {"its option width has the type string, and model.width of gpt the type integer"});
  models::Family none = family<Wide>("mine");
  none.make = nullptr;
  expect_words(refusal([&] { models::register_model(none); }), {"it has no keys or no make"});
  line = __LINE__ + 1;
  expect_words(refusal([&] { tasks::register_task(task<Wide>("regression")); }),
               {"[register_task] \"regression\" at " + here(line), "another task has this kind"});
  expect_words(refusal([&] { tasks::register_task(task<Wide>("auto")); }), {"its kind is \"\" or \"auto\""});
  expect_words(refusal([&] { tasks::register_task(task<Wide>("mine", {})); }),
               {"it takes no output of a model"});
  expect_words(refusal([&] { tasks::register_task(task<Kind>("mine")); }),
               {"an option has the name \"kind\""});
  expect_words(
      refusal([&] { tasks::register_task(task<Alpha>("mine")); }),
      {"its option label_smoothing has the type integer, and task.label_smoothing of causal_lm the type "
       "number"});
  tasks::Task empty = task<Wide>("mine");
  empty.objectives = nullptr;
  expect_words(refusal([&] { tasks::register_task(empty); }), {"it has no keys, no fields or no objectives"});
  EXPECT_EQ(models::families().size(), families);
  EXPECT_EQ(tasks::tasks().size(), all);
}
