// Writes a checkpoint outside a run: from another one's facts and values that a function gives block by
// block, as the ranks of a mesh would write it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/storage/storage.h"
#include "core/mesh/layout.h"

namespace lockstep::checkpoint {

// Fills `out` with the elements of a box of tensor `index` of the facts, row-major and dense.
using BlockSource = std::function<void(size_t index, const Box& block, std::byte* out)>;

struct WrittenCopy {
  std::string path;  // DIR/step-N
  std::string state_hash;
  int64_t bytes = 0, files = 0;
};

// Writes DIR/step-N by the protocol of commit.cpp, with the step, config, certificate, scalars, mesh and
// tensor types of `facts`, split as `layouts` say. At most one block is in memory. `hash`: the required state
// hash; on a mismatch nothing is committed and DamagedError is thrown ("": any hash). UserError when DIR
// already has this step, or another process has locked DIR.
WrittenCopy write_copy(const std::string& dir, const Manifest& facts, const std::vector<Layout>& layouts,
                       const BlockSource& source, const std::string& hash, Storage& storage);

}  // namespace lockstep::checkpoint
