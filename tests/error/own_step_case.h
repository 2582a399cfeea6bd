// What programs of one's own are tried with: a batch that is spoiled, and the words that they are told.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "compiler/compile/compile.h"
#include "core/base/error.h"

namespace lockstep {

using namespace compiler;

inline std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const UserError& error) { return error.what(); } catch (const std::exception& error) {
    return str("no UserError: ", error.what());
  }
  return "accepted";
}
inline void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
}

// Eight samples of four tokens, two at a time; what `spoil` does to them.
using Spoil = std::function<void(int64_t first, std::vector<int32_t*> fields)>;
inline StepInput batch(const Spoil& spoil) {
  return {1, [spoil](int64_t first, int64_t count, const std::vector<void*>& fields) {
            std::vector<int32_t*> ids;
            for (void* field : fields) {
              ids.push_back(static_cast<int32_t*>(field));
              for (int64_t i = 0; i < count * 4; ++i)
                ids.back()[i] = static_cast<int32_t>((first * 4 + i) % 10);
            }
            spoil(first, ids);
          }};
}
inline const std::vector<BatchField> kFields = {{"ids", DType::i32, {2, 4}}, {"y", DType::i32, {2, 4}}};

}  // namespace lockstep
