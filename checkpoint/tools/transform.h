// Checkpoints made of checkpoints: the same state as other ranks would have written it, and the mean of the
// weights of several.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/tools/write_copy.h"

namespace lockstep::checkpoint {

// DIR/step-N with the state of a step folder, as the ranks of `mesh` would have written it where tensors lie
// as `layout_of` says. Every element is read once; the state hash stays, and is compared before anything is
// committed. DamagedError with what is wrong where the source is not whole; UserError as write_copy.
WrittenCopy reshard_checkpoint(const std::string& step_dir, const std::string& dir, const Mesh& mesh,
                               const std::function<Layout(const TensorRecord&)>& layout_of,
                               Storage& from = any_storage(), Storage& to = any_storage());
// Rows over all ranks of the mesh's data dims, as dp_shard splits them: for a state whose model is not known.
Layout layout_by_rows(const TensorRecord& tensor, const Mesh& mesh);

struct Averaged {
  WrittenCopy written;
  int64_t weights = 0;                // tensors that were averaged
  std::vector<std::string> as_last;   // of integers: those of the last source
  std::vector<std::string> left_out;  // of the optimizer
};
// DIR/step-N (of the last source), written by one rank: of each tensor of floats the mean over all sources,
// summed in their order in f64 and rounded once; integers as the last has them; nothing of the optimizer.
// UserError for fewer than two sources, naming a tensor that another source does not have or has otherwise,
// with both types, and a value that is not finite; DamagedError as reshard_checkpoint.
Averaged average_checkpoints(const std::vector<std::string>& step_dirs, const std::string& dir,
                             Storage& from = any_storage(), Storage& to = any_storage());

}  // namespace lockstep::checkpoint
