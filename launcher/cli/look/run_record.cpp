// Reads a run folder, without locking or changing it.
#include "launcher/cli/look/run_record.h"

#include <filesystem>
#include <set>

#include "core/base/error.h"
#include "core/files/plain_file.h"
#include "core/reading/json_text.h"
#include "launcher/config/run_names.h"
#include "launcher/supervise/launch/command.h"
#include "launcher/supervise/launch/console.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

namespace fs = std::filesystem;

namespace {
bool holds_run(const std::string& folder) {
  return fs::exists(folder + "/config.json") || fs::is_directory(folder + "/ckpt");
}

std::string folder_of(const std::string& word) {
  const bool path = word.find('/') != std::string::npos;
  std::string below = "runs/" + word, clean = fs::path(word).lexically_normal().string();
  if (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  if (!path && holds_run(below)) return below;
  if (holds_run(clean)) return clean;
  for (const fs::path& up : {fs::path(clean).parent_path(), fs::path(clean).parent_path().parent_path()})
    if (fs::exists(clean) && !up.empty() && fs::is_directory(up / "ckpt"))
      throw UserError(str(clean, " is a part of the run ", up.string(), ": name the run"));
  throw UserError(str("no run ", word, ": ", path ? "" : str("neither ", below, " nor "), clean,
                      path ? " has no" : " has a", " config.json of a run that was started",
                      runs_instead_of(word)));
}

// A number of metrics.jsonl as text with its own precision, so that it compares with a rank's output.
std::string text_of(const std::string& name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return value.dump();
  return name == "lr" ? number_text(value.get<double>())
                      : number_text(static_cast<float>(value.get<double>()));
}
}  // namespace

RunRecord::RunRecord(const std::string& word) : folder_(folder_of(word)) {
  read_rows(folder_ + "/metrics.jsonl");
  checkpoints_ = list_checkpoints(checkpoints_of_run(folder_));
}

// A run without the file has no rows. The last one may be half written.
void RunRecord::read_rows(const std::string& path) {
  std::string text, why;
  std::error_code unknown;
  if (!read_plain(path, text, why) && fs::symlink_status(path, unknown).type() != fs::file_type::not_found)
    throw UserError(str(path, " cannot be read: ", why, "; it must be a file that you may read"));
  const auto lines = split(text, '\n');
  size_t damaged = 0, first = 0, all = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    Json row = bounded_json(lines[i]);
    const bool sound = row.is_object() && row.contains("step") && row["step"].is_number_integer();
    if (sound) {
      const auto step = row["step"].get<int64_t>();  // before the row is moved away
      lines_[step] = std::move(row);
    } else if (i + 1 < lines.size() && ++damaged == 1) {
      first = i + 1;
    }
    all += sound || i + 1 < lines.size();
  }
  if (damaged)
    warn_user(str(path, ": ", damaged, " of ", all, all == 1 ? " row is" : " rows are",
                  " damaged and passed over, the first in line ", first));
}

int64_t RunRecord::last_step() const {
  int64_t last = lines_.empty() ? 0 : lines_.rbegin()->first;
  for (const auto& entry : checkpoints_)
    if (entry.problem.empty()) last = std::max(last, entry.step);
  return last;
}

std::vector<int64_t> RunRecord::checkpoint_steps() const {
  std::vector<int64_t> out;
  for (const auto& entry : checkpoints_)
    if (entry.problem.empty()) out.push_back(entry.step);
  return out;
}

std::vector<std::string> RunRecord::checkpoints_before(int64_t step) const {
  std::vector<std::string> out;
  for (const auto& entry : checkpoints_)
    if (entry.problem.empty() && entry.step < step) out.insert(out.begin(), entry.path);
  return out;
}

const CheckpointSummary* RunRecord::checkpoint(int64_t step) const {
  for (const auto& entry : checkpoints_)
    if (entry.problem.empty() && entry.step == step) return &entry;
  return nullptr;
}

std::vector<int64_t> RunRecord::steps_with(const std::string& quantity) const {
  std::vector<int64_t> out;
  for (const auto& [step, row] : lines_)
    if (quantity.empty() || row.contains(quantity)) out.push_back(step);
  return out;
}

std::map<std::string, std::string> RunRecord::values(int64_t step) const {
  std::map<std::string, std::string> out;
  if (auto found = lines_.find(step); found != lines_.end())
    for (const auto& [name, value] : found->second.items()) out[name] = text_of(name, value);
  if (const auto* saved = checkpoint(step)) {
    out.emplace("state_hash", saved->state_hash);
    out.emplace("certificate", saved->certificate);
  }
  return out;
}

RunRecord::Then RunRecord::then(int64_t step) const {
  Then out;
  const CheckpointSummary *first = nullptr, *newest = nullptr;
  for (const auto& entry : checkpoints_)
    if (entry.problem.empty()) {
      newest = &entry;
      if (!first && entry.step >= step) first = &entry;
    }
  if (!first && !fs::exists(folder_ + "/config.json")) {
    out.program = true;
    if (!newest) return out;
    first = newest;
  }
  out.where = first ? first->path + "/manifest.json" : folder_ + "/config.json";
  if (!first) {
    out.config = load_config(out.where, {}, DataPaths::may_be_empty);
    return out;
  }
  Manifest manifest = read_manifest(first->path);
  out.program = manifest.config.empty();
  out.config = parse_config(manifest.config.dump(), out.where, {}, DataPaths::may_be_empty);
  auto word = [&](const char* name) {
    return manifest.extra.is_object() ? manifest.extra.value(name, std::string()) : std::string();
  };
  out.library = word("library");
  out.data = word("data");
  out.mesh = text(manifest.mesh);
  return out;
}

RunRecord::Command RunRecord::command() const {
  std::string text, none;  // a run of another version has none
  read_plain(folder_ + "/program.json", text, none);
  const Json program = bounded_json(text);
  if (!program.is_object() || !program.contains("command") || !program["command"].is_array()) return {};
  std::vector<std::string> words;
  for (const Json& word : program["command"])
    if (word.is_string()) words.push_back(quoted(word.get<std::string>()));
  Command out{printable(join(words, " ")), ""};
  if (program.contains("folder") && program["folder"].is_string())
    out.folder = printable(program["folder"].get<std::string>());
  return out;
}

}  // namespace lockstep::launcher::cli
