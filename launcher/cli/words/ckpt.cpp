// The verbs of trainrun ckpt, as words of the command line.
#include "launcher/cli/ckpt/commands.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/words/care_flags.h"

namespace lockstep::launcher::cli {

namespace {
constexpr const char* kOnePath =
    "runs/NAME (its newest), its ckpt or best folder, or one step-N folder; or s3://BUCKET/...";

void add_readers(CLI::App& app, CkptFlags& flags, const Act& act) {
  struct {
    const char *name, *help;
    int (*body)(const std::string&, std::ostream&);
  } const verbs[] = {{"ls", "all checkpoints of a run", ckpt_ls},
                     {"show", "the tensors of one checkpoint", ckpt_show},
                     {"verify", "read every byte and compare every checksum", ckpt_verify}};
  for (const auto& verb : verbs) {
    auto* one = app.add_subcommand(verb.name, verb.help);
    one->add_option("path", flags.path,
                    "runs/NAME, its ckpt folder, or one step-N folder; or s3://BUCKET/...")
        ->required()
        ->type_name("PATH");
    one->callback([&flags, act, body = verb.body] {
      act([&flags, body](std::ostream& out) { return body(flags.path, out); });
    });
  }
}

void add_diff(CLI::App& app, CkptFlags& flags, const Act& act) {
  auto* diff = app.add_subcommand("diff", "the first tensor and index in which two checkpoints differ");
  diff->add_option("a", flags.diff.a, kOnePath)->required()->type_name("A");
  diff->add_option("b", flags.diff.b, "the same")->required()->type_name("B");
  diff->add_option("--tolerance", flags.diff.tolerance,
                   "floats are equal where |a - b| <= T max(1, |a|, |b|); default 0: bits")
      ->check(number_within(0, 1000000000000))
      ->type_name("T");
  diff->add_flag("--all", flags.diff.all, "all rows of the tables");
  diff->footer(
      "For two runs, compares the first common step with different states, else the newest of each.\nExit "
      "codes: 0 equal tensors; 1 a tensor differs; 2 wrong input.");
  diff->callback([&flags, act] { act([&flags](std::ostream& out) { return ckpt_diff(flags.diff, out); }); });
}

void add_cat(CLI::App& app, CkptFlags& flags, const Act& act) {
  auto* cat = app.add_subcommand("cat", "the values of a tensor");
  cat->add_option("path", flags.cat.path, kOnePath)->required()->type_name("PATH");
  cat->add_option("tensor", flags.cat.tensor, "its FQN, as ckpt show lists it")
      ->required()
      ->type_name("TENSOR");
  cat->add_option("--index", flags.cat.index, "a part of it, as numpy has it: \"0:3, :, -1\"")
      ->type_name("INDEX");
  cat->add_option("--npy", flags.cat.npy, "writes a file of numpy's; bf16 becomes f32, exactly")
      ->type_name("FILE.npy");
  cat->callback([&flags, act] { act([&flags](std::ostream& out) { return ckpt_cat(flags.cat, out); }); });
}

void add_prune(CLI::App& app, CkptFlags& flags, const Act& act) {
  auto* prune = app.add_subcommand("prune", "removes old checkpoints");
  prune->add_option("run", flags.prune.path, "runs/NAME, or a folder of step-N folders")
      ->required()
      ->type_name("RUN");
  prune->add_option("--keep", flags.prune.keep, "the newest N whole ones stay; at least 1")
      ->required()
      ->transform(whole_number_within(1))
      ->type_name("N");
  prune->add_option("--keep-every,--keep_every", flags.prune.every, "and each whose step is a multiple of K")
      ->transform(whole_number_within(1))
      ->type_name("K");
  prune->add_flag("--dry-run,--dry_run", flags.prune.dry_run, "tells, and removes nothing");
  prune->callback(
      [&flags, act] { act([&flags](std::ostream& out) { return ckpt_prune(flags.prune, out); }); });
}

void add_makers(CLI::App& app, CkptFlags& flags, const Act& act) {
  auto* reshard = app.add_subcommand("reshard", "write the same state for other ranks");
  reshard->add_option("source", flags.reshard.source, kOnePath)->required()->type_name("SRC");
  reshard->add_option("out", flags.reshard.out, "the destination run: writes OUT/ckpt/step-N")
      ->required()
      ->type_name("OUT");
  auto* ranks = reshard->add_option("--ranks,--nproc", flags.reshard.ranks, "how many ranks")
                    ->transform(whole_number_within(1))
                    ->type_name("N");
  reshard->add_option("--mesh", flags.reshard.mesh, "their mesh, as in '{\"dp_shard\": 2, \"tp\": 2}'")
      ->excludes(ranks)
      ->type_name("JSON");
  reshard->add_flag("--by-rows,--by_rows", flags.reshard.by_rows,
                    "split every tensor by rows, regardless of the model in the checkpoint's config");
  reshard->footer(
      "No run needs this: any ranks load any checkpoint. It is for other programs that read the files.");
  reshard->callback(
      [&flags, act] { act([&flags](std::ostream& out) { return ckpt_reshard(flags.reshard, out); }); });
  auto* average = app.add_subcommand("average", "the mean of the weights of several checkpoints");
  average
      ->add_option("paths", flags.average.paths,
                   "two or more runs, ckpt or best folders, or step-N folders; then OUT, the destination "
                   "run: writes OUT/ckpt/step-N")
      ->required()
      ->type_name("SRC... OUT");
  average->footer(
      "The optimizer's state is left out: generate, export-hf and train.init_from take the result, and a "
      "run\n"
      "does not resume from it.");
  average->callback(
      [&flags, act] { act([&flags](std::ostream& out) { return ckpt_average(flags.average, out); }); });
}
}  // namespace

void add_ckpt_verbs(CLI::App& app, CkptFlags& flags, const Act& act) {
  app.require_subcommand(1);
  add_readers(app, flags, act);
  add_diff(app, flags, act);
  add_cat(app, flags, act);
  add_prune(app, flags, act);
  add_makers(app, flags, act);
}

}  // namespace lockstep::launcher::cli
