// The table of op names: the built-in ones, then interned ones in the order in which they were met.
#include "core/ir/op_id.h"

#include <deque>
#include <map>
#include <mutex>
#include <ostream>
#include <shared_mutex>
#include <string>

namespace lockstep {

namespace {
struct Registry {
  Registry() {
    for (std::string_view name : op_detail::kNames) add(name);
  }
  uint32_t add(std::string_view name) {
    const std::string& kept = names.emplace_back(name);
    return places.emplace(kept, static_cast<uint32_t>(names.size() - 1)).first->second;
  }
  std::shared_mutex mutex;
  std::deque<std::string> names;  // by index; a deque never moves its strings
  std::map<std::string_view, uint32_t> places;
};
Registry& registry() {
  static Registry all;
  return all;
}
}  // namespace

OpId intern(std::string_view name) {
  Registry& all = registry();
  {
    std::shared_lock lock(all.mutex);
    if (auto found = all.places.find(name); found != all.places.end()) return OpId(found->second);
  }
  std::unique_lock lock(all.mutex);
  auto found = all.places.find(name);
  return OpId(found == all.places.end() ? all.add(name) : found->second);
}

std::string_view OpId::name() const {
  if (index_ < op_detail::kNames.size()) return op_detail::kNames[index_];
  if (*this == OpId()) return "";
  Registry& all = registry();
  std::shared_lock lock(all.mutex);
  return all.names[index_];
}

std::ostream& operator<<(std::ostream& out, OpId op) { return out << op.name(); }

}  // namespace lockstep
