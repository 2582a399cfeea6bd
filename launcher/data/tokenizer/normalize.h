// Normalizers of tokenizer.json: transform text before it is split.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/data/tokenizer/marked_text.h"

namespace lockstep::launcher::data {

class Normalizer {
 public:
  // Reads the file's "normalizer": null, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace,
  // Precompiled, Nmt, Strip, StripAccents, BertNormalizer and Sequence of them. UserError naming `who` for
  // another.
  Normalizer(const nlohmann::json& described, const std::string& who);
  // UserError for a text that grows far more than normal forms can make it.
  void apply(MarkedText& text) const;
  bool empty() const { return steps_.empty(); }

 private:
  void add(const nlohmann::json& described, const std::string& who);
  void add_bert(const nlohmann::json& described, const std::string& who);
  std::string who_;
  std::vector<std::function<void(MarkedText&)>> steps_;
};

}  // namespace lockstep::launcher::data
