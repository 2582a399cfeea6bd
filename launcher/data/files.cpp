// Expands data.paths: one walk for folders, one for patterns.
#include "launcher/data/files.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/near_word.h"
#include "core/files/plain_file.h"
#include "core/reading/one_line.h"

namespace fs = std::filesystem;

namespace lockstep::launcher::data {

namespace {

[[noreturn]] void unreadable(const fs::path& path, const std::error_code& why) {
  throw UserError(str("data.paths: cannot read ", one_line(path.string()), ": ", why.message()));
}

fs::file_status status_of(const fs::path& path) {
  std::error_code why;
  fs::file_status status = fs::status(path, why);
  if (status.type() == fs::file_type::not_found) return status;
  if (status.type() == fs::file_type::none || why) unreadable(path, why);
  return status;
}

// Entries of a folder, sorted by name, so that the order never depends on the file system.
std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code why;
  std::vector<fs::path> out;
  fs::directory_iterator at(folder, why);
  if (why) unreadable(folder, why);
  for (; at != fs::directory_iterator(); at.increment(why)) out.push_back(at->path());
  if (why) unreadable(folder, why);
  std::sort(out.begin(), out.end());
  return out;
}

std::string real_path(const fs::path& path) {
  std::error_code why;
  fs::path real = fs::canonical(path, why);
  if (why) unreadable(path, why);
  return real.string();
}

bool is_hidden(const fs::path& path) { return path.filename().native()[0] == '.'; }

class Finder {
 public:
  Finder(const std::string& extension, bool every_name) : extension_(extension), every_name_(every_name) {}

  void add(const std::string& path) {
    fs::file_status status = status_of(path);
    found_.clear();
    if (fs::exists(status)) {
      take(path, status);
    } else if (path.find_first_of("*?[") == std::string::npos) {
      missing(path);
    } else {
      matches_ = 0;
      std::vector<std::string> parts;
      for (const auto& part : split(path, '/'))
        if (!part.empty()) parts.push_back(part);
      match(path[0] == '/' ? fs::path("/") : fs::path(), parts, 0);
      if (!matches_)
        throw MissingData(
            str("data.paths: no file matches ", path, " (* and ? stay within one name, ** crosses folders)"));
    }
    std::sort(found_.begin(), found_.end());
    for (const auto& file : found_) {
      if (taken_.insert(every_name_ ? file : real_path(file)).second) {
        out_.files.push_back(file);
      } else {
        ++out_.duplicates;
        logs::topic("data", str("skipped ", file, ": already taken as ", real_path(file)));
      }
    }
  }

  FileList result() { return std::move(out_); }

 private:
  // A path that was named, by the user or by a pattern.
  void take(const fs::path& path, const fs::file_status& status) {
    if (fs::is_directory(status)) {
      walk(path);
    } else if (fs::is_regular_file(status)) {
      found_.push_back(path.string());
    } else {
      throw UserError(str("data.paths: ", one_line(path.string()), " is neither a file nor a folder"));
    }
  }

  // Files below a folder. A folder is entered only once, so links between folders cannot loop.
  void walk(const fs::path& folder) {
    if (!walked_.insert(real_path(folder)).second) return;
    for (const auto& path : entries(folder)) {
      if (is_hidden(path)) {
        ++out_.hidden;
        continue;
      }
      fs::file_status status = status_of(path);
      if (fs::is_directory(status)) {
        walk(path);
      } else if (fs::is_regular_file(status) && path.string().ends_with(extension_)) {
        found_.push_back(path.string());
      } else {
        ++out_.others;
        logs::topic("data", str("skipped ", path.string(),
                                fs::is_regular_file(status) ? str(": not *", extension_) : ": not a file"));
      }
    }
  }

  // Pattern parts[at..] below `base`.
  void match(const fs::path& base, const std::vector<std::string>& parts, size_t at) {
    if (at == parts.size()) {
      ++matches_;
      take(base, status_of(base));
      return;
    }
    const std::string& part = parts[at];
    if (part.find_first_of("*?[") == std::string::npos) {
      if (fs::exists(status_of(base / part))) match(base / part, parts, at + 1);
      return;
    }
    const fs::path folder = base.empty() ? fs::path(".") : base;
    if (!fs::is_directory(status_of(folder))) return;
    if (part == "**") {
      if (at + 1 < parts.size()) match(base, parts, at + 1);  // no folder in between
      for (const auto& path : entries(folder)) {
        if (is_hidden(path)) continue;
        fs::path next = base / path.filename();
        // a linked folder is not entered: it could loop
        bool inner = fs::is_directory(fs::symlink_status(path));
        if (inner)
          match(next, parts, at);
        else if (at + 1 == parts.size() && fs::is_regular_file(status_of(path)))
          match(next, parts, at + 1);
      }
      return;
    }
    for (const auto& path : entries(folder)) {
      const std::string name = path.filename().string();
      if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0 && fs::exists(status_of(path)))
        match(base / name, parts, at + 1);
    }
  }

  [[noreturn]] void missing(const fs::path& path) {
    fs::path wrong = path;
    fs::path folder = wrong.parent_path().empty() ? fs::path(".") : wrong.parent_path();
    while (!fs::is_directory(status_of(folder))) {
      if (fs::exists(status_of(folder)))
        throw UserError(
            str("data.paths: ", one_line(path.string()), ": ", folder.string(), " is a file, not a folder"));
      wrong = folder;
      folder = wrong.parent_path().empty() ? fs::path(".") : wrong.parent_path();
    }
    std::vector<std::string> names;
    for (const auto& entry : entries(folder)) names.push_back(entry.filename().string());
    const std::string gone = str("data.paths: ", one_line(path.string()), " does not exist");
    if (const std::string near = near_word(wrong.filename().string(), names); !near.empty())
      throw UserError(str(gone, "; nearest: ", (folder == "." ? fs::path(near) : folder / near).string()));
    throw MissingData(str(
        gone,
        wrong != path ? str("; there is no folder ", wrong.string())
                      : str("; nothing in ", folder.string(), " has a name like ", wrong.filename().string()),
        path.string().starts_with("/usr/")
            ? "; files below /usr come with packages (the quickstart's text with Debian's fortunes)"
            : ""));
  }

  std::string extension_;
  bool every_name_;
  FileList out_;
  std::vector<std::string> found_;        // of the current entry, as spelled
  std::set<std::string> taken_, walked_;  // canonical paths; with every_name_, taken_ as spelled
  int64_t matches_ = 0;
};

}  // namespace

namespace {
// Replaces each list @FILE by its lines.
std::vector<std::string> listed(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const auto& path : paths) {
    std::error_code unknown;
    if (!path.starts_with('@') || fs::exists(path, unknown)) {
      out.push_back(path);
      continue;
    }
    std::string text, why;
    if (!read_plain(path.substr(1), text, why))
      throw UserError(str("data.paths: ", one_line(path), " names a list of paths, and ", path.substr(1),
                          " cannot be read: ", why));
    for (const auto& line : split(text, '\n'))
      if (std::string one = trim(line); !one.empty()) out.push_back(std::move(one));
  }
  return out;
}
}  // namespace

FileList find_files(const std::vector<std::string>& given, const std::string& extension, bool every_name) {
  const std::vector<std::string> paths = listed(given);
  if (paths.empty())
    throw UserError("data.paths is empty; name files, folders or patterns, as in [\"data/*.txt\"]");
  Finder finder(extension, every_name);
  for (const auto& path : paths) {
    if (path.empty()) throw UserError("data.paths holds an empty path; name a file, a folder or a pattern");
    finder.add(path);
  }
  return finder.result();
}

}  // namespace lockstep::launcher::data
