// Fingerprint of a run, which ranks compare.
#include "launcher/trainer/fingerprint.h"

#include <algorithm>

#include "compiler/codegen/kernel_library.h"
#include "core/base/env.h"
#include "core/mesh/together.h"
#include "distributed/mesh/device_mesh.h"
#include "distributed/open_world.h"
#include "launcher/machine/hosts.h"
#include "launcher/version.h"
#ifdef LOCKSTEP_CUDA
#include "core/device/cuda/inventory.h"
#endif

namespace lockstep::launcher {

using namespace distributed;

std::span<const PerRankKey> per_rank_keys() {
  static const PerRankKey keys[] = {
      {"train.device",
       "an ordinal or a path means something on one host alone; the devices found are compared instead"},
      {"compile.load_ops", "a path means something on one host alone; ops and the plan are compared instead"},
      {"compile.threads", "hosts have different numbers of cores, and no bit depends on the threads"},
  };
  return keys;
}

FingerprintPart config_part(const RunConfig& config) {
  FingerprintPart part{"config", {}, "start every rank with the same config", true};
  const auto own = per_rank_keys();
  for (const auto& row : config_keys())
    if (has_meaning(config, row) &&
        std::none_of(own.begin(), own.end(), [&](const PerRankKey& key) { return row.path == key.path; }))
      part.lines.push_back(
          {row.path, get_key(config, row).dump(-1, ' ', false, Json::error_handler_t::replace)});
  return part;
}

FingerprintPart program_part() {
  FingerprintPart part{
      "program",
      {{"lockstep", kVersion}, {"its compiler", str("g++ ", __VERSION__)}, {"messages", world_library()}},
      "start every rank with the same program, libraries and environment",
      true};
  for (const char* name : {"LOCKSTEP_SKIP_PASSES", "LOCKSTEP_VERIFY"})
    part.lines.push_back({name, str('"', env(name), '"')});
  return part;
}

FingerprintPart libraries_part(const compiler::Target& target) {
  FingerprintPart part{"set of libraries",
                       {{"compute library", target.library_version()}},
                       "another processor, driver or library; use ranks of one kind",
                       true};
  if (target.device().kind() == "cpu")
    part.lines.push_back({"instruction set", std::string(name(compiler::probe_isa()))});
#ifdef LOCKSTEP_CUDA
  if (target.device().kind() == "cuda")
    for (const auto& found : cuda::inventory())
      if (found.what.rfind("GPU ", 0) != 0) part.lines.push_back({found.what, found.status});
#endif
  return part;
}

FingerprintPart data_part(const data::Samples& data) {
  FingerprintPart part{"data", {}, "every rank must see the same files, byte for byte", true};
  int number = 0;
  const auto [unit, counts] = data.counts();
  for (const auto& file : data.contents())
    part.lines.push_back({str("file ", ++number),
                          str(file.name, ", ", file.tokens, " ", unit, ", fingerprint ", file.fingerprint)});
  part.lines.push_back({unit, counts});
  return part;
}

LiveMesh open_mesh(const std::shared_ptr<World>& world, const RunConfig& config, const WorkerPlace& at) {
  Group& all = *world->group();
  if (all.size() > 1) compare(all, "before the ranks are grouped", {program_part(), config_part(config)});
  const Mesh words = together(all, [&] { return validate(config, world->size()); });
  LiveMesh mesh = live_mesh(world, words);
  if (all.size() > 1) {
    const Hosts hosts = hosts_of(config, words, launched_per_node(all, at));
    join_nodes(mesh, *world, hosts.ranks_per_node, hosts.seats);
  }
  return mesh;
}

}  // namespace lockstep::launcher
