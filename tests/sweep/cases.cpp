// Every sample of every row.
#include "tests/sweep/cases.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace lockstep::sweep {

bool holds(const Case& made, const Verdict& verdict) {
  EXPECT_EQ(verdict.value_or(""), "") << made.title;
  return verdict.has_value();
}

void for_each_case(const std::function<void(const Case&)>& law, const std::vector<DType>& others) {
  for (const Op* op : all_ops()) {
    if (!swept(*op)) continue;
    for (size_t i = 0; i < op->samples.size(); ++i) {
      std::vector<Sample> variants{op->samples[i]};
      for (DType dtype : others)
        if (auto variant = in_dtype(*op, op->samples[i], dtype)) variants.push_back(*variant);
      for (const Sample& sample : variants) {
        std::string title = str(op->id, ", sample ", i);
        try {
          Case made = make_case(*op, i, sample);
          title = made.title;
          law(made);
        } catch (const std::exception& error) { ADD_FAILURE() << title << ": " << error.what(); }
      }
    }
  }
}

}  // namespace lockstep::sweep
