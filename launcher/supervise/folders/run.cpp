// RunFolder: locks a run's folders and removes what this process created in them.
#include "launcher/supervise/folders/run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"
#include "core/files/private_file.h"
#include "core/files/remove_known.h"
#include "core/reading/whole_number.h"
#include "launcher/supervise/launch/console.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

// The final name of a draft file (other versions write X.tmp); any other name is returned unchanged.
std::string without_draft(std::string name) {
  for (const std::string_view end : {kDraft, std::string_view(".tmp")})
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  return name;
}

// Files of an attempt's folder (worker/contract.h, hosts/agent.cpp), and the drafts of those written atomically.
bool is_attempt_file(const Entry& entry) {
  const std::string name = without_draft(entry.path);
  if (entry.folder) return false;
  for (const char* plain : {"launcher.log", "hosts", "regroup", "stop"})
    if (name == plain) return true;
  const auto numbered = [&](const char* before, const char* behind = "") {
    return is_numbered(name, before, behind);
  };
  if (name.starts_with("daemon-") && name.ends_with(".json")) return true;
  if (const size_t dot = name.rfind('.'); dot != std::string::npos && is_numbered(name.substr(dot), "."))
    for (const char* draft : {"error.rank-", "progress-", "links-"})  // left by a killed process
      if (is_numbered(name.substr(0, dot), draft)) return true;
  return numbered("rank-", ".log") || numbered("rank-", ".log.1") || numbered("worker-", ".json") ||
         numbered("stopped-") || numbered("progress-") || numbered("links-") || numbered("error-", ".json");
}

// Every attempt has more than rank logs; other programs use such names too.
bool is_attempt_of_run(const std::string& folder) {
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (const std::string name = at->path().filename();
        !name.starts_with("rank-") && is_attempt_file({name, at->is_directory(failed)}))
      return true;
  return false;
}

// Files through which the hosts of a run find each other (hosts/agent.cpp).
bool is_node_file(const Entry& entry) {
  const std::string name = without_draft(entry.path);
  return !entry.folder && (name == "over.json" || is_numbered(name, "node-", ".json"));
}

bool is_own_link(const std::string& path) {
  struct stat at{};
  return lstat(path.c_str(), &at) == 0 && S_ISLNK(at.st_mode) && at.st_uid == geteuid();
}

// A file or a link.
void remove_file(const std::string& path) { ::unlink(path.c_str()); }
}  // namespace

RunFolder::RunFolder(std::string path, const std::string& other, double patience)
    : other_(other),
      patience_(patience),
      held_((refuse_linked_run(path), path), absolute(path), {"cannot write the run's folder " + path, other},
            patience) {
  held_.take();
}

void refuse_linked_run(const std::string& path) {
  fs::path run = fs::path(path).lexically_normal();
  if (!run.has_filename()) run = run.parent_path();
  if (run.filename() == "ckpt" || run.filename() == "best") run = run.parent_path();
  if (is_link(run.string()))
    throw UserError(str(printable(run.string()),
                        " is a link, and nothing is written or removed behind one: it may come from "
                        "elsewhere. Remove the link, or move the folder that it leads to into its place; "
                        "the folder runs may be a link, to another disk"));
}

std::string asked_config(const std::string& run_dir) { return run_dir + "/asked.json"; }

RunFolder::~RunFolder() {
  if (asked_) remove_file(asked_config(path()));
}

std::string RunFolder::moved() const {
  return removed_ || held_.is_its_own()
             ? ""
             : str(path(),
                   " is gone: it was moved or removed while the run went on; move it back, and the "
                   "same command continues from the last checkpoint");
}

std::string RunFolder::ask(const std::string& config) {
  write_whole(asked_config(path()), config);
  asked_ = true;
  return asked_config(path());
}

void RunFolder::hold_logs(const std::string& folder, const std::string& dir) {
  const std::string run = absolute(path()), said = dir.empty() ? path() + "/logs" : "--log-dir " + dir;
  // A link in the run's folder alone does not permit writing or removing at its target, because the folder
  // may come from elsewhere. The command line or the logs themselves must confirm the target.
  std::error_code gone;
  const auto is_this_run = [&](const std::string& one) {
    return one == run || (!one.empty() && fs::equivalent(one, run, gone));
  };
  const std::string known = run_of_held(folder);
  const bool moved = !known.empty() && fs::status(known, gone).type() == fs::file_type::not_found;
  // A run with --log-dir from a version without log locks: DIR/NAME has no lock.
  const bool unlocked = fs::symlink_status(folder + "/lock", gone).type() == fs::file_type::not_found,
             named = fs::path(folder).filename() == fs::path(run).filename();
  const bool refused = dir.empty() && !is_this_run(known) &&
                       !(is_own_link(path() + "/logs") && (moved || (unlocked && named)));
  if (refused && unlocked && !named) {
    const std::string there = (fs::path(folder).parent_path() / fs::path(run).filename()).string();
    throw UserError(
        str(said, " is a link to ", printable(folder),
            ", which has no lock, as logs of an earlier version, and the name of another run. If they "
            "are this run's, give them its name: mv ",
            printable(folder), " ", printable(there), " && ln -sfn ", printable(there), " ", printable(said),
            "; if not, remove the link"));
  }
  if (refused)
    throw UserError(str(said, " is a link to ", printable(folder),
                        ", which is not known for the logs of this run; say --log-dir=",
                        printable(fs::path(folder).parent_path().string()),
                        " if they are, or remove the link"));
  auto logs = std::make_unique<HeldFolder>(
      folder, run,
      HeldFolder::Words{str(said, ": cannot write ", folder), "choose another --log-dir, or " + other_, true},
      patience_);
  const std::string& before = logs->run_before();
  if (!before.empty() && !is_this_run(before) && fs::equivalent(before + "/logs", folder, gone))
    throw UserError(str(said, ": ", folder, " holds the logs of another run, ", printable(before),
                        "; choose another --log-dir, or ", other_, ", or remove the link ", printable(before),
                        "/logs if that run needs them no more"));
  if (dir.empty() && moved && !is_this_run(known))
    warn_user(str(said, " is a link to ", printable(folder), ", the logs of ", printable(known),
                  ", which is gone: they are taken for this run's"));
  logs_ = std::move(logs);
  logs_->take();
}

void RunFolder::keep_logs_in(const std::string& dir) {
  const std::string link = path() + "/logs";
  std::error_code failed;
  const fs::file_status there = fs::symlink_status(link, failed);
  if (dir.empty()) {
    if (fs::is_symlink(there))
      hold_logs(absolute((fs::path(path()) / fs::read_symlink(link, failed)).string()), dir);
    return;
  }
  const std::string wanted = absolute(dir + "/" + fs::path(path()).filename().string());
  if (wanted == absolute(path()) || fs::equivalent(wanted, path(), failed))
    throw UserError(str("--log-dir ", dir, ": ", wanted, " is the run's own folder, whose logs lie in ", link,
                        " anyhow; leave --log-dir out, or choose another"));
  const std::string now = fs::is_symlink(there) ? fs::read_symlink(link, failed).string() : link;
  if (fs::exists(there) && now != wanted)
    throw UserError(str("--log-dir ", dir, ": the logs of this run lie in ", now, " already, not in ", wanted,
                        "; leave --log-dir out, or move them there and remove ", link));
  hold_logs(wanted, dir);
  if (fs::exists(there)) return;
  fs::create_directory_symlink(wanted, link, failed);
  if (failed) throw UserError(str("--log-dir ", dir, ": cannot write ", link, ": ", failed.message()));
  made_link_ = true;
}

bool RunFolder::remove_logs() const {
  bool gone = true;
  for (const std::string& attempt : attempts_) gone = remove_attempt(attempt) && gone;
  if (!logs_) return gone;
  if (logs_->made()) remove_known(logs_->path() + "/nodes", is_node_file);
  if (logs_->made_lock()) remove_file(logs_->path() + "/lock");
  if (logs_->made()) ::rmdir(logs_->path().c_str());
  if (made_link_) remove_file(path() + "/logs");
  return gone;
}

bool RunFolder::remove_unused() {
  if (!held_.made()) {
    if (!attempts_.empty()) return false;
    remove_logs();
    if (held_.made_lock()) remove_file(path() + "/lock");
    return false;
  }
  const auto made_here = [](const Entry& entry) {
    const std::string& name = entry.path;
    for (const char* one : {"lock", "asked.json", "memory-id", "logs", "logs/nodes"})
      if (name == one || name == draft_of(one)) return true;
    constexpr std::string_view kNodes = "logs/nodes/";
    return name.starts_with(kNodes) && is_node_file({name.substr(kNodes.size()), entry.folder});
  };
  std::error_code failed;
  for (fs::directory_iterator at(path(), failed), end; !failed && at != end; at.increment(failed))
    if (!made_here({at->path().filename().string(), false})) return false;
  if (failed) return false;
  const bool gone = remove_logs();
  removed_ = remove_known(path(), made_here);
  return removed_ && gone;
}

std::string attempt_folder(const std::string& run_dir, int64_t k) {
  return str(run_dir, "/logs/attempt-", k);
}

std::vector<int64_t> attempts_there(const std::string& run_dir) {
  std::vector<int64_t> out;
  std::error_code failed;
  for (fs::directory_iterator at(run_dir + "/logs", failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename();
    if (!is_numbered(name, "attempt-")) continue;
    if (const int64_t k = *whole_number(name.substr(8)); k > 0) out.push_back(k);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string unlisted_text(const std::string& folder) {
  std::error_code failed, unknown;
  const fs::directory_iterator listed(folder, failed);
  if (!failed || fs::symlink_status(folder, unknown).type() == fs::file_type::not_found) return "";
  return str(printable(folder), " cannot be read: ", failed.message(),
             "; it must be a folder that you may read");
}

std::string next_attempt(const std::string& run_dir) {
  const auto there = attempts_there(run_dir);
  return attempt_folder(run_dir, there.empty() ? 1 : there.back() + 1);
}

bool remove_attempt(const std::string& folder) { return remove_known(folder, is_attempt_file); }

std::string RunFolder::new_attempt(int64_t keep) const {
  make_private_folders(path() + "/logs");  // the next call reports a failure
  const std::string out = next_attempt(path());
  if (make_private_folder(out) != 0)
    throw UserError(str("cannot write ", out, ": ", std::strerror(errno), "; look at ", path(),
                        "/logs, which must be a folder that you may write, or ", other_));
  attempts_.push_back(out);
  auto there = attempts_there(path());
  for (; keep > 0 && static_cast<int64_t>(there.size()) > keep; there.erase(there.begin()))
    if (const std::string oldest = attempt_folder(path(), there.front()); is_attempt_of_run(oldest))
      remove_attempt(oldest);
  return out;
}

void write_whole(const std::string& path, const std::string& text) {
  if (!replace_private(path, text)) throw UserError(not_written_text(path, errno));
}

}  // namespace lockstep::launcher
