// The conformance suite of Storage: every implementation passes the same cases, the verbs alone and whole
// checkpoints with an end or a failure at each operation. A case throws on the first wrong value.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/storage/storage.h"

namespace lockstep::conformance {

struct StorageCase {
  std::string name;
  // `folder` is not there yet, is this case's own, and is left behind.
  std::function<void(checkpoint::Storage& storage, const std::string& folder)> run;
};
std::vector<StorageCase> storage_cases();

}  // namespace lockstep::conformance
