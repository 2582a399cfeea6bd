// Compares config, data and certificate of a checkpoint with the current ones.
#include "launcher/worker/resume_changes.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "launcher/config/changes.h"
#include "launcher/data/documents/record.h"

namespace lockstep::launcher {

namespace {
// A checkpoint lists at most this many files; for more it has one fingerprint of all.
constexpr size_t kNamedFiles = 4096, kToldFiles = 8;

Json files_json(const data::Samples& data) {
  Json out = Json::object();
  for (const auto& file : data.contents()) out[file.name] = {file.tokens, file.fingerprint};
  return out;
}

// Changes of the files: "a.bin changed", "b.bin is gone", "c.bin is new".
std::vector<std::string> changed_files(const Json& was, const Json& is) {
  std::vector<std::string> out;
  for (const auto& [name, file] : is.items())
    if (!was.contains(name))
      out.push_back(name + " is new");
    else if (was[name] != file)
      out.push_back(name + " changed");
  for (const auto& [name, file] : was.items())
    if (!is.contains(name)) out.push_back(name + " is gone");
  return out;
}

void tell_data(const checkpoint::LoadedInfo& loaded, const data::Samples& data) {
  const Json& extra = loaded.extra;
  if (!extra.is_object() || !extra.contains("data") || extra["data"] == data.fingerprint()) return;
  if (!extra.contains("data_read"))
    return logs::info(str(loaded.path,
                          " has a fingerprint of the ends of its data files alone, as an older Lockstep made "
                          "it: whether the data changed since is not known"));
  if (extra["data_read"] != data.read_as())
    return logs::warn(str("the data cannot be compared with that of the checkpoint: its files were ",
                          extra["data_read"].dump(), " for the fingerprint, now they are \"", data.read_as(),
                          "\" (data.fingerprint)"));
  std::vector<std::string> files;
  if (extra.contains("data_files") && extra["data_files"].is_object())
    files = changed_files(extra["data_files"], files_json(data));
  const size_t more = files.size() > kToldFiles ? files.size() - kToldFiles : 0;
  files.resize(files.size() - more);
  logs::warn(str("the data changed since the checkpoint: samples are not the same as before",
                 files.empty() ? "" : ": ", join(files, ", "),
                 more ? str(", and ", more, " files more") : ""));
}
// "" unless a class of the checkpoint, for which its weights have a logit, has a different name now.
std::string other_classes_error(const checkpoint::LoadedInfo& loaded, const RunConfig& config,
                                const data::Samples& data) {
  const auto& allowed = config.resume.allow;
  if (!loaded.extra.is_object() || !loaded.extra.contains("classes") ||
      std::find(allowed.begin(), allowed.end(), "model") != allowed.end())
    return "";
  const Json was = loaded.extra["classes"];
  const std::vector<std::string> is = data.class_names();
  for (size_t i = 0; was.is_array() && i < std::min(was.size(), is.size()); ++i)
    if (was[i] != is[i])
      return str(loaded.path, " was trained with class ", i, " as ", shortened(printable(was[i].dump()), 60),
                 ", and the data names it \"", shortened(printable(is[i]), 60), "\"; ",
                 config.data.kind == "jsonl"
                     ? "list the classes in data.classes, in the order of the checkpoint"
                     : "give the folders of the classes the names that they had",
                 ", start afresh under another --name, or, where it is meant, add --resume.allow=model");
  return "";
}
}  // namespace

void tell_rewritten(const data::Samples& data, std::set<std::string>& told) {
  for (const auto& path : data.changed())
    if (told.insert(path).second)
      logs::warn(str(path,
                     " was written to while the run reads it: samples of this run are not all of the data "
                     "that its checkpoints name"));
}

Json remembered(const data::Samples& data, const std::string& library) {
  Json out = {{"data", data.fingerprint()}, {"data_read", data.read_as()}, {"library", library}};
  if (data.contents().size() <= kNamedFiles) out["data_files"] = files_json(data);
  if (auto names = data.class_names(); !names.empty()) out["classes"] = names;
  if (const std::string name = data.chat_template(); !name.empty())
    out["chat_template"] = {
        {"name", name}, {"message_token", data::chat_message_token(name)}, {"jinja", data::chat_jinja(name)}};
  return out;
}

void tell_changes(const checkpoint::LoadedInfo& loaded, const RunConfig& config, const data::Samples& data,
                  const std::string& certificate, bool speaks) {
  const bool computed = !loaded.certificate.empty();  // else it was imported, and no step was computed
  const bool other = computed && loaded.certificate != certificate;
  const auto changes = config_changes(loaded.config, config, loaded.step, other);
  if (auto refused = other_model_error(changes, config, loaded.path); !refused.empty())
    throw UserError(refused);
  if (auto refused = other_classes_error(loaded, config, data); !refused.empty()) throw UserError(refused);
  if (!speaks || !computed) return;
  if (other)
    logs::warn(str("bits may change at step ", loaded.step + 1, ": the checkpoint was made with certificate ",
                   loaded.certificate, ", this run has ", certificate,
                   " (other kernels, library, batch or precision)"));
  if (!changes.empty())
    logs::warn(str("the config is not that of the checkpoint: ", changes.size(),
                   changes.size() == 1 ? " key differs" : " keys differ", "\n", changes_table(changes)));
  tell_data(loaded, data);
}

}  // namespace lockstep::launcher
