// Frames: the tokens that a tokenizer.json adds around texts (its member post_processor).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/data/tokenizer/tokenizer.h"

namespace lockstep::launcher::data {

struct Frames {
  std::vector<int32_t> before, behind;  // of one text
  std::optional<Tokenizer::Frame> pair;
};
// Reads TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel (which adds nothing) and a Sequence
// of them. UserError naming `where` for another one, and for a template of two texts that does not have each
// once, in order, or has a segment beyond 1.
Frames read_frames(const nlohmann::json& described, const std::string& where);

}  // namespace lockstep::launcher::data
