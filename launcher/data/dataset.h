// Dataset: turns files into token sequences. The sequence of a sample depends only on its global index, never
// on ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/data/options.h"

namespace lockstep::launcher::data {

// A training stream and a validation stream. Each is the concatenation of its parts of the files, in the
// order of find_files; a file of n tokens gives its last round(n * validation) to validation. Sequence s of a
// stream reads tokens s*context..s*context+context, and a stream of n tokens has (n-1)/context sequences, so
// that no sequence reads past the end. Sample g = step*global_batch + i (step and i from 0) reads training
// sequence
//   order sequential: g mod S, that is token (g mod S)*context: when fewer than context+1 tokens are left, it
//   continues at token 0; order shuffle: a permutation of g mod S keyed by (seed, g / S): each of the S
//   sequences occurs once per epoch.
// Files stay open (small ones in memory); filling is const and thread-safe.
class Dataset {
 public:
  // Finds and opens the files and logs which were used and skipped (LOCKSTEP_LOGS=data: each file), then
  // reads them once, for the fingerprint and the largest token. Of a folder, kind tokens uses the files
  // *.bin. Kind text skips binary and empty files, and refuses files of records without `raw`. Throws
  // UserError for unknown option values, for paths that cannot be read, for malformed files, for a token >=
  // vocab, when nothing is left, and when the training stream is shorter than context + 1 tokens. A
  // validation stream shorter than that has 0 sequences, and a warning says so.
  explicit Dataset(const DataOptions& options);
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;

  int64_t sequences() const;             // training sequences, one epoch; at least 1
  int64_t tokens() const;                // tokens of the training stream
  int64_t validation_sequences() const;  // 0 without validation
  int64_t validation_tokens() const;
  // 32 hex digits over each file's name, size and content, for the log and the manifest.
  const std::string& fingerprint() const;
  // How the content was read for it: "read whole", or "read in blocks of ...". Fingerprints from different
  // ways of reading cannot be compared.
  const std::string& read_as() const;
  // The files in the order of the streams.
  const std::vector<DataFile>& contents() const;
  // Paths of files that were written to since they were opened, so that the fingerprint no longer describes
  // them.
  std::vector<std::string> changed() const;

  // Samples first..first+count-1 of a step, as int32 ids[count, context] and targets[count, context] (the
  // tokens one further). Needs step >= 0, 0 <= first, first + count <= global_batch. Throws UserError for a
  // token >= vocab, and for a file that became shorter, with file and offset.
  void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count, int32_t* ids,
            int32_t* targets) const;
  // Validation sequences first..first+count-1, always in this order. Needs first + count <=
  // validation_sequences().
  void fill_validation(int64_t first, int64_t count, int32_t* ids, int32_t* targets) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::launcher::data
