// Walks a path through descriptors and checks owner and mode of each part.
#include "core/files/trusted_path.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>

#include "core/base/text.h"
#include "core/files/private_file.h"

namespace lockstep {

namespace {
constexpr int kLinks = 40;  // as the kernel allows

std::string user_name(uid_t uid) {
  const passwd* user = ::getpwuid(uid);
  return user ? user->pw_name : "";
}
std::string user_text(uid_t uid) {
  const std::string name = user_name(uid);
  return name.empty() ? str("uid ", uid) : str(name, " (uid ", uid, ")");
}
std::string mode_text(const struct stat& at) {
  char out[16];
  std::snprintf(out, sizeof out, "%04o", static_cast<unsigned>(at.st_mode & 07777));
  return out;
}

// Whether a group belongs to a single user, as distributions create one for each user.
bool own_group(gid_t gid) {
  const std::string user = user_name(::geteuid());
  const group* of = ::getgrgid(gid);
  if (user.empty() || !of || user != of->gr_name) return false;
  for (char** member = of->gr_mem; *member; ++member)
    if (user != *member) return false;
  return true;
}

// Returns "" if only root and this user could have written the file or folder `path`, else the reason.
std::string distrust(const std::string& path, const struct stat& at) {
  if (at.st_uid != 0 && at.st_uid != ::geteuid())
    return str(path, " belongs to ", user_text(at.st_uid), ", mode ", mode_text(at),
               ", and this process is of ", user_text(::geteuid()));
  if (S_ISLNK(at.st_mode) || (S_ISDIR(at.st_mode) && (at.st_mode & S_ISVTX)))
    return "";  // in a sticky folder only owners rename and remove
  const bool others = at.st_mode & S_IWOTH, group = (at.st_mode & S_IWGRP) && !own_group(at.st_gid);
  if (!others && !group) return "";
  return str(path, " is writable for ", others ? "every user" : "its group", " (it belongs to ",
             user_text(at.st_uid), ", mode ", mode_text(at), "); `chmod go-w ", path, "` closes it");
}

TrustedOpen failed(const std::string& path, int error) {
  TrustedOpen out;
  out.error = error;
  out.why = str(path, ": ", std::strerror(error));
  return out;
}
TrustedOpen refused(std::string why) {
  TrustedOpen out;
  out.why = std::move(why);
  return out;
}

Descriptor open_at(const Descriptor& folder, const std::string& name, int flags) {
  int fd;
  do fd = ::openat(folder.get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

std::string link_target(const Descriptor& link) {
  std::string out(4096, '\0');
  const ssize_t n = ::readlinkat(link.get(), "", out.data(), out.size());
  out.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return out;
}

// Puts the parts of a path before those that are left to walk.
void put_first(std::deque<std::string>& parts, const std::string& path) {
  std::vector<std::string> names = split(path, '/');
  for (size_t i = names.size(); i-- > 0;)
    if (!names[i].empty() && names[i] != ".") parts.push_front(names[i]);
}

class Walk {
 public:
  explicit Walk(const std::string& path) : shown_(path) {
    std::error_code none;  // the current folder may have been removed: the walk then fails at its first part
    put_first(parts_,
              path.starts_with('/') ? path : str(std::filesystem::current_path(none).string(), "/", path));
  }
  // Walks until `left` parts remain; a link on the way adds parts. Returns false on failure; out() has the
  // reason.
  bool go(size_t left, bool create) {
    if (!folder_ && !from_root()) return false;
    while (parts_.size() > left) {
      const std::string name = parts_.front();
      parts_.pop_front();
      if (!step(name, create)) return false;
    }
    return true;
  }
  TrustedOpen folder() {
    TrustedOpen out;
    out.file = std::move(folder_);
    out.resolved = where_.empty() ? "/" : where_;
    return out;
  }
  TrustedOpen last_file() {
    if (parts_.empty()) return failed(shown_, EISDIR);
    TrustedOpen out = open_trusted_in(folder_, parts_.front(), where_);
    out.resolved = str(where_, "/", parts_.front());
    return out;
  }
  TrustedOpen out() { return std::move(out_); }

 private:
  bool refuse(TrustedOpen why) {
    out_ = std::move(why);
    return false;
  }
  bool from_root() {
    folder_ = Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    where_.clear();
    struct stat at;
    if (!folder_ || ::fstat(folder_.get(), &at) != 0) return refuse(failed("/", errno));
    if (std::string why = distrust("/", at); !why.empty()) return refuse(refused(why));
    return true;
  }
  bool step(const std::string& name, bool create) {
    const std::string here =
        name == ".." ? std::filesystem::path(where_).parent_path().string() : str(where_, "/", name);
    Descriptor next = open_at(folder_, name, O_PATH);
    if (!next && errno == ENOENT && create &&
        (make_private_folder(name, folder_.get()) == 0 || errno == EEXIST))
      next = open_at(folder_, name, O_PATH);
    struct stat at;
    if (!next || ::fstat(next.get(), &at) != 0) return refuse(failed(here, errno));
    if (std::string why = distrust(here, at); !why.empty()) return refuse(refused(why));
    if (S_ISLNK(at.st_mode)) {
      if (++links_ > kLinks) return refuse(failed(here, ELOOP));
      const std::string target = link_target(next);
      put_first(parts_, target);
      return target.starts_with('/') ? from_root() : true;
    }
    if (!S_ISDIR(at.st_mode)) return refuse(failed(here, ENOTDIR));
    folder_ = std::move(next);
    where_ = here == "/" ? "" : here;
    return true;
  }

  std::string shown_, where_;
  std::deque<std::string> parts_;
  Descriptor folder_;
  int links_ = 0;
  TrustedOpen out_;
};
}  // namespace

TrustedOpen open_trusted_folder(const std::string& path, bool create) {
  if (path.empty()) return failed("the empty path", ENOENT);
  Walk walk(path);
  return walk.go(0, create) ? walk.folder() : walk.out();
}

TrustedOpen open_trusted_file(const std::string& path) {
  if (path.empty()) return failed("the empty path", ENOENT);
  Walk walk(path);
  return walk.go(1, false) ? walk.last_file() : walk.out();
}

TrustedOpen open_trusted_in(const Descriptor& folder, const std::string& name, const std::string& shown) {
  const std::string here = str(shown, "/", name);
  struct stat at;
  Descriptor there = open_at(folder, name, O_PATH);  // O_PATH has no effect on a pipe or a device
  if (!there || ::fstat(there.get(), &at) != 0) return failed(here, errno);
  if (S_ISLNK(at.st_mode))
    return refused(str(here, " is a symbolic link to ", link_target(there), "; name the file itself"));
  if (!S_ISREG(at.st_mode))
    return refused(str(here, " is ",
                       S_ISDIR(at.st_mode)    ? "a folder"
                       : S_ISFIFO(at.st_mode) ? "a pipe"
                                              : "a device or a socket",
                       ", not a file"));
  Descriptor file = open_at(folder, name, O_RDONLY | O_NONBLOCK);
  if (!file || ::fstat(file.get(), &at) != 0) return failed(here, errno);
  if (!S_ISREG(at.st_mode)) return refused(str(here, " was exchanged while it was opened"));
  if (std::string why = distrust(here, at); !why.empty()) return refused(why);
  TrustedOpen out;
  out.file = std::move(file);
  out.resolved = here;
  return out;
}

}  // namespace lockstep
