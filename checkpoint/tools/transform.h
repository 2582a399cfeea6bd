// Makes checkpoints from checkpoints: the same state for another mesh, and the mean of several sets of
// weights.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/tools/write_copy.h"

namespace lockstep::checkpoint {

// Writes DIR/step-N with the state of a step folder, as the ranks of `mesh` would write it with the layouts
// of `layout_of`. Every element is read once; the state hash is unchanged and is checked before the commit.
// DamagedError with the problem when the source is damaged; UserError as write_copy.
WrittenCopy reshard_checkpoint(const std::string& step_dir, const std::string& dir, const Mesh& mesh,
                               const std::function<Layout(const TensorRecord&)>& layout_of,
                               Storage& from = any_storage(), Storage& to = any_storage());
// Shards rows over all ranks of the mesh's data dims, as dp_shard does: for a state whose model is unknown.
Layout layout_by_rows(const TensorRecord& tensor, const Mesh& mesh);

struct Averaged {
  WrittenCopy written;
  int64_t weights = 0;                // tensors that were averaged
  std::vector<std::string> as_last;   // of integers: those of the last source
  std::vector<std::string> left_out;  // of the optimizer
};
// Writes DIR/step-N (N of the last source) on one rank. Each float tensor is the mean over all sources,
// summed in their order in f64 and rounded once. Integers come from the last source; optimizer state is left
// out. UserError for fewer than two sources, for a tensor that a source lacks or has with another type
// (naming both types), and for a value that is not finite. DamagedError as reshard_checkpoint.
Averaged average_checkpoints(const std::vector<std::string>& step_dirs, const std::string& dir,
                             Storage& from = any_storage(), Storage& to = any_storage());

}  // namespace lockstep::checkpoint
