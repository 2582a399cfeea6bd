// The rows of train()'s options: one for each member, with a key of a config or none, and with the compiler's
// default where the compiler has the option.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>

#include "launcher/api/option_words.h"
#include "launcher/api/train_options.h"
#include "launcher/config/config.h"

namespace lockstep {
namespace {

// Initializes any member, so that fields() counts the members of a struct.
struct Anything {
  template <class T>
    requires(!std::is_same_v<T, Validation>)
  operator T() const;
};
template <class T, class... Given>
constexpr size_t fields() {
  if constexpr (requires { T{Given{}..., Anything{}}; })
    return fields<T, Given..., Anything>();
  else
    return sizeof...(Given);
}

TEST(TrainOptions, EachMemberHasOneRow) {
  const TrainOptions options;
  std::set<std::string> names;
  std::set<const void*> members;
  size_t rows = 0;
  each_train_option([&](const char* name, const char*, auto of, auto...) {
    names.insert(name), members.insert(&(options.*of)), ++rows;
  });
  EXPECT_EQ(rows + 1, fields<TrainOptions>()) << "all but validation";
  EXPECT_EQ(names.size(), rows);
  EXPECT_EQ(members.size(), rows);
}

TEST(TrainOptions, EachHasAKeyOfItsTypeOrNone) {
  const TrainOptions options;
  std::set<std::string> keys, without, renamed;
  each_train_option([&](const std::string& name, const std::string& key, auto of, auto...) {
    if (key.empty()) {
      without.insert(name);
      return;
    }
    EXPECT_TRUE(keys.insert(key).second) << key;
    const ConfigKey* row = launcher::find_key(key);
    ASSERT_NE(row, nullptr) << name << " names " << key;
    EXPECT_EQ(row->written(options.*of).has_value(), name != "memory_budget") << key << " is " << row->type;
    if (!key.ends_with("." + name)) renamed.insert(name);
  });
  EXPECT_EQ(without, (std::set<std::string>{"return_when_stopped", "run"}));
  EXPECT_EQ(renamed, (std::set<std::string>{"global_batch", "micro_batch", "offload_moments", "report_every",
                                            "save_async", "save_every"}));
}

TEST(TrainOptions, ThoseOfTheCompilerHaveItsDefaults) {
  const TrainOptions options;
  const compiler::CompileOptions compiled;
  std::set<std::string> equal, others;
  each_train_option([&](const char* name, const char*, auto of, auto... to) {
    if constexpr (sizeof...(to) > 0) {
      const bool same = (... && (options.*of == compiled.*to));
      (same ? equal : others).insert(name);
    }
  });
  EXPECT_EQ(equal, (std::set<std::string>{"offload_activations", "offload_moments", "together"}));
  EXPECT_EQ(others, std::set<std::string>{"memory_budget"});
  EXPECT_LT(options.memory_budget, 0) << "negative: no budget";
  EXPECT_EQ(compiled.memory_budget, compiler::kRecomputeNothing);
}

TEST(TrainOptions, MessagesSayTheNameForTheKey) {
  each_train_option([&](const std::string& name, const std::string& key, auto...) {
    if (key.empty()) return;
    const std::string said = key.starts_with("compile.") ? key : name;
    EXPECT_EQ(in_options(key + " is 0, and " + key), said + " is 0, and " + said);
  });
  EXPECT_EQ(in_options("runs/train.log: train.eval_every is -1 (checkpoint.every, optim.moments)"),
            "runs/train.log: validation.every is -1 (save_every, moments)");
}

}  // namespace
}  // namespace lockstep
