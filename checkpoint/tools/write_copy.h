// A checkpoint that no run writes: made of another one's facts and of values that a function gives, block by
// block, as the ranks of a mesh would have written it.
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

// Writes DIR/step-N by the protocol of commit.cpp, with `facts`' step, config, certificate, scalars, mesh and
// the FQNs, dtypes and shapes of its tensors, which lie as `layouts` say. Nothing larger than a block is
// held. `hash`: what the state hash must be, or nothing is committed and DamagedError is thrown; "": whatever
// it is. UserError where DIR holds this step already, or another process holds DIR.
WrittenCopy write_copy(const std::string& dir, const Manifest& facts, const std::vector<Layout>& layouts,
                       const BlockSource& source, const std::string& hash, Storage& storage);

}  // namespace lockstep::checkpoint
