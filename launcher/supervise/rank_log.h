// RankLog: the file that a rank's stdout and stderr append to. When it is large, it becomes FILE.1, in the
// place of an earlier one, and a new one begins: a run that says much for weeks fills no disk.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/descriptor.h"

namespace lockstep::launcher {

class RankLog {
 public:
  // A file of more than `limit` bytes is large; 0: none is. By default LOCKSTEP_LOG_LIMIT. UserError where
  // the variable is no number.
  explicit RankLog(std::string path);
  RankLog(std::string path, int64_t limit) : path_(std::move(path)), limit_(limit) {}
  // Opens the file to append to; false, with errno, where it cannot be written.
  bool open();
  // Makes it this process's stdout and stderr.
  void take_output() const;
  // Call it between steps. Where the new file cannot be opened, the old one is written on.
  void rotate_if_large();

 private:
  std::string path_;
  int64_t limit_;
  Descriptor file_;
};

}  // namespace lockstep::launcher
