// runs/NAME: one command at a time writes it, and each attempt has a folder of logs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/supervise/held_folder.h"

namespace lockstep::launcher {

// Holds the folder (held_folder.h), and that of its logs where they lie elsewhere: two runs that share either
// are two runs of which one is refused. `other`: the way to another one, for the message.
class RunFolder {
 public:
  explicit RunFolder(std::string path, const std::string& other = "choose --name=OTHER", double patience = 5);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return held_.path(); }
  // "" while the path leads to the folder that is held, and where this object removed it; else what became of
  // it, and the way out.
  std::string moved() const;
  // The config that the workers read, beside the lock: it becomes config.json when the ranks have found that
  // it can be run, and goes with this object. Written 0600; UserError where it cannot be.
  std::string ask(const std::string& config);
  // Where no run began in the folder: removes what this object made, and nothing else. True where the folder
  // is gone and so are the logs; false where it was there before, and then an attempt stays with its logs.
  bool remove_unused();
  // The logs lie in DIR/NAME of this run, and PATH/logs is a link to it; "": where they are. UserError where
  // the run has its logs elsewhere already; where DIR/NAME is the link of another user, holds the logs of
  // another run, or is written by one that runs; and for a link that does not lead to logs of this run:
  // their lock names it, or, behind a link of this user, a run that is gone (warned of), or they have no lock
  // and the name of this run.
  void keep_logs_in(const std::string& dir);
  // Creates and returns logs/attempt-K, 0700; K is one more than the highest there, from 1. Removes the
  // oldest so that `keep` are left, where it is not 0: the files of an attempt, and no others. A folder with
  // logs of ranks alone is none of a run's.
  std::string new_attempt(int64_t keep = 0) const;

 private:
  void hold_logs(const std::string& folder, const std::string& dir);
  bool remove_logs() const;  // those that this object made; true where its attempts are gone
  const std::string other_;
  const double patience_;
  HeldFolder held_;
  std::unique_ptr<HeldFolder> logs_;  // where they lie elsewhere
  bool asked_ = false, made_link_ = false, removed_ = false;
  mutable std::vector<std::string> attempts_;  // that this object made
};

// RUN_DIR/asked.json: what RunFolder::ask writes.
std::string asked_config(const std::string& run_dir);
// The K of RUN_DIR/logs/attempt-K, ascending.
std::vector<int64_t> attempts_there(const std::string& run_dir);
// That what has the name of a folder cannot be read, and why; "" where it can, and where nothing has it.
std::string unlisted_text(const std::string& folder);
// RUN_DIR/logs/attempt-K.
std::string attempt_folder(const std::string& run_dir, int64_t k);
// logs/attempt-K that new_attempt would create, without creating it.
std::string next_attempt(const std::string& run_dir);
// Removes the files that an attempt makes, and the folder if nothing else is in it. True where it is gone.
bool remove_attempt(const std::string& folder);

// Replaces a file whole: written beside it (0600, core/base/private_file.h), flushed, renamed. UserError
// naming the file when that fails.
void write_whole(const std::string& path, const std::string& text);

}  // namespace lockstep::launcher
