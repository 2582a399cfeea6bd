// The subcommands of trainrun ckpt that compare, remove or make checkpoints, and their flags. Each returns
// the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::launcher::cli {

// ckpt diff A B: runs, folders of checkpoints or step folders. kExitDiffers when a tensor differs; other
// differences of the manifests are printed but do not count.
struct CkptDiffArguments {
  std::string a, b;
  double tolerance = 0;  // 0: bits; see compare_checkpoints
  bool all = false;      // whole tables
};
int ckpt_diff(const CkptDiffArguments& arguments, std::ostream& out);

// ckpt cat PATH TENSOR: values as text, a row of the last dim on a line, or a file of numpy's.
struct CkptCatArguments {
  std::string path, tensor;
  std::string index;  // "0:3, :, -1"; "": all
  std::string npy;    // the file; "": text
};
int ckpt_cat(const CkptCatArguments& arguments, std::ostream& out);

// ckpt prune RUN --keep N: see PruneRule.
struct CkptPruneArguments {
  std::string path;
  int64_t keep = 0, every = 0;
  bool dry_run = false;
};
int ckpt_prune(const CkptPruneArguments& arguments, std::ostream& out);

// ckpt reshard SRC OUT --ranks N | --mesh '{"dp_shard": 2, "tp": 2}': OUT/ckpt/step-N, as these ranks would
// have written it.
struct CkptReshardArguments {
  std::string source, out;
  int64_t ranks = 0;  // 0: those of `mesh`
  std::string mesh;   // JSON; "": that of the checkpoint's config
  bool by_rows = false;
};
int ckpt_reshard(const CkptReshardArguments& arguments, std::ostream& out);

// ckpt average SRC... OUT: OUT/ckpt/step-N with the mean of the weights.
struct CkptAverageArguments {
  std::vector<std::string> paths;  // the last is OUT
};
int ckpt_average(const CkptAverageArguments& arguments, std::ostream& out);

struct CkptFlags {
  std::string path;
  CkptDiffArguments diff;
  CkptCatArguments cat;
  CkptPruneArguments prune;
  CkptReshardArguments reshard;
  CkptAverageArguments average;
};
// Adds the subcommands to `app`; a callback passes the chosen work to `act`.
using Act = std::function<void(std::function<int(std::ostream&)>)>;
void add_ckpt_verbs(CLI::App& app, CkptFlags& flags, const Act& act);

}  // namespace lockstep::launcher::cli
