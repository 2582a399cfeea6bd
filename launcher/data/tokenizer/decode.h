// Decoders of tokenizer.json: turn tokens into text.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::launcher::data {

class Decoder {
 public:
  // Reads the file's "decoder": null, ByteLevel, Metaspace, ByteFallback, Fuse, Replace, Strip and Sequence
  // of them. UserError naming `who` for another.
  Decoder(const nlohmann::json& described, const std::string& who);
  // The text of tokens in the file's spelling; bytes that are not UTF-8 become U+FFFD.
  std::string apply(std::vector<std::string> tokens) const;

 private:
  void add(const nlohmann::json& described, const std::string& who);
  std::vector<std::function<void(std::vector<std::string>&)>> steps_;
  bool none_ = false;
};

}  // namespace lockstep::launcher::data
