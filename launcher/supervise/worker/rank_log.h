// RankLog: the file that a rank's stdout and stderr append to. When it is large, it is renamed to FILE.1,
// replacing an earlier one, and a new file begins: a verbose run of weeks does not fill the disk.
#pragma once

#include <cstdint>
#include <string>

#include "core/files/descriptor.h"

namespace lockstep::launcher {

class RankLog {
 public:
  // A file of more than `limit` bytes is large; 0: no limit. The default is LOCKSTEP_LOG_LIMIT. UserError
  // when the variable is not a number.
  explicit RankLog(std::string path);
  RankLog(std::string path, int64_t limit) : path_(std::move(path)), limit_(limit) {}
  // Opens the file for appending; false, with errno, when it cannot be written.
  bool open();
  // Makes it this process's stdout and stderr.
  void take_output() const;
  // Call it between steps. If the new file cannot be opened, writing continues in the old one.
  void rotate_if_large();

 private:
  std::string path_;
  int64_t limit_;
  Descriptor file_;
};

}  // namespace lockstep::launcher
