// Saving and loading a state of one rank, beside the same bytes written and read plainly.
//   bench-checkpoint FOLDER [MIB=1024] [TENSOR_MIB=16] [ROUNDS=3]
// FOLDER may be s3://BUCKET/PREFIX. Each round: a file written front to back and synced, a save that is
// waited for, a load whose files are in the page cache, and, on a file system, one whose files are not.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "core/base/text.h"

using namespace lockstep;
using namespace lockstep::checkpoint;

namespace {
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
void tell(const char* what, double seconds, double bytes) {
  std::printf("%-24s %7.2f s  %6.2f GB/s\n", what, seconds, bytes / seconds / 1e9);
  std::fflush(stdout);
}
void forget_pages(const std::string& folder) {
  for (const auto& entry : any_storage().list(folder)) {
    const int fd = ::open((folder + "/" + entry.name).c_str(), O_RDONLY);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}
}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) return std::printf("bench-checkpoint FOLDER [MIB] [TENSOR_MIB] [ROUNDS]\n"), 2;
  const std::string dir = argv[1];
  const int64_t mib = argc > 2 ? std::stoll(argv[2]) : 1024, one = argc > 3 ? std::stoll(argv[3]) : 16;
  const int rounds = argc > 4 ? std::stoi(argv[4]) : 3;
  const LiveMesh mesh = solo_mesh();
  std::vector<Array> state;
  for (int64_t i = 0; i < mib / one; ++i) {
    state.push_back(make_array(str("t", i), DType::f32, {one << 10, 256}, Layout{}, mesh.words, 0));
    float* at = state.back().data.as<float>();
    for (int64_t k = 0; k < state.back().local_numel(); ++k) at[k] = static_cast<float>(i + k % 1000);
  }
  std::vector<const Array*> of;
  std::vector<Array*> into;
  for (auto& array : state) of.push_back(&array), into.push_back(&array);
  const double bytes = static_cast<double>(mib) * (1 << 20);
  const bool files = any_storage().commit(dir) == Commit::rename;
  for (int round = 0; round < rounds; ++round) {
    any_storage().make_folders(dir);
    double start = now();
    auto plain = any_storage().create(dir + "/plain");
    for (auto& array : state) plain->write(array.data.data(), static_cast<size_t>(array.local_bytes()));
    plain->sync();
    plain->close();
    tell("plain write and sync", now() - start, bytes);
    any_storage().remove(dir + "/plain");
    start = now();
    const SavedInfo saved = save_checkpoint(dir + "/ckpt", {round, nullptr, "", nullptr}, of, mesh, 1);
    tell("save", now() - start, bytes);
    start = now();
    load_checkpoint(saved.path, into, mesh);
    tell(files ? "load, in the page cache" : "load", now() - start, bytes);
    if (!files) continue;
    forget_pages(saved.path);
    start = now();
    load_checkpoint(saved.path, into, mesh);
    tell("load, from the device", now() - start, bytes);
  }
  remove_folder(any_storage(), dir + "/ckpt");
} catch (const std::exception& error) { return std::fprintf(stderr, "%s\n", error.what()), 1; }
