// Copies a checkpoint from memory to the disk, file by file.
#include "launcher/loop/saves/memory_to_disk.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/folder.h"
#include "checkpoint/place.h"

namespace lockstep::launcher {

using namespace checkpoint;

namespace {
constexpr int64_t kBlock = int64_t{4} << 20;

void copy_file(Storage& storage, const std::string& from, const std::string& to) {
  const auto in = storage.open(from);
  const auto out = storage.create(to);
  std::vector<char> block(static_cast<size_t>(std::min(kBlock, in->bytes())));
  for (int64_t at = 0; at < in->bytes();) {
    const auto bytes = static_cast<size_t>(std::min<int64_t>(kBlock, in->bytes() - at));
    in->read(at, block.data(), bytes);
    out->write(block.data(), bytes);
    at += static_cast<int64_t>(bytes);
  }
  out->sync();
  out->close();
}
}  // namespace

int64_t memory_to_disk(const std::string& memory, const std::string& disk, Storage& storage) {
  int64_t newest = -1, serial = 1;
  for (const auto& folder : scan(storage, disk)) {
    newest = std::max(newest, folder.step);
    if (folder.manifest && folder.serial < std::numeric_limits<int64_t>::max())
      serial = std::max(serial, folder.serial + 1);
  }
  for (const auto& folder : scan(storage, memory)) {
    if (folder.step <= newest || !verify_checkpoint(folder.path, storage).empty()) continue;
    const auto lock = lock_checkpoints(disk, storage);
    tidy(storage, disk);
    const std::string name = step_name(folder.step), writing = writing_folder(storage, disk, name);
    storage.make_folders(writing);
    for (const auto& file : folder.manifest->files)
      copy_file(storage, folder.path + "/" + file.name, writing + "/" + file.name);
    Manifest manifest = *folder.manifest;
    manifest.serial = serial;
    lock->check();
    commit_folder(storage, disk, name, to_text(manifest));
    finish_folder(storage, disk, name, 0);
    return folder.step;
  }
  return -1;
}

}  // namespace lockstep::launcher
