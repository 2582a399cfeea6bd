// Checksum: XXH3-64 of bytes that arrive in pieces, and its text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

// The same value as hash64 over the joined bytes.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void add(const void* data, size_t bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_text(uint64_t value);  // 16 hex digits
std::optional<uint64_t> parse_checksum(
    std::string_view text);  // nullopt for anything but 16 lower-case hex digits

}  // namespace lockstep::checkpoint
