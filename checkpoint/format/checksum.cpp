// Checksum over xxHash's streaming state.
#include "checkpoint/format/checksum.h"

#include <xxhash.h>

#include <cstdio>
#include <new>

namespace lockstep::checkpoint {

struct Checksum::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  if (!state_->xxh) throw std::bad_alloc();
  XXH3_64bits_reset_withSeed(state_->xxh, 0);
}
Checksum::~Checksum() = default;
void Checksum::add(const void* data, size_t bytes) {
  if (bytes) XXH3_64bits_update(state_->xxh, data, bytes);
}
uint64_t Checksum::value() const { return XXH3_64bits_digest(state_->xxh); }

std::string checksum_text(uint64_t value) {
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value));
  return out;
}

std::optional<uint64_t> parse_checksum(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  uint64_t value = 0;
  for (char c : text) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  return value;
}

}  // namespace lockstep::checkpoint
