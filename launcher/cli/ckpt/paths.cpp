// Resolves paths of checkpoints, and prints columns.
#include "launcher/cli/ckpt/paths.h"

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "checkpoint/format/damage.h"
#include "core/base/error.h"
#include "launcher/config/run_names.h"
#include "launcher/supervise/folders/program.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

namespace fs = std::filesystem;

std::string run_or_path(const std::string& word) {
  const std::string run = "runs/" + word;
  return word.find('/') == std::string::npos && !is_folder(word) && is_folder(run) ? run : word;
}

std::string checkpoint_folder(const std::string& word) {
  const std::string path = run_or_path(word);
  if (!is_folder(path) && any_storage().commit(path) == Commit::rename) throw UserError(no_such_run(word));
  if (!is_folder(path))
    throw UserError(
        str("no folder ", path, "; name a run (runs/NAME), its ckpt folder or one step-N folder"));
  if (!word_of_program(path).empty()) return checkpoints_of_run(files_of_program(path));
  const std::string of_run = checkpoints_of_run(path);
  return is_folder(of_run) ? of_run : path;
}

std::string word_of_program(const std::string& path) {
  if (is_folder(checkpoints_of_run(path))) return "";
  const std::string files = files_of_program(path);
  return !files.empty() && is_folder(checkpoints_of_run(files)) ? path + "/" + kFilesAt : "";
}

bool names_a_step(const std::string& path) {
  fs::path clean = fs::path(path).lexically_normal();
  return (clean.has_filename() ? clean.filename() : clean.parent_path().filename())
             .string()
             .rfind("step-", 0) == 0;
}

std::vector<CheckpointSummary> checkpoints_of(const std::string& path) {
  auto found = list_checkpoints(checkpoint_folder(path));
  if (found.empty())
    throw UserError(
        str(path, " holds no checkpoint; a run saves at its end, and every checkpoint.every steps"));
  return found;
}

HeldStep hold_step(const std::string& word) {
  const std::string path = run_or_path(word);
  auto hold = [](const std::string& step, std::string problem) {
    auto files = hold_checkpoint(step);
    Manifest manifest = read_manifest(step, *files);
    if (problem.empty()) problem = structure_problem(step, *files);
    return HeldStep{step, std::move(problem), std::move(files), std::move(manifest)};
  };
  const bool named = names_a_step(path) && is_folder(path);
  for (int look = 1;; ++look) try {
      if (named) return hold(path.substr(0, path.find_last_not_of('/') + 1), "");
      auto found = checkpoints_of(path);
      const CheckpointSummary* newest = newest_of(found);
      if (newest) tell_passed_over(found, *newest);
      if (!newest) newest = &found.back();
      return hold(newest->path, newest->problem);
    } catch (const VanishedError&) {
      if (named || look == kCheckpointLooks) throw;  // else a newer one exists
    }
}

HeldStep hold_sound_step(const std::string& path) {
  HeldStep out = hold_step(path);
  if (!out.problem.empty()) throw DamagedError(str(out.path, " is damaged: ", out.problem));
  return out;
}

void print_cells(std::ostream& out, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == width.size()) width.push_back(0);
      width[i] = std::max(width[i], row[i].size());
    }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += row[i] + (i + 1 < row.size() ? std::string(width[i] - row[i].size() + 2, ' ') : "");
    out << line << "\n";
  }
}

}  // namespace lockstep::launcher::cli
