// trainrun ckpt ls | show | verify: checkpoints at rest.
#include <ostream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/damage.h"
#include "core/base/error.h"
#include "launcher/cli/ckpt/paths.h"
#include "launcher/cli/commands.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

int ckpt_ls(const std::string& path, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {
      {"checkpoint", "step", "size", "tensors", "elements", "mesh", "state hash", ""}};
  std::string folder = path, only;
  if (names_a_step(path) && is_folder(path)) {
    const std::string step = path.substr(0, path.find_last_not_of('/') + 1);
    const size_t slash = step.rfind('/');
    folder = slash == std::string::npos ? "." : step.substr(0, slash), only = step.substr(slash + 1);
  }
  for (const auto& entry : checkpoints_of(folder)) {
    if (!only.empty() && !entry.path.ends_with("/" + only)) continue;
    if (!entry.problem.empty())
      rows.push_back({entry.path, str(entry.step), "-", "-", "-", "-", "-", "damaged: " + entry.problem});
    else
      rows.push_back({entry.path, str(entry.step), bytes_text(static_cast<double>(entry.bytes)),
                      str(entry.tensors), str(entry.elements), entry.mesh, entry.state_hash,
                      entry.newest ? "newest" : ""});
  }
  print_cells(out, rows);
  return kExitOk;
}

int ckpt_show(const std::string& path, std::ostream& out) {
  const HeldStep held = hold_step(path);
  const Manifest& manifest = held.manifest;
  int64_t elements = 0, bytes = 0;
  for (const auto& tensor : manifest.tensors) elements += numel(tensor.shape);
  for (const auto& file : manifest.files) bytes += file.bytes;
  out << held.path << "\n";
  if (!held.problem.empty()) out << "  damaged: " << held.problem << "\n";
  print_cells(out, {{"  step", str(manifest.step)},
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
  print_cells(out, rows);
  return kExitOk;
}

int ckpt_verify(const std::string& path, std::ostream& out) {
  const bool named = names_a_step(path) && is_folder(path);
  int code = kExitOk;
  for (int look = 1, verified = 0; verified == 0; ++look) {
    std::vector<std::string> folders;
    if (named)
      folders = {path};
    else
      for (const auto& entry : checkpoints_of(path)) folders.push_back(entry.path);
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
        if (named || look == kCheckpointLooks) throw;
        out << folder << ": removed by its run before it was read\n";
      }
  }
  return code;
}

}  // namespace lockstep::launcher::cli
