// Dataset: files to sequences of tokens. Which sequence a sample reads depends on its global index alone,
// never on ranks.
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
//   goes on at token 0; order shuffle: a permutation of g mod S keyed by (seed, g / S): each of the S
//   sequences once per epoch.
// Files stay open (small ones in memory); filling is const and safe from several threads.
class Dataset {
 public:
  // Finds and opens the files and logs what was taken and what was skipped (LOCKSTEP_LOGS=data: each file),
  // then reads them once, for the fingerprint and the largest token. Of a folder, kind tokens takes the files
  // *.bin. Kind text skips binary and empty files, and refuses files of records unless they are meant (raw).
  // Throws UserError for options that are no such word, for paths that cannot be read, for malformed files,
  // for a token >= vocab, when nothing is left, and when the training stream is shorter than context + 1
  // tokens. A validation stream shorter than that has 0 sequences, and a warning says so.
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
  // How the content was read for it: "read whole", or "read in blocks of ...". Fingerprints of data read
  // differently say nothing of each other.
  const std::string& read_as() const;
  // The files in the order of the streams.
  const std::vector<DataFile>& contents() const;
  // Paths of files that were written to since they were opened: what is read of them is not what the
  // fingerprint is of.
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
