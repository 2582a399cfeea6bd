// trainrun ckpt ls | show | verify: checkpoints at rest.
#include <filesystem>
#include <ostream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/damage.h"
#include "core/base/error.h"
#include "launcher/cli/commands.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

namespace fs = std::filesystem;

namespace {

// The folder that holds step-N folders: PATH/ckpt of a run, PATH itself otherwise.
std::string checkpoint_folder(const std::string& path) {
  if (!fs::is_directory(path))
    throw UserError(
        str("no folder ", path, "; name a run (runs/NAME), its ckpt folder or one step-N folder"));
  return fs::is_directory(path + "/ckpt") ? path + "/ckpt" : path;
}

bool is_step(const std::string& path) {
  fs::path clean = fs::path(path).lexically_normal();
  return (clean.has_filename() ? clean.filename() : clean.parent_path().filename())
             .string()
             .rfind("step-", 0) == 0;
}

std::vector<CheckpointSummary> list(const std::string& path) {
  auto found = list_checkpoints(checkpoint_folder(path));
  if (found.empty())
    throw UserError(
        str(path, " holds no checkpoint; a run saves at its end, and every checkpoint.every steps"));
  return found;
}

// How often the list is read anew where a run removes checkpoints as fast as they are found.
constexpr int kLooks = 100;

// The step folder that a path means, read: itself, or the newest one below it.
struct Read {
  std::string path, problem;
  Manifest manifest;
};
Read read_step(const std::string& path) {
  auto read = [](const std::string& step, std::string problem) {
    const auto files = hold_checkpoint(step);
    Manifest manifest = read_manifest(step, *files);
    if (problem.empty()) problem = structure_problem(step, *files);
    return Read{step, std::move(problem), std::move(manifest)};
  };
  const bool named = is_step(path) && fs::is_directory(path);
  for (int look = 1;; ++look) try {
      if (named) return read(path, "");
      auto found = list(path);
      const CheckpointSummary* newest = &found.back();
      for (const auto& entry : found)
        if (entry.latest) newest = &entry;
      return read(newest->path, newest->problem);
    } catch (const VanishedError&) {
      if (named || look == kLooks) throw;  // else there is a newer one
    }
}

void cells(std::ostream& out, const std::vector<std::vector<std::string>>& rows) {
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

}  // namespace

int ckpt_ls(const std::string& path, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {
      {"checkpoint", "step", "size", "tensors", "elements", "mesh", "state hash", ""}};
  for (const auto& entry : list(path)) {
    if (!entry.problem.empty())
      rows.push_back({entry.path, str(entry.step), "-", "-", "-", "-", "-", "damaged: " + entry.problem});
    else
      rows.push_back({entry.path, str(entry.step), bytes_text(static_cast<double>(entry.bytes)),
                      str(entry.tensors), str(entry.elements), entry.mesh, entry.state_hash,
                      entry.latest ? "latest" : ""});
  }
  cells(out, rows);
  return kExitOk;
}

int ckpt_show(const std::string& path, std::ostream& out) {
  const auto [step, problem, manifest] = read_step(path);
  int64_t elements = 0, bytes = 0;
  for (const auto& tensor : manifest.tensors) elements += numel(tensor.shape);
  for (const auto& file : manifest.files) bytes += file.bytes;
  out << step << "\n";
  if (!problem.empty()) out << "  damaged: " << problem << "\n";
  cells(out, {{"  step", str(manifest.step)},
              {"  holds", str(manifest.tensors.size(), " tensors, ", elements, " elements, ",
                              bytes_text(static_cast<double>(bytes)), " in ", manifest.files.size(),
                              manifest.files.size() == 1 ? " file" : " files")},
              {"  state hash", manifest.state_hash},
              {"  certificate", manifest.certificate},
              {"  mesh", text(manifest.mesh)},
              {"  producer", manifest.producer}});
  std::vector<std::vector<std::string>> rows = {{"", "tensor", "dtype", "shape", "chunks", "bytes"}};
  for (const auto& tensor : manifest.tensors) {
    int64_t bytes = 0;
    for (const auto& chunk : tensor.chunks) bytes += chunk.bytes;
    rows.push_back({"", tensor.fqn, std::string(name(tensor.dtype)), str(tensor.shape),
                    str(tensor.chunks.size()), str(bytes)});
  }
  cells(out, rows);
  return kExitOk;
}

int ckpt_verify(const std::string& path, std::ostream& out) {
  const bool named = is_step(path) && fs::is_directory(path);
  int code = kExitOk;
  for (int look = 1, verified = 0; verified == 0; ++look) {
    std::vector<std::string> folders;
    if (named)
      folders = {path};
    else
      for (const auto& entry : list(path)) folders.push_back(entry.path);
    for (const auto& folder : folders) try {
        auto problems = verify_checkpoint(folder);
        ++verified;
        out << folder << ": "
            << (problems.empty() ? "whole: every checksum and the state hash agree"
                                 : str(problems.size(), problems.size() == 1 ? " problem" : " problems"))
            << "\n";
        for (const auto& line : problems) out << "  " << line << "\n";
        if (!problems.empty()) code = kExitUser;
      } catch (const VanishedError&) {
        if (named || look == kLooks) throw;
        out << folder << ": removed by its run before it was read\n";
      }
  }
  return code;
}

}  // namespace lockstep::launcher::cli
