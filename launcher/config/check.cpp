// Checks the rules of single keys, and rules between keys.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/mesh/placement.h"
#include "core/models/family.h"
#include "core/tasks/task.h"
#include "launcher/config/check_best.h"
#include "launcher/config/check_classes.h"
#include "launcher/config/check_precision.h"
#include "launcher/config/config.h"
#include "launcher/config/neighbours.h"
#include "launcher/config/run_names.h"

namespace lockstep::launcher {

namespace {

using Errors = std::vector<std::string>;

// Whether a word matches this choice: equal, or of its form ("cuda:1" has the form "cuda:N").
bool is_choice(const std::string& word, const std::string& choice) {
  size_t colon = choice.find(':');
  if (colon == std::string::npos) return word == choice;
  std::string rest = word.substr(std::min(word.size(), colon + 1));
  if (rest.empty() || word.compare(0, colon + 1, choice, 0, colon + 1) != 0) return false;
  if (choice.substr(colon + 1) != "N") return true;
  return rest.size() <= 4 && rest.find_first_not_of("0123456789") == std::string::npos;
}

void check_rule(const ConfigKey& row, const Json& value, Errors& errors) {
  if (value.is_array()) {
    if (value.size() > row.rule.most) {
      errors.push_back(str(row.path, " has ", value.size(), " values; at most ", row.rule.most, " are read"));
      return;
    }
    for (const auto& element : value) {
      size_t before = errors.size();
      check_rule(row, element, errors);
      if (errors.size() > before) return;
    }
    return;
  }
  if (value.is_string() && !row.rule.choices.empty()) {
    auto word = value.get<std::string>();
    const auto& choices = row.rule.choices;
    if (std::any_of(choices.begin(), choices.end(),
                    [&](const std::string& choice) { return is_choice(word, choice); }))
      return;
    std::string near = neighbour_value(word);
    const bool known = std::find(choices.begin(), choices.end(), near) != choices.end();
    std::string told = known ? "" : neighbour(word);      // for a word that is not a misspelling
    if (told.starts_with("did you mean ")) told.clear();  // drops advice about a key, which is not a value
    if (!known) near = word.size() < 100 && told.empty() ? nearest(word, choices) : "";
    errors.push_back(str(row.path, " is \"", shortened(word, 120), "\"; ",
                         choices.size() == 1 ? "it can only be " : "choose ", join(choices, " | "),
                         !told.empty()                         ? str("; ", told)
                         : near.empty() || choices.size() == 1 ? ""
                                                               : str("; did you mean ", near, "?")));
  } else if (auto wrong = range_error(row, value); !wrong.empty()) {
    errors.push_back(wrong);
  }
}

// A key without effect in this config must keep its default, so that no setting is silently ignored.
void only_for(const RunConfig& config, Errors& errors, const char* owner, const std::string& chosen,
              const std::string& needed, std::vector<std::string> paths) {
  if (chosen == needed) return;
  for (const auto& path : paths) {
    const auto* row = find_key(path);
    LS_CHECK(row, path);
    if (Json value = get_key(config, *row); value != row->fallback)
      errors.push_back(str(path, " is ", value.dump(), ", but it belongs to ", owner, " ", needed, " and ",
                           owner, " is ", chosen, "; leave it out, or choose ", needed));
  }
}

// "1.2e+20", and whole numbers up to 10^15 as they are.
std::string count_text(double value) {
  char out[32];
  std::snprintf(out, sizeof out, value < 1e15 ? "%.0f" : "%.2e", value);
  return out;
}

// The first 64 divisors up to 2^16, so that the search is fast for any `n`.
std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d <= std::min(n, int64_t{1} << 16) && out.size() < 64; ++d)
    if (n % d == 0) out.push_back(d);
  return out;
}

}  // namespace

DeviceChoice device_choice(const std::string& word) {
  Errors errors;
  check_rule(*find_key("train.device"), Json(word), errors);
  if (!errors.empty()) throw UserError(errors[0]);
  size_t colon = word.find(':');
  std::string rest = colon == std::string::npos ? "" : word.substr(colon + 1);
  DeviceChoice out{.kind = word.substr(0, colon), .ordinal = -1, .path = ""};
  if (out.kind == "plugin") out.path = rest;
  if (out.kind == "cuda" && !rest.empty()) out.ordinal = std::stoi(rest);
  return out;
}

namespace {
struct RoughSizes {
  double parameters, samples, bytes;  // samples of a micro-batch
};
// Infinite if the family has no estimate.
RoughSizes rough_sizes(const RunConfig& c) {
  auto d = [](int64_t value) { return static_cast<double>(value); };
  const auto& rough = models::family(c.model.kind).rough;
  if (!rough) return {0, d(c.batch.micro), std::numeric_limits<double>::infinity()};
  const models::RoughSize size = rough(model_options(c));
  const double lanes = c.batch.lanes ? d(c.batch.lanes) : 16;
  return {size.parameters, d(c.batch.micro),
          4 * (size.parameters * (4 + lanes) + d(c.batch.micro) * size.activations +
               2 * d(c.batch.global) * d(c.model.integer("context")))};
}

// "model.width 128, model.depth 4": only the options that the model has.
std::string sizes_text(const RunConfig& c, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& name : names)
    if (const int64_t size = c.model.integer(name)) out.push_back(str("model.", name, " ", size));
  return join(out, ", ");
}

// Beyond these limits, sums of bytes and elements may overflow.
void check_sizes(const RunConfig& c, Errors& errors) {
  constexpr double kMost = 0x1p58, kPositions = 0x1p62;  // 256 PiB
  if (const RoughSizes rough = rough_sizes(c); std::isfinite(rough.bytes) && rough.bytes > kMost)
    errors.push_back(str("a step of this model and batch would hold about ", bytes_text(rough.bytes),
                         ", and at most ", bytes_text(kMost), " are planned: about ",
                         count_text(rough.parameters), " parameters (",
                         sizes_text(c, {"width", "depth", "vocab"}), "), ", count_text(rough.samples),
                         " samples a micro-batch (batch.micro ", c.batch.micro, ", ",
                         sizes_text(c, {"context"}), "); make one of them smaller"));
  const int64_t context = c.model.integer("context", 1);
  const double positions =
      static_cast<double>(c.train.steps) * static_cast<double>(c.batch.global) * static_cast<double>(context);
  if (positions > kPositions)
    errors.push_back(str("train.steps ", c.train.steps, " x batch.global ", c.batch.global,
                         " x model.context ", context, " is ", count_text(positions), " tokens, and at most ",
                         count_text(kPositions), " are counted; make one of them smaller"));
}

std::vector<std::string> cross_errors(const RunConfig& c, DataPaths paths);
}  // namespace

double rough_bytes(const RunConfig& config) { return rough_sizes(config).bytes; }

std::vector<std::string> config_warnings(const RunConfig& c) {
  std::vector<std::string> out;
  if (c.optim.schedule.warmup > c.train.steps)
    out.push_back(str("optim.schedule.warmup is ", c.optim.schedule.warmup, ", and the run has ",
                      c.train.steps, " steps (train.steps): the rate never reaches optim.lr"));
  if (constexpr int64_t kDeep = 256; c.model.integer("depth") > kDeep)
    out.push_back(str("model.depth is ", c.model.integer("depth"),
                      ": the time to plan a step grows with its square; beyond ", kDeep,
                      " blocks it takes minutes"));
  return out;
}

std::vector<std::string> config_errors(const RunConfig& c, DataPaths paths) {
  Errors errors;
  std::vector<std::string> out_of_range;  // checks between keys must not compute with such a value
  for (const auto& row : config_keys()) {
    const size_t before = errors.size();
    check_rule(row, get_key(c, row), errors);
    if (errors.size() > before) out_of_range.push_back(row.path);
  }
  if (out_of_range.empty()) check_sizes(c, errors);
  for (auto& line : cross_errors(c, paths))
    if (std::none_of(out_of_range.begin(), out_of_range.end(),
                     [&](const auto& path) { return line.find(path) != std::string::npos; }))
      errors.push_back(std::move(line));
  return errors;
}

namespace {
// Options of other kinds must keep their defaults, so that no setting is silently ignored.
void check_options(const RunConfig& c, Errors& errors) {
  for (const auto& row : config_keys()) {
    if (has_meaning(c, row)) continue;
    if (const Json value = get_key(c, row); value != row.fallback) {
      const bool model = row.path.starts_with("model.");
      const std::string owner = model ? "model.kind" : "task.kind", kinds = join(row.kinds, " or ");
      errors.push_back(str(row.path, " is ", value.dump(), ", but it belongs to ", owner, " ", kinds, " and ",
                           owner, " is ", model ? c.model.kind : task_kind(c), "; leave it out, or choose ",
                           kinds));
    }
  }
}

void check_model(const RunConfig& c, Errors& errors) {
  check_options(c, errors);
  const auto kinds = models::family_names();
  if (std::find(kinds.begin(), kinds.end(), c.model.kind) == kinds.end()) return;
  const models::Family& family = models::family(c.model.kind);
  for (auto& line : family.errors(model_options(c))) errors.push_back(std::move(line));
  const auto names = tasks::task_names();
  const std::string kind = task_kind(c);
  if (std::find(names.begin(), names.end(), kind) == names.end() || fits(tasks::task(kind), family)) return;
  std::vector<std::string> fitting;
  for (const auto* task : tasks::tasks())
    if (fits(*task, family)) fitting.emplace_back(task->kind);
  errors.push_back(str("task.kind is ", kind, ", and model.kind ", c.model.kind, " gives ",
                       models::words(family.output), "; choose ", join(fitting, " or "), ", or auto"));
}

void check_batch(const RunConfig& c, Errors& errors) {
  add_multiple(errors, "batch.global", c.batch.global, "batch.micro", c.batch.micro);
  if (c.batch.lanes > 0 && c.batch.micro > 0 && c.batch.global % c.batch.micro == 0) {
    int64_t m = micro_batches(c);
    if (m % c.batch.lanes)
      errors.push_back(str("batch.lanes is ", c.batch.lanes, ", which does not divide the ", m,
                           " micro-batches of a step (batch.global / batch.micro); choose one of ",
                           divisors(m)));
  }
}

void check_data(const RunConfig& c, DataPaths paths, Errors& errors) {
  if (!c.data.paths.empty() && !c.data.sources.empty())
    errors.push_back("data.paths and data.sources are both given; name all files in one of them");
  for (size_t i = 0; i < c.data.sources.size(); ++i) {
    const SourceRow& source = c.data.sources[i];
    if (source.paths.empty())
      errors.push_back(str("data.sources[", i, "]: paths is empty; name files, directories or globs"));
    if (!(source.weight > 0))
      errors.push_back(str("data.sources[", i, "]: weight is ", number_text(source.weight),
                           "; give a number above 0, or leave the source out"));
  }
  if (c.data.paths.empty() && c.data.sources.empty() && paths == DataPaths::needed)
    errors.push_back(
        "data.paths is empty; name files, directories or globs, as in \"paths\": [\"corpus/*.txt\"]");
  for (const auto& path : c.data.paths)
    if (path.empty()) errors.push_back("data.paths holds an empty path; name a file, a directory or a glob");
  if (const int64_t vocab = c.model.integer("vocab"); (c.data.kind == "text" || c.data.kind == "jsonl") &&
                                                      c.data.tokenizer == "bytes" && vocab && vocab < 256)
    errors.push_back(str("model.vocab is ", vocab, ", but text as bytes has 256 tokens; use 256 or more"));
  only_for(c, errors, "data.kind", c.data.kind, "tokens", {"data.dtype"});
  only_for(c, errors, "data.kind", c.data.kind, "jsonl",
           {"data.text", "data.prompt", "data.completion", "data.messages", "data.template", "data.pack",
            "data.label", "data.text_pair", "data.classes"});
  if (c.data.kind == "jsonl")
    only_for(c, errors, "task.kind", task_kind(c), "classification",
             {"data.label", "data.text_pair", "data.classes"});
  check_classes(c, errors);
  only_for(
      c, errors, "data.kind", c.data.kind, "images",
      {"data.image.crop", "data.image.crop_share", "data.image.flip", "data.image.mean", "data.image.std"});
  only_for(c, errors, "data.image.crop", c.data.image.crop, "random", {"data.image.crop_share"});
  if (c.data.kind == "arrays" || c.data.kind == "images")
    only_for(c, errors, "data.kind", c.data.kind, "text, jsonl or tokens", {"data.tokenizer"});
  if (c.data.tokenizer == "bytes")
    only_for(c, errors, "data.tokenizer", c.data.tokenizer, "a tokenizer.json", {"data.eos"});
  if (!parse_bytes(c.data.fingerprint))
    errors.push_back(
        str("data.fingerprint is \"", c.data.fingerprint, "\"; give bytes, as in 16GiB or 500MB"));
}

void check_plateau(const RunConfig& c, Errors& errors) {
  const ScheduleConfig& s = c.optim.schedule;
  if (s.kind != "plateau") return;
  if (s.threshold_mode == "rel" && s.threshold > 1)
    errors.push_back(str("optim.schedule.threshold is ", number_text(s.threshold),
                         ", more than the whole of the best metric; give a share, as in 0.01, or choose "
                         "optim.schedule.threshold_mode abs"));
  only_for(c, errors, "optim.schedule.metric", s.metric, "loss", {"optim.schedule.every"});
  if (s.metric == "loss") return;
  if (!s.metric.starts_with("val_"))
    errors.push_back(str("optim.schedule.metric is \"", shortened(printable(s.metric), 100),
                         "\"; give loss, or a number of the validation, as in val_loss or val_accuracy"));
  else if (c.train.eval_every == 0)
    errors.push_back(
        str("optim.schedule.metric is ", s.metric,
            ", and train.eval_every is 0: there is one validation, at the end; give steps between "
            "validations, as in train.eval_every=100"));
}

void check_optim(const RunConfig& c, Errors& errors) {
  if (c.optim.betas.size() != 2)
    errors.push_back(
        str("optim.betas has ", c.optim.betas.size(), " values; ", c.optim.kind, " has two: [0.9, 0.95]"));
  std::map<std::string_view, std::vector<std::string>> readers;
  for (const OptimizerKind& kind : optimizer_kinds())
    for (std::string_view field : kind.reads) readers[field].emplace_back(kind.name);
  for (const auto& [field, kinds] : readers)
    if (std::find(kinds.begin(), kinds.end(), c.optim.kind) == kinds.end())
      only_for(c, errors, "optim.kind", c.optim.kind, join(kinds, " or "), {str("optim.", field)});
  if (c.optim.nesterov && c.optim.momentum == 0)
    errors.push_back("optim.nesterov is true and optim.momentum is 0; give it a momentum, as in 0.9");
  only_for(c, errors, "optim.schedule.kind", c.optim.schedule.kind, "wsd", {"optim.schedule.decay"});
  only_for(c, errors, "optim.schedule.kind", c.optim.schedule.kind, "restarts",
           {"optim.schedule.period", "optim.schedule.growth"});
  only_for(c, errors, "optim.schedule.kind", c.optim.schedule.kind, "plateau",
           {"optim.schedule.metric", "optim.schedule.mode", "optim.schedule.every", "optim.schedule.factor",
            "optim.schedule.patience", "optim.schedule.threshold", "optim.schedule.threshold_mode",
            "optim.schedule.cooldown"});
  check_plateau(c, errors);
  if (c.optim.schedule.decay > c.train.steps)
    errors.push_back(str("optim.schedule.decay is ", c.optim.schedule.decay, " and train.steps ",
                         c.train.steps, "; the fall is a part of the run"));
}

void check_tuned_part(const RunConfig& c, Errors& errors) {
  const LoraConfig& lora = c.train.lora;
  if (lora.rank > 0 && !c.train.freeze.empty())
    errors.push_back(
        "train.freeze and train.lora are both given, and train.lora freezes all but its adapters; leave "
        "train.freeze out, or name in train.lora.also what is trained beside them");
  if (lora.rank > 0) return;
  for (const auto* path :
       {"train.lora.alpha", "train.lora.dropout", "train.lora.targets", "train.lora.also"}) {
    const auto* row = find_key(path);
    if (Json value = get_key(c, *row); value != row->fallback)
      errors.push_back(
          str(path, " is ", value.dump(),
              ", but train.lora.rank is 0: there are no adapters; leave it out, or choose a rank, "
              "as in train.lora.rank=8"));
  }
}

void check_compile(const RunConfig& c, Errors& errors) {
  const std::string& budget = c.compile.memory_budget;
  if (budget != "none" && budget != "full" && !parse_bytes(budget))
    errors.push_back(
        str("compile.memory_budget is \"", budget, "\"; give none, full, or bytes, as in 2GiB or 1.5GB"));
  if (c.compile.offload_activations && (budget == "none" || budget == "full"))
    errors.push_back(str("compile.offload_activations is true, and compile.memory_budget is ", budget,
                         "; give the bytes that the arena is to keep within, as in 20GiB (trainrun plan "
                         "--budgets --compile.offload_activations=false prints some), or leave "
                         "compile.offload_activations out"));
}

void check_placements(const RunConfig& c, Errors& errors) {
  for (const auto& row : c.placements.rows) {
    constexpr size_t kPattern = 256;
    if (row.params.size() > kPattern)
      errors.push_back(str("placements: the pattern ", shortened(row.params, 40), " has ", row.params.size(),
                           " characters; at most ", kPattern, " are read"));
    const std::string where = str("placements ", shortened(Json(row).dump(), 300), ": ");
    const std::vector<std::string> dims(std::begin(kMeshDims), std::end(kMeshDims));
    if (std::find(dims.begin(), dims.end(), row.dim) == dims.end()) {
      std::string near = nearest(row.dim, dims);
      errors.push_back(str(where, "no mesh dim is called \"", row.dim, "\"",
                           near.empty() ? "" : str("; did you mean \"", near, "\"?"),
                           " Names: ", join(dims, ", ")));
    }
    try {
      parse_placement(row.place);
    } catch (const UserError& error) { errors.push_back(where + error.what()); }
  }
}

// Checks the mesh's text. Whether the sizes match the world is unknown here, so a mesh without free sizes is
// checked against its own product.
void check_mesh(const RunConfig& c, Errors& errors) {
  int64_t product = 1;
  for (int64_t size : c.mesh.shape)
    if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product) || product > kMostRanks) {
      errors.push_back(
          str("mesh.shape ", str(c.mesh.shape), " multiplies out to more than ", kMostRanks, " ranks"));
      return;
    }
  try {
    resolve_mesh(c.mesh.shape, c.mesh.dim_names, product);
  } catch (const UserError& error) { errors.push_back(error.what()); }
}

std::vector<std::string> cross_errors(const RunConfig& c, DataPaths paths) {
  Errors errors;
  for (const auto& error : {no_run_name(c.name, "name"), no_folder_path(c.checkpoint.dir, "checkpoint.dir")})
    if (!error.empty()) errors.push_back(error);
  check_model(c, errors);
  check_batch(c, errors);
  check_best(c, errors);
  check_data(c, paths, errors);
  check_optim(c, errors);
  check_tuned_part(c, errors);
  check_compile(c, errors);
  check_precision(c, errors);
  check_placements(c, errors);
  check_mesh(c, errors);
  check_launch(c.launch, errors);
  return errors;
}
}  // namespace

}  // namespace lockstep::launcher
