// The launcher's own flags. They share the command line with config keys, so a test asserts that no name is
// both.
#include "launcher/cli/words/flags.h"

#include <algorithm>
#include <thread>

#include "core/base/error.h"
#include "core/reading/whole_number.h"
#include "launcher/machine/roofline.h"

namespace lockstep::launcher::cli {

int64_t parse_nproc(const std::string& text, const char* flag, int64_t most) {
  if (text == "auto") return std::max(1u, std::thread::hardware_concurrency());
  const int64_t value = whole_number(text).value_or(0);
  if (value < 1)
    throw UserError(str(flag, " is \"", shortened(text, 60),
                        "\"; give a number of ranks, 1 or more, or auto (one per core)"));
  if (value > most)
    throw UserError(str(flag, " is ", value, "; at most ", most,
                        most == kMostRanks ? " ranks are planned for" : " ranks run on one host"));
  return value;
}

CLI::Option* add_nproc(CLI::App& app, Flags& flags, const std::string& more) {
  return app
      .add_option("-n,--nproc,--nproc-per-node,--nproc_per_node", flags.nproc,
                  "ranks of a host: a number, or auto (one per core)" + more)
      ->type_name("N|auto");
}

void add_run_name(CLI::App& app, std::string& run) {
  app.add_option("run", run, "the run: a name below runs/, or a path")->required()->type_name("RUN");
}

void add_rank(CLI::App& app, Flags& flags, const std::string& help) {
  app.add_option("--rank", flags.rank, help)->transform(whole_number_within(0))->type_name("R");
}
void add_roofline(CLI::App& app, Flags& flags) {
  app.add_option("--roofline", flags.roofline,
                 "rates for the prediction of the step time; default: those of the device")
      ->type_name(join(roofline_names(), "|") + "|FILE.json");
}

void add_simulate(CLI::App& app, Flags& flags) {
  app.add_option(
         "--simulate", flags.simulate,
         "run N ranks as threads of this process, with the same bits as --nproc N; on the CPU, without MPI")
      ->type_name("N|auto");
}

int64_t parse_simulate(const CLI::App& app, const Flags& flags) {
  if (flags.simulate.empty()) return 0;
  if (app.count("--nproc"))
    throw UserError(str("--simulate ", flags.simulate, " and --nproc ", flags.nproc,
                        " are both given; use --nproc N for ranks that are processes, --simulate N for ranks "
                        "that are threads of this one"));
  const HostFlags& hosts = flags.hosts;
  if (!hosts.hosts.empty() || !hosts.hostfile.empty() || !hosts.slurm.empty() || hosts.node_rank > 0)
    throw UserError(
        str("--simulate ", flags.simulate,
            " runs the ranks as threads of this process; leave --hosts, --hostfile, --node-rank and "
            "--slurm out, or use --nproc"));
  return parse_nproc(flags.simulate, "--simulate");
}

void add_run_flags(CLI::App& app, Flags& flags) {
  LaunchOptions& launch = flags.run.launch;
  add_nproc(app, flags,
            "; MIN:MAX: continue with fewer ranks when some are lost, and with more when they are back")
      ->type_name("N|auto|MIN:MAX");
  add_simulate(app, flags);
  add_host_flags(app, flags.hosts);
  add_care_flags(app, flags.care, launch);
  app.add_flag(
         "--profile{3}", flags.run.profile,
         "trace steps (--profile=N: N of them, from the third on) into runs/NAME/trace-FIRST-LAST.json, "
         "for ui.perfetto.dev; the key log.profile")
      ->type_name("")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--slurm{ }", flags.hosts.slurm,
               "submit the run as a Slurm job of --nnodes hosts, with these options of sbatch, as in "
               "--slurm='--partition=gpu --time=8:00:00'")
      ->type_name("");
  app.add_flag("--dry-run,--dry_run", flags.run.dry_run,
               "print the command and the environment, start nothing");
  app.add_option("target", flags.target,
                 "a config (JSON), or your own program (a path with a slash, or FILE.py): words after a "
                 "program are its arguments; --name=NAME before it names the run")
      ->type_name("CONFIG|PROGRAM");
}

void place_ranks(const CLI::App& app, Flags& flags) {
  LaunchOptions& launch = flags.run.launch;
  launch.nproc = flags.run.simulate;
  const NprocRange range = split_nproc(flags.nproc);
  if (!launch.nproc) place_on_hosts(launch, flags.hosts, parse_nproc(range.most), app.count("--nproc") > 0);
  if (range.least != range.most) read_nproc_range(range, launch);
  read_care_flags(flags.care, launch);
}

void add_plan_flags(CLI::App& app, Flags& flags) {
  add_nproc(app, flags);
  app.add_option(
         "--memory", flags.memory,
         "memory of a rank's GPU, as in 141GB (on the CPU: of its host); a run that needs more is refused")
      ->type_name("BYTES");
  add_roofline(app, flags);
  app.add_flag("--long", flags.whole,
               "print tables after the first screen: tensors and their placements, memory by region, "
               "collectives, certificate");
  app.add_flag("--budgets", flags.budgets,
               "compare memory and step time for values of compile.memory_budget, from none to full; only "
               "for a config");
  app.add_flag("--json", flags.json, "print everything as one JSON object");
  app.add_flag("--program", flags.program, "print a rank's step, instruction by instruction");
  app.add_flag("--listing", flags.listing,
               "the same with all numbers, as text that parses back; to compare steps with diff");
  add_rank(app, flags, "the rank of --program and --listing; default: 0");
  app.add_option("config", flags.target, "a config, or a program, whose first compiled step is planned")
      ->type_name("CONFIG|PROGRAM");
}

void add_generate_flags(CLI::App& app, Flags& flags) {
  GenerateArguments& g = flags.generate;
  app.add_option("path", g.path, "runs/NAME, its ckpt folder, or one step-N folder")
      ->required()
      ->type_name("PATH");
  app.add_option("--prompt", g.prompt, "the text to go on from")->type_name("TEXT");
  auto* chat = app.add_flag("--chat", g.chat,
                            "the prompt is a user's message, in the run's data.template; the answer alone "
                            "is printed, up to its end");
  app.add_option("--system", g.system, "with --chat: the system's message before it")
      ->type_name("TEXT")
      ->needs(chat);
  app.add_option("--tokens", g.tokens, "how many tokens to add; default 200")
      ->transform(whole_number_within(0))
      ->type_name("N");
  app.add_option("--temperature", g.temperature, "0: always the likeliest; default 0.8")
      ->check(number_within(0, 1000))
      ->type_name("T");
  app.add_option("--top-k,--top_k", g.top_k, "choose among the K likeliest; 0: among all")
      ->transform(whole_number_within(0, 1 << 30))
      ->type_name("K");
  app.add_option("--data.tokenizer", g.tokenizer,
                 "tokenizer.json of the run's tokens; default: the one of its config")
      ->type_name("FILE");
  app.add_option("--train.device", g.device,
                 "where to compute; default: where the run did, or the CPU. A plugin is named here, with "
                 "its absolute path")
      ->type_name("DEVICE");
  app.add_option("--compile.load_ops", g.load_ops,
                 "the libraries of ops that the run was trained with, named here with their absolute paths")
      ->type_name("[PATH,...]");
  app.add_option("--seed", g.seed, "of the choice; default 1337")
      ->transform(whole_number_within())
      ->type_name("N");
}

void add_replay_flags(CLI::App& app, Flags& flags) {
  add_run_name(app, flags.replay.run);
  app.add_option("--step", flags.replay.step,
                 "the step to recompute; it is compared with its line of metrics.jsonl")
      ->required()
      ->transform(whole_number_within())
      ->type_name("K");
  add_nproc(app, flags);
  add_simulate(app, flags);
  app.add_flag("--from-start,--from_start", flags.replay.from_start,
               "start from the initial weights, if there is no checkpoint before the step");
  app.footer(
      "Starts from the newest checkpoint before step K, on any number of ranks, and also computes the steps "
      "in between. Any config key of\nthe run can be overridden (--train.device=cpu). Nothing is written "
      "into the run's folder.\nFor a run of your own program, write its command after RUN: replay --step K "
      "runs/own ./program ARGUMENTS\nExit codes: 0 equal; 1 a value or the certificate differs; 2 wrong "
      "input; 80 stopped. Equal certificates promise equal bits.");
}

void add_bisect_flags(CLI::App& app, Flags& flags) {
  app.add_option("a", flags.bisect.a, "a run: a name below runs/, or a path")->required()->type_name("A");
  app.add_option("b", flags.bisect.b, "the other one")->required()->type_name("B");
  app.add_flag(
      "--replay", flags.bisect.replay,
      "recompute steps of both from their checkpoints, to find the step and the tensor between records");
  add_nproc(app, flags);
  app.footer(
      "Compares records first: rows of metrics.jsonl, state hashes, checkpoints. For a program's run it "
      "compares only these.\nExit codes: 0 equal; 1 they differ; 2 wrong input; 80 stopped. Nothing is "
      "written.");
}

void add_import_flags(CLI::App& app, Flags& flags) {
  hf::ImportRequest& request = flags.import_hf;
  app.add_option("path", request.path,
                 "the folder of a model (config.json, safetensors, tokenizer), or a file or index in it")
      ->required()
      ->type_name("DIR|FILE");
  app.add_option("--accept", request.accept, "unknown keys of config.json that change nothing")
      ->allow_extra_args(false)
      ->type_name("KEY");
  app.add_option("--draw", request.choices.draw,
                 "missing tensors that get initial values as in a new model, as in 'classifier.*'")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  app.add_option("--leave", request.choices.leave, "extra tensors, which the model lacks, to skip")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  app.footer(
      "--name=NAME names the run. You can give any config key here or when you first start the run "
      "(--model.context=512\n--train.lora.rank=8 --optim.lr=1e-5). Nothing is downloaded.");
}

void add_export_flags(CLI::App& app, Flags& flags) {
  hf::ExportRequest& request = flags.export_hf;
  app.add_option("run", request.run,
                 "the run: runs/NAME, or NAME; its best one: runs/NAME/best; or a step folder")
      ->required()
      ->type_name("RUN");
  app.add_option("out", request.folder, "the folder to write: a new or empty one")
      ->required()
      ->type_name("OUT");
  app.add_option("--step", request.step, "of the checkpoint; default: the newest")
      ->transform(whole_number_within(0))
      ->type_name("N");
  app.add_option("--max-shard,--max_shard", flags.max_shard, "bytes of tensors in a file; default 5GB")
      ->type_name("BYTES");
  app.add_option("--dtype", request.dtype, "f32, bf16 or f16; default f32")->type_name("DTYPE");
  app.add_flag(
      "--adapter", request.adapter,
      "write only the adapters of train.lora, for PEFT; without it they are merged into the weights");
}

void add_report_flags(CLI::App& app, Flags& flags) {
  add_run_name(app, flags.report.run);
  app.add_option("--out", flags.report.out, "the page to write; default: report.html in the run's folder")
      ->type_name("FILE.html");
  app.add_flag(
      "--budgets", flags.report.budgets,
      "compare memory and step time for values of compile.memory_budget, planned for the run's config");
  app.add_option("--compile.load_ops", flags.report.load_ops,
                 "the run's libraries of ops and models, with absolute paths")
      ->type_name("[PATH,...]");
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) out.push_back(name);
  return out;
}

namespace {
// "N" of "N:INT in [0 - 9]": behind the last ':' stands what is checked, where something is.
std::string value_words(CLI::Option& option) {
  const std::string text = option.get_type_name();
  try {
    option.get_validator(0);
  } catch (const CLI::OptionNotFound&) { return text; }
  return text.substr(0, text.rfind(':'));
}
}  // namespace

std::vector<FlagWords> run_flags() {
  CLI::App app;
  Flags flags;
  add_run_flags(app, flags);
  std::vector<FlagWords> out;
  for (auto* option : app.get_options())
    if (option->nonpositional() && option->get_lnames() != std::vector<std::string>{"help"})
      out.push_back({option->get_lnames(), value_words(*option), option->get_description()});
  return out;
}

std::vector<std::string> launcher_flags() {
  CLI::App app;
  Flags flags;
  add_run_flags(app, flags);
  return names_of(app);
}

}  // namespace lockstep::launcher::cli
