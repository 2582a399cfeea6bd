// Names, creates and removes the memory folders of runs.
#include "launcher/supervise/folders/memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "core/base/error.h"
#include "core/files/checkpoint_names.h"
#include "core/files/plain_file.h"
#include "core/files/private_file.h"
#include "core/files/remove_known.h"
#include "core/reading/whole_number.h"
#include "launcher/supervise/folders/held.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
std::string folder_prefix() { return str("lockstep-memory.", geteuid(), "."); }
std::string id_file(const std::string& run_dir) { return run_dir + "/memory-id"; }

std::string random_word() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw UserError(str("the system gives no random numbers: ", std::strerror(errno)));
  std::string out;
  char two[3];
  for (unsigned char byte : bytes) std::snprintf(two, sizeof two, "%02x", byte), out += two;
  return out;
}

bool is_word(const std::string& id) {
  return id.size() == 32 && id.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// "" if there is none.
std::string read_word(const std::string& path) {
  std::string text, why;
  return read_plain(path, text, why, 4096) ? trim(text) : "";
}

// Where paths have the meaning that they have here: a mount namespace, and a root in it. Containers that
// share /dev/shm, and jobs with a /tmp of their own, are in others.
std::string space_of_paths() {
  struct stat root{};
  char mounts[64] = {};
  if (stat("/", &root) != 0 || readlink("/proc/self/ns/mnt", mounts, sizeof mounts - 1) < 0) return "unknown";
  return str(root.st_dev, ":", root.st_ino, " ", mounts);
}

// Whose checkpoints a memory folder has, as its file `run` says.
struct Owner {
  std::string run, space;
};

Owner owner_of(const std::string& folder) {
  const std::string text = read_word(folder + "/run");
  const size_t line = text.find('\n');
  if (line == std::string::npos) return {text, ""};
  return {text.substr(0, line), text.substr(line + 1)};
}

// lockstep-memory.UID.NAME.ID, and nothing else.
bool is_memory_folder(const std::string& name) {
  const size_t dot = name.rfind('.');
  return name.starts_with(folder_prefix()) && dot >= folder_prefix().size() && is_word(name.substr(dot + 1));
}

// Names that ranks write there (checkpoint/folder.h), and trainrun's own file.
bool is_memory_file(const Entry& entry) {
  const size_t slash = entry.path.find('/');
  const std::string top = entry.path.substr(0, slash);
  if (slash == std::string::npos && !entry.folder) {
    for (const char* one : {"run", ".lock", "latest"})
      if (top == one || top == draft_of(one) || top == str(one, ".tmp"))
        return true;  // .tmp: of other versions
    return false;
  }
  if (!is_step_folder(top)) return false;
  return slash == std::string::npos || (!entry.folder && is_checkpoint_file(entry.path.substr(slash + 1)));
}

// Takes the lock that a run holds while it saves there. Not open if the file is missing, or if another
// process has the lock (`held`).
Descriptor lock_of(const std::string& folder, bool& held) {
  Descriptor lock(open((folder + "/.lock").c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  held = lock ? flock(lock.get(), LOCK_EX | LOCK_NB) != 0 : errno != ENOENT;
  return lock;
}

// Whether its run is gone and no process holds it. A run that may be elsewhere is gone after a day without a
// save.
bool forgotten(const std::string& folder) {
  struct stat at{};
  if (lstat(folder.c_str(), &at) != 0 || !S_ISDIR(at.st_mode) || at.st_uid != geteuid()) return false;
  const Owner owner = owner_of(folder);
  const int64_t age = time(nullptr) - at.st_mtime;
  if (owner.run.empty()) return age > 60;  // being created, or its creator was killed
  if (owner.space != space_of_paths() ? age < 24 * 3600
                                      : folder.ends_with("." + read_word(id_file(owner.run))))
    return false;
  bool held = false;
  const Descriptor lock = lock_of(folder, held);
  return !held;
}

std::string folder_name(const std::string& run_dir, const std::string& id) {
  std::string name = fs::absolute(run_dir).lexically_normal().filename().string().substr(0, 60);
  auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; };
  std::replace_if(name.begin(), name.end(), [&](char c) { return !plain(c); }, '_');
  return str("/dev/shm/", folder_prefix(), name, ".", id);
}

// Whether the memory folder belongs to another run, of which this run's folder is a copy.
bool is_of_another(const std::string& folder, const std::string& run_dir, const std::string& id) {
  const std::string run = owner_of(folder).run;
  return !run.empty() && run != fs::absolute(run_dir).lexically_normal().string() &&
         read_word(id_file(run)) == id;
}
}  // namespace

std::string memory_folder_of(const std::string& run_dir) {
  std::string id = read_word(id_file(run_dir));
  if (!is_word(id) || is_of_another(folder_name(run_dir, id), run_dir, id)) {
    id = random_word();
    make_private_folders(run_dir);  // the next call reports a failure
    if (!replace_private(id_file(run_dir), id + "\n"))
      throw UserError(not_written_text(id_file(run_dir), errno));
  }
  return folder_name(run_dir, id);
}

void make_memory_folder(const std::string& folder, const std::string& run_dir) {
  auto refuse = [&](const std::string& why) {
    throw UserError(str("checkpoint.memory_every keeps checkpoints in ", folder, ", which ", why,
                        "; mount a tmpfs at /dev/shm that you may write, or set checkpoint.memory_every=0"));
  };
  if (make_private_folder(folder) != 0 && errno != EEXIST)
    refuse(str("cannot be made: ", std::strerror(errno)));
  struct stat at{};
  if (lstat(folder.c_str(), &at) != 0 || !S_ISDIR(at.st_mode)) refuse("is no folder");
  if (at.st_uid != geteuid() || (at.st_mode & 077)) refuse("others may enter or own");
  const std::string run = fs::absolute(run_dir).lexically_normal();
  if (!replace_private(folder + "/run", str(run, "\n", space_of_paths(), "\n")))
    refuse(str("cannot be written: ", std::strerror(errno)));
}

std::string remove_memory_folder(const std::string& folder) {
  bool held = false;
  const Descriptor lock = lock_of(folder, held);
  if (held) return str(folder, " is left: a process holds its lock");
  if (remove_known(folder, is_memory_file)) return "";
  const int reason = errno;
  const std::string other = foreign_in(folder, is_memory_file);
  return str(folder, " is left: ",
             other.empty() ? std::string(std::strerror(reason))
                           : str("it holds ", other, ", which is no checkpoint's"));
}

int remove_forgotten_memory(const std::string& top) {
  int removed = 0;
  std::error_code failed;
  for (fs::directory_iterator at(top, failed), end; !failed && at != end; at.increment(failed))
    if (is_memory_folder(at->path().filename()) && forgotten(at->path()))
      removed += remove_memory_folder(at->path()).empty();
  return removed;
}

int64_t newest_step_in(const std::string& folder) {
  int64_t out = -1;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename();
    if (name.starts_with("step-")) out = std::max(out, whole_number(name.substr(5)).value_or(-1));
  }
  return out;
}

}  // namespace lockstep::launcher
