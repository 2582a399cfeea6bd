// Checks run names, and finds similar ones.
#include "launcher/config/run_names.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/near_word.h"
#include "core/base/text.h"
#include "core/reading/one_line.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

std::string no_run_name(const std::string& name, const std::string& key) {
  if (!name.empty() && name != "." && name != ".." && name.find_first_of("/\\ \t\n") == std::string::npos &&
      printable(name) == name && name.size() <= 200)
    return "";
  return str(
      key, " is \"", shortened(one_line(name), 60),
      "\"; it names a folder below runs/, so it has no slash, no space and no control character, and at "
      "most 200 bytes");
}

std::string no_folder_path(const std::string& path, const std::string& key) {
  const std::string shown = shortened(one_line(path), 200), said = str(key, " is \"", shown, "\"");
  const std::string own = "./" + shown + " is a folder of that name here";
  if (std::any_of(path.begin(), path.end(), [](unsigned char c) { return std::iscntrl(c); }))
    return str(said, "; a path of a run has no line end and no other control character");
  if (path.starts_with('~'))
    return str(said, "; ~ is your home in a shell alone, which did not read it; give the whole path; ", own);
  const size_t colon = path.find(":/");
  const bool scheme =
      colon != std::string::npos && colon > 0 &&
      std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(colon),
                  [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-'; });
  const bool store = path.starts_with("s3://") && path.size() > 5 && path[5] != '/';
  if (!scheme || store) return "";
  return str(said, "; an object store is s3://BUCKET/PREFIX, and any other place a folder's path; ", own);
}

void refuse_no_local_path(const std::string& path, const std::string& key) {
  std::string why = no_folder_path(path, key);
  if (why.empty() && path.starts_with("s3://"))
    why =
        str(key, " is \"", shortened(one_line(path), 200),
            "\", an object store, and it is written on a disk; give a path, and copy what is written there");
  if (!why.empty()) throw UserError(why);
}

std::vector<std::string> run_names() {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("runs", none))
    if (const fs::path& run = entry.path(); fs::exists(run / "config.json", none) ||
                                            fs::is_directory(run / "ckpt", none) ||
                                            fs::is_directory(run / "logs", none))
      out.push_back(run.filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string no_such_run(const std::string& word) {
  const bool name = word.find('/') == std::string::npos;
  return str("no run ", word, ": there is ",
             name ? str("neither a folder runs/", word, " nor ", word) : "no such folder",
             runs_instead_of(word));
}

std::string runs_instead_of(const std::string& word) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names = run_names();
  fs::path path = fs::path(word).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  for (const fs::path& part : {path, path.parent_path()}) {  // runs/NAME/best also belongs to a run
    const std::string name = part.filename().string(), near = name == "runs" ? "" : near_word(name, names);
    if (!near.empty()) return str("; did you mean runs/", one_line(near), "?");
  }
  std::error_code none;
  if (names.empty())
    return fs::is_directory("runs", none)
               ? "; the folder runs holds no run"
               : "; there is no folder runs here: go to where the run was started, or give its path";
  const size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  return str("; the runs here are ", one_line(join(names, ", ")), more ? str(" and ", more, " more") : "");
}

}  // namespace lockstep::launcher
