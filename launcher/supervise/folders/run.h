// RunFolder: runs/NAME, which one command at a time writes; each attempt has a log folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/supervise/folders/held.h"

namespace lockstep::launcher {

// Locks the folder (held.h), and the log folder if it is elsewhere: a second run that shares either is
// refused. `other`: how to choose another folder, for the message.
class RunFolder {
 public:
  // UserError as HeldFolder, and for a link (refuse_linked_run).
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
  // Puts the logs into DIR/NAME of this run, and makes PATH/logs a link to it; "": they stay where they are.
  // UserError if the run has its logs elsewhere already; if DIR/NAME is or is behind another user's link, has
  // the logs of another run, or is written by a running one; and for a link that does not lead to logs of this
  // run. Those have a lock that names it or, behind a link of this user, a run that is gone (warned of), or no
  // lock and the name of this run.
  void keep_logs_in(const std::string& dir);
  // Creates and returns logs/attempt-K, 0700; K is one more than the highest existing one, from 1. If `keep`
  // is not 0, removes the oldest so that `keep` remain, but only an attempt's own files. A folder with
  // nothing but rank logs does not count as an attempt.
  std::string new_attempt(int64_t keep = 0) const;

 private:
  void hold_logs(const std::string& folder, const std::string& dir);
  bool remove_logs() const;  // those that this object created; true when its attempts are gone
  const std::string other_;
  const double patience_;
  HeldFolder held_;
  std::unique_ptr<HeldFolder> logs_;  // where they lie elsewhere
  bool asked_ = false, made_link_ = false, removed_ = false;
  mutable std::vector<std::string> attempts_;  // that this object made
};

// UserError where the folder of a run that is to be written, or emptied of checkpoints, is a link; also of
// PATH/ckpt and PATH/best. The folder that holds it may be one.
void refuse_linked_run(const std::string& path);
// RUN_DIR/asked.json, which RunFolder::ask writes.
std::string asked_config(const std::string& run_dir);
// The K of RUN_DIR/logs/attempt-K, ascending.
std::vector<int64_t> attempts_there(const std::string& run_dir);
// That what has the name of a folder cannot be read, and why; "" where it can, and where nothing has it.
std::string unlisted_text(const std::string& folder);
// RUN_DIR/logs/attempt-K.
std::string attempt_folder(const std::string& run_dir, int64_t k);
// logs/attempt-K that new_attempt would create, without creating it.
std::string next_attempt(const std::string& run_dir);
// Removes an attempt's files, and the folder if it is then empty. True when it is gone.
bool remove_attempt(const std::string& folder);

// Replaces a file atomically: writes a draft next to it (0600, core/files/private_file.h), flushes, renames.
// UserError naming the file when that fails.
void write_whole(const std::string& path, const std::string& text);

}  // namespace lockstep::launcher
