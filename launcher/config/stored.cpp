// Distinguishes stored configs from the user's own, and enforces the rule for plugins and op libraries.
#include "launcher/config/stored.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/reading/given_text.h"
#include "core/reading/json_text.h"
#include "core/table/op_library.h"

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

// Quoted, with control characters escaped.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}
bool plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > ' ' && c < 127 && c != '\'' && c != '"' && c != '\\' && c != '$' && c != '`';
  });
}

bool named_again(const std::vector<Override>& overrides, std::string_view key) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [&](const Override& one) { return one.path == key; });
}
// The absolute path; "" if it has no slash or the folder is unknown.
std::string absolute_path(const std::string& path) {
  std::error_code none;
  if (path.find('/') == std::string::npos) return "";
  const fs::path absolute = fs::absolute(path, none);
  return none ? "" : absolute.lexically_normal().string();
}
void make_absolute(std::vector<std::string>& libraries) {
  for (std::string& path : libraries) {
    if (path.find('/') == std::string::npos)
      throw UserError(str("compile.load_ops \"", shortened(printable(path), 120),
                          "\" names no place, and a library's owner is checked before it is opened; write a "
                          "path, as in ./",
                          path, " or /usr/lib/", path));
    if (const std::string absolute = absolute_path(path); !absolute.empty()) path = absolute;
  }
}
int64_t leaves_of(const Json& node) {
  if (!node.is_object()) return 1;
  int64_t out = 0;
  for (const auto& inner : node) out += leaves_of(inner);
  return out;
}
// In a form that can be typed again.
std::string to_type(const std::string& path) {
  const std::string absolute = absolute_path(path);
  return absolute.empty() || !plain(absolute) ? "/PATH/OF/ITS/LIBRARY.so" : absolute;
}

void refuse_stored_ops(const RunConfig& config, const std::string& where, const std::string& folder,
                       const std::vector<Override>& overrides, const std::string& command) {
  const auto& paths = config.compile.load_ops;
  if (paths.empty()) return;
  const bool named = named_again(overrides, "compile.load_ops");
  if (named &&
      std::all_of(paths.begin(), paths.end(), [](const auto& path) { return path.starts_with('/'); }))
    return;
  std::vector<std::string> again;
  for (const std::string& path : paths) again.push_back(to_type(path));
  const std::string words = shortened(quoted(join(paths, ", ")), 200),
                    key = "--compile.load_ops=[" + join(again, ",") + "]";
  if (named)
    throw UserError(
        str("compile.load_ops is ", words, ", with a relative path, and the config is stored (", where,
            "): for a stored config libraries are named with their absolute paths, so that no folder "
            "decides which ones are opened: ",
            key));
  throw UserError(
      str(where, " names compile.load_ops ", words,
          ", libraries whose code would run as you. The config is stored in ", folder,
          ", which may come from elsewhere, and a stored config opens no library. Name them on the "
          "command line, with absolute paths, if you trust them: `",
          command, " ", key, "`; or do without them: --compile.load_ops=[]"));
}
// Whether a text looks like one of a run's small files of words and paths.
bool is_word_of_run(const std::string& name, const std::string& text) {
  const std::string line = trim(text);
  if (name == "memory-id")
    return line.size() == 32 && line.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (name == "program.json") {
    const Json said = bounded_json(text);
    return said.is_object() && said.contains("command") && said.contains("folder");
  }
  return line.find('/') != std::string::npos && printable(line) == line;  // a path, or an address
}
}  // namespace

void refuse_foreign_words(const std::string& run, const std::vector<std::string>& names,
                          const std::string& other) {
  for (const std::string& name : names) {
    std::string text, why;
    if (!read_plain(run + "/" + name, text, why) || text.empty() || is_word_of_run(name, text)) continue;
    throw UserError(str(run, "/", name,
                        " is there, and no run wrote it: a file of the run's would take its place. "
                        "It is left as it is; move it away, or ",
                        other));
  }
}

bool is_stored_config(const std::string& text) {
  constexpr int64_t kKeys = 45;  // the first version stored 53; the longest config in `configs` has 38
  const Json config = bounded_json(text);
  for (const char* section : {"model", "data", "batch", "train", "optim", "checkpoint"})
    if (!config.is_object() || !config.contains(section) || !config[section].is_object()) return false;
  return leaves_of(config) >= kKeys;
}

void refuse_foreign_config(const std::string& path, const std::string& other) {
  std::string text, why;
  std::error_code none;
  if (read_plain(path, text, why, kJsonBytes) ? text.empty() || is_stored_config(text)
                                              : !fs::is_regular_file(path, none))
    return;
  throw UserError(str(path,
                      " is there, and no run stored it: the run's config would take its place. It is left as "
                      "it is; move it away, or ",
                      other));
}

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
  if (folder.empty()) return;
  refuse_stored_ops(config, where, folder, overrides, command);
  const DeviceChoice choice = device_choice(config.train.device);
  if (choice.kind != "plugin") return;
  const bool named = named_again(overrides, "train.device");
  if (named && choice.path.starts_with('/')) return;
  const std::string again = to_type(choice.path);
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

void refuse_stored_place(const RunConfig& config, const std::string& where, const std::string& folder,
                         const std::vector<Override>& overrides, const std::string& command) {
  if (folder.empty()) return;
  const std::string stored =
      str("The config is stored in ", folder,
          ", which may come from elsewhere, and a stored config does not choose where a run "
          "writes and removes. ");
  const std::string& dir = config.checkpoint.dir;
  if (!dir.empty() && !named_again(overrides, "checkpoint.dir"))
    throw UserError(str(where, " names checkpoint.dir ", shortened(quoted(dir), 200),
                        ", where checkpoints would be written and old ones removed. ", stored,
                        "Name it on the command line if you trust it: `", command,
                        " --checkpoint.dir=", plain(dir) ? dir : "/ITS/FOLDER",
                        "`; or keep them in the run's own folder: --checkpoint.dir=\"\""));
  const std::string run = "runs/" + config.name;
  std::error_code none;
  if (named_again(overrides, "name")) return;
  const fs::path at(folder);
  if (!is(run) && fs::equivalent(at.parent_path(), "runs", none) && at.filename() != config.name) {
    const std::string name = at.filename().string();
    throw UserError(str(where, " names the run ", quoted(config.name), ", and its folder is named ",
                        quoted(name), ". Say which run is meant: `", command,
                        " --name=", plain(name) ? name : "NAME",
                        "` goes on with this one, another name makes a new one"));
  }
  if (!is(run) || fs::equivalent(run, folder, none)) return;
  std::string there, why;
  if (read_plain(run + "/config.json", there, why) && there == config_text(config)) return;
  throw UserError(str(where, " names the run ", quoted(config.name), ", and ", run,
                      " is there and has another config. ", stored, "Say which run is meant: `", command,
                      " --name=", plain(config.name) ? config.name : "NAME", "` goes on with ", run,
                      ", another name makes a new one"));
}

void refuse_unnamed_libraries(const RunConfig& config, const std::string& where,
                              const std::vector<Override>& overrides, const std::string& command) {
  const auto refuse = [&](const std::string& key, const std::string& value, const std::string& again,
                          const std::string& without) {
    throw UserError(
        str(where, " names ", key, " ", value,
            ", whose code would run as you, and this command only "
            "looks at the config: it opens what the command line names. Name it there if you trust it: `",
            command, " --", key, "=", again, "`; or do without it: --", key, "=", without));
  };
  if (!config.compile.load_ops.empty() && !named_again(overrides, "compile.load_ops")) {
    std::vector<std::string> again;
    for (const std::string& path : config.compile.load_ops) again.push_back(to_type(path));
    refuse("compile.load_ops", shortened(quoted(join(config.compile.load_ops, ", ")), 200),
           "[" + join(again, ",") + "]", "[]");
  }
  if (const DeviceChoice choice = device_choice(config.train.device);
      choice.kind == "plugin" && !named_again(overrides, "train.device"))
    refuse("train.device", quoted(config.train.device), "plugin:" + to_type(choice.path), "cpu");
}

void open_libraries(const std::string& config, const std::string& folder,
                    const std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "--compile.load_ops=";
  std::vector<Override> named;
  for (const std::string& word : words)
    if (word.starts_with(kFlag)) named = {{"compile.load_ops", word.substr(kFlag.size())}};
  std::vector<std::string> paths =
      libraries_of(config.empty() ? "{}" : read_given(config, kJsonBytes).text, named);
  const auto is_absolute = [](const std::string& path) { return path.starts_with('/'); };
  if (!folder.empty() && (named.empty() || !std::all_of(paths.begin(), paths.end(), is_absolute))) return;
  make_absolute(paths);
  for (const std::string& path : paths) load_ops(path);
}

std::string unopened_libraries(const RunConfig& config) {
  std::vector<std::string> closed;
  for (const std::string& path : config.compile.load_ops)
    if (!has_loaded_ops(path)) closed.push_back(path);
  if (closed.empty()) return "";
  for (std::string& path : closed) path = to_type(path);
  return str(
      "compile.load_ops names libraries that are not open here, so that models, tasks and keys of theirs "
      "are not known: a stored config opens none, nor does a command that only looks at one; name them on "
      "the command line, with absolute paths, if you trust them: --compile.load_ops=[",
      join(closed, ","), "]");
}

void make_plugin_absolute(RunConfig& config) {
  make_absolute(config.compile.load_ops);
  const DeviceChoice choice = device_choice(config.train.device);
  if (choice.kind != "plugin" || choice.path.starts_with('/')) return;
  if (choice.path.find('/') == std::string::npos)
    throw UserError(str("train.device plugin:", choice.path,
                        " names no place, and a library's owner is checked before it is opened; write a "
                        "path, as in plugin:./",
                        choice.path, " or plugin:/usr/lib/", choice.path));
  if (const std::string absolute = absolute_path(choice.path); !absolute.empty())
    config.train.device = "plugin:" + absolute;
}

}  // namespace lockstep::launcher
