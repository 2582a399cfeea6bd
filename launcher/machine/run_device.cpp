// Opens the target and group of train.device.
#include "launcher/machine/run_device.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/codegen/plugin.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "distributed/mesh/device_mesh.h"
#include "launcher/config/config.h"
#ifdef LOCKSTEP_CUDA
#include "core/device/cuda/inventory.h"
#endif

namespace lockstep::launcher {

using namespace compiler;

void refuse_one_device(const std::string& word, int64_t local_ranks) {
  if (device_choice(word).ordinal >= 0 && local_ranks > 1)
    throw UserError(str("train.device \"", word, "\" names one device, and this host has ", local_ranks,
                        " ranks; write \"cuda\": rank i takes device i"));
}

std::string device_not_here(const std::string& word, int64_t local_ranks) {
  const DeviceChoice choice = device_choice(word);
  if (choice.kind != "cuda") return "";
  std::string why;
  if (!cuda_available(&why)) return why;
  const int64_t wanted = choice.ordinal >= 0 ? choice.ordinal + 1 : local_ranks;
  return wanted <= cuda_devices()
             ? ""
             : str("this host has ", cuda_devices(), " GPUs, and ", wanted, " are needed");
}

const Target& run_target(const std::string& word, int64_t local_rank, int64_t local_ranks) {
  const DeviceChoice choice = device_choice(word);
  if (choice.kind == "cpu") return cpu_target();
  if (choice.kind == "plugin")
    return load_plugin(choice.path).open(static_cast<int>(local_rank), static_cast<int>(local_ranks));
  std::string why;
  if (choice.kind == "auto") {
    if (!cuda_available(&why)) {
      logs::topic("plan", str("train.device auto: the CPU (", why, ")"));
      return cpu_target();
    }
    if (cuda_devices() < local_ranks) {
      if (local_rank == 0)
        logs::warn(str("train.device auto: the CPU, since this host has ", cuda_devices(), " GPUs for ",
                       local_ranks, " ranks; start ", cuda_devices(), " ranks to use them"));
      return cpu_target();
    }
    return cuda_target(static_cast<int>(local_rank));
  }
  const int64_t ordinal = choice.ordinal >= 0 ? choice.ordinal : local_rank;
  refuse_one_device(word, local_ranks);
  if (cuda_available(&why) && ordinal >= cuda_devices())
    throw UserError(str(
        "train.device \"", word, "\": local rank ", local_rank, " wants GPU ", ordinal, ", this host has ",
        cuda_devices(),
        " (CUDA_VISIBLE_DEVICES counts); start at most that many ranks per host, or use train.device cpu"));
  return cuda_target(static_cast<int>(ordinal));
}

std::string device_place([[maybe_unused]] const std::string& word, const Device& device, int64_t local_rank) {
  if (device.kind() == "cpu") return "";
#ifdef LOCKSTEP_CUDA
  if (device.kind() == "cuda") {
    const int named = word.empty() ? -1 : device_choice(word).ordinal;
    return cuda::place_of(named >= 0 ? named : static_cast<int>(local_rank));
  }
#endif
  return str(device.describe(), ", of local rank ", local_rank);
}

std::string visible_without(const std::vector<int64_t>& ordinals) {
  const char* own = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> all = own ? split(own, ',') : std::vector<std::string>(), left;
  for (int i = 0; !own && i < cuda_devices(); ++i) all.push_back(str(i));
  for (size_t i = 0; i < all.size(); ++i)
    if (std::find(ordinals.begin(), ordinals.end(), static_cast<int64_t>(i)) == ordinals.end())
      left.push_back(all[i]);
  return join(left, ",");
}

void agree_on_device(Group& world, const std::string& word, const Device& device) {
  auto all = all_gather_text(world, str(device.kind(), "\n", device.describe()));
  for (size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    auto named = [](const std::string& text) {
      return str(text.substr(text.find('\n') + 1), " (", text.substr(0, text.find('\n')), ")");
    };
    throw UserError(str("train.device \"", word, "\": rank ", r, " computes on ", named(all[r]),
                        ", rank 0 on ", named(all[0]),
                        "; all ranks need devices of one kind: set train.device to \"cpu\", or to \"cuda\" "
                        "on hosts of one GPU and "
                        "driver"));
  }
}

FoundTarget found_target(const std::string& word, int64_t local_ranks) {
  // "cuda:N" is one device, but any device suffices here; "auto" requires one for every rank.
  const std::string any = device_choice(word).ordinal >= cuda_devices() ? "cuda" : word;
  try {
    return {run_target(any, 0, word == "auto" ? local_ranks : 1), ""};
  } catch (const UserError& error) { return {cpu_target(), error.what()}; }
}

void join_device(LiveMesh& mesh, const std::string& word, const Target& target) {
  const DeviceChoice choice = device_choice(word);
  distributed::MakeDeviceGroup own;
  if (choice.kind == "plugin") own = load_plugin(choice.path).group;
  distributed::join_device(mesh, target.device(), own);
}

const Target& open_device(LiveMesh& mesh, const std::string& word, int64_t local_rank, int64_t local_ranks) {
  const Target* target = nullptr;
  std::string refused;
  try {
    target = &run_target(word, local_rank, local_ranks);
    if (mesh.world->rank() == 0) logs::topic("plan", str("device: ", target->device().describe()));
  } catch (const std::exception& error) { refused = error.what(); }  // also for a busy or broken device
  agree(*mesh.world, refused);
  agree_on_device(*mesh.world, word, target->device());
  join_device(mesh, word, *target);
  return *target;
}

}  // namespace lockstep::launcher
