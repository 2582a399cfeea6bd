// Fuzz target: the reader of JSON beside nlohmann's own: what both take is the same value.
#include "core/reading/json_text.h"
#include "tests/fuzz/targets.h"

namespace lockstep::fuzz {

void json(std::string_view bytes) {
  read_json(bytes);  // with comments
  const JsonText read = read_json(bytes, Comments::refused, {.members = kAllMembers});
  const Json other = Json::parse(bytes, nullptr, false);
  FUZZ_CHECK(read.readable ? !other.is_discarded() : read.beyond || other.is_discarded(),
             read.errors.empty() ? "" : read.errors[0]);
  FUZZ_CHECK(read.readable || !read.errors.empty());
  if (read.readable && read.errors.empty()) FUZZ_CHECK(read.value == other);
  const SortedJsonText sorted = read_sorted_json(bytes, {.members = kAllMembers});
  if (sorted.readable) FUZZ_CHECK(sorted.value == nlohmann::json::parse(bytes));
}

}  // namespace lockstep::fuzz
