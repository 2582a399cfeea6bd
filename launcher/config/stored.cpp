// Telling a stored config from one's own, and the rule for plugins.
#include "launcher/config/stored.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"

namespace lockstep::launcher {

namespace fs = std::filesystem;

namespace {
bool is(const fs::path& path) {
  std::error_code none;
  return fs::exists(fs::symlink_status(path, none));
}
bool is_run_folder(const fs::path& folder) {
  return is(folder / "metrics.jsonl") || (is(folder / "lock") && is(folder / "logs"));
}
bool is_step_folder(const fs::path& folder) { return is(folder / "manifest.json"); }

// Quoted, with what a terminal would obey written out.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}
bool plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > ' ' && c < 127 && c != '\'' && c != '"' && c != '\\' && c != '$' && c != '`';
  });
}

const Override* named_again(const std::vector<Override>& overrides) {
  auto found = std::find_if(overrides.rbegin(), overrides.rend(),
                            [](const Override& one) { return one.path == "train.device"; });
  return found == overrides.rend() ? nullptr : &*found;
}
}  // namespace

std::string stored_in(const std::string& file) {
  std::error_code none;
  const fs::path path = fs::weakly_canonical(file, none);
  if (none || !path.has_parent_path()) return "";
  fs::path folder = path.parent_path();
  if (is(folder / "ckpt")) return folder.string();
  for (int level = 0; level < 4 && folder.has_relative_path(); ++level, folder = folder.parent_path())
    if (is_run_folder(folder) || (level == 0 && is_step_folder(folder)) ||
        (level < 2 && folder.parent_path().filename() == "runs"))
      return folder.string();
  return "";
}

void refuse_stored_plugin(const RunConfig& config, const std::string& where, const std::string& folder,
                          const std::vector<Override>& overrides, const std::string& command) {
  const DeviceChoice choice = device_choice(config.train.device);
  if (choice.kind != "plugin" || folder.empty()) return;
  const bool named = named_again(overrides) != nullptr;
  if (named && choice.path.starts_with('/')) return;
  std::error_code none;
  const std::string absolute = choice.path.find('/') == std::string::npos
                                   ? ""
                                   : fs::absolute(choice.path, none).lexically_normal().string();
  const std::string again = absolute.empty() || !plain(absolute) ? "/PATH/OF/ITS/LIBRARY.so" : absolute;
  if (named)
    throw UserError(str("train.device is ", quoted(config.train.device),
                        ", a relative path, and the config is stored (", where,
                        "): for a stored config the library is named with its absolute path, so that no "
                        "folder decides which one is "
                        "opened: --train.device=plugin:",
                        again));
  throw UserError(str(where, " names train.device ", quoted(config.train.device),
                      ", a library whose code would run as you. The config is stored in ", folder,
                      ", which may come from elsewhere, and a stored config opens no library. Name it on the "
                      "command line, with its "
                      "absolute path, if you trust it: `",
                      command, " --train.device=plugin:", again,
                      "`; or compute elsewhere: --train.device=cpu"));
}

void make_plugin_absolute(RunConfig& config) {
  const DeviceChoice choice = device_choice(config.train.device);
  std::error_code none;
  if (choice.kind != "plugin" || choice.path.starts_with('/')) return;
  if (choice.path.find('/') == std::string::npos)
    throw UserError(str("train.device plugin:", choice.path,
                        " names no place, and a library's owner is checked before it is opened; write a "
                        "path, as in plugin:./",
                        choice.path, " or plugin:/usr/lib/", choice.path));
  const fs::path absolute = fs::absolute(choice.path, none);
  if (!none) config.train.device = "plugin:" + absolute.lexically_normal().string();
}

}  // namespace lockstep::launcher
