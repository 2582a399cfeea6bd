// The warning after a partial load.
#include "launcher/loop/left_out.h"

#include "core/base/log.h"

namespace lockstep::launcher {

void tell_left(const checkpoint::LoadedInfo& loaded, const checkpoint::LeftOut& left) {
  constexpr size_t kMost = 20;
  std::string words = str(loaded.path, " is loaded in part (load.partial): ", left.loaded, " tensors of it");
  auto lines = [&](const std::vector<std::string>& of, const char* what) {
    for (size_t i = 0; i < of.size() && i < kMost; ++i) words += str("\n  ", what, of[i]);
    if (of.size() > kMost) words += str("\n  ", what, of.size() - kMost, " more");
  };
  lines(left.of_model, "keeps its initial values: ");
  lines(left.of_checkpoint, "nobody takes: ");
  lines(left.other_type, "keeps its initial values, being of another type: ");
  logs::warn(words);
}

}  // namespace lockstep::launcher
