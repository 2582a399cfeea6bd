// The token that ends a text, as training and generation need it: tokenizer.json does not name it.
#pragma once

#include <optional>

#include "launcher/data/tokenizer/tokenizer.h"

namespace lockstep::launcher::data {

// In a folder that is named tokenizer.json, or tokenizer.model where that is there alone; else the path
// itself.
std::string tokenizer_file_of(const std::string& path);

// `chosen`: "none"; a token; or "auto", the eos_token of a tokenizer_config.json beside the file, else the
// first of the names that models give it (<|endoftext|>, <|end_of_text|>, </s>, <eos>, ...), else none.
// UserError naming data.eos for a token that the tokenizer does not have.
std::optional<int32_t> end_token(const Tokenizer& tokenizer, const std::string& chosen);

}  // namespace lockstep::launcher::data
