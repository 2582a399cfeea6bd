// Chooses the token that ends a text, for training and generation; tokenizer.json does not name it.
#pragma once

#include <optional>

#include "launcher/data/tokenizer/tokenizer.h"

namespace lockstep::launcher::data {

// For a folder: its tokenizer.json, or its tokenizer.model if there is no tokenizer.json; else the path
// itself.
std::string tokenizer_file_of(const std::string& path);

// `chosen`: "none"; a token; or "auto", the eos_token of a tokenizer_config.json next to the file, else the
// first of its common names (<|endoftext|>, <|end_of_text|>, </s>, <eos>, ...), else none. UserError naming
// data.eos for a token that the tokenizer does not have.
std::optional<int32_t> end_token(const Tokenizer& tokenizer, const std::string& chosen);

}  // namespace lockstep::launcher::data
