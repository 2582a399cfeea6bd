// trainrun generate: generates text from a checkpoint, one token at a time.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <optional>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/damage.h"
#include "compiler/compile/forward.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "launcher/cli/commands.h"
#include "launcher/config/run_names.h"
#include "launcher/config/stored.h"
#include "launcher/data/documents/record.h"
#include "launcher/data/tokenizer/end_token.h"
#include "launcher/machine/run_device.h"
#include "launcher/trainer/model.h"
#include "launcher/trainer/trainer.h"

namespace lockstep::launcher::cli {

using namespace checkpoint;

namespace {
// A folder without access permission counts as empty; on an object store it is an error.
bool is_there(const std::string& folder) {
  std::error_code unknown;
  return any_storage().commit(folder) == Commit::rename ? std::filesystem::is_directory(folder, unknown)
                                                        : is_folder(folder);
}
bool is_step(const std::string& folder) {
  const std::string manifest = folder + "/manifest.json";
  std::error_code unknown;
  return any_storage().commit(folder) == Commit::rename ? std::filesystem::exists(manifest, unknown)
                                                        : any_storage().exists(manifest);
}
// The step folders of a run folder, a run's name, a ckpt folder or a step folder, newest first.
std::vector<std::string> step_folders(const std::string& path) {
  if (is_step(path)) return {path};
  for (const std::string& dir : {checkpoints_of_run(path), path, checkpoints_of_run("runs/" + path)}) {
    if (!is_there(dir)) continue;
    std::vector<std::string> out;
    for (const auto& found : newest_first(dir)) out.push_back(found.path);
    if (!out.empty()) return out;
  }
  if (any_storage().commit(path) == Commit::rename && !is_there(path) && !is_there("runs/" + path))
    throw UserError(no_such_run(path));
  throw UserError(
      str(path, " holds no checkpoint; give a run folder (runs/NAME), a ckpt folder or a step-N folder"));
}

// A checkpoint's config, and its model with the weights of the checkpoint.
struct Loaded {
  Loaded(const std::string& folder, Storage& files, RunConfig of)
      : config(std::move(of)),
        state(solo_mesh(), static_cast<uint64_t>(config.train.seed)),
        model(build_model(config, state)) {
    if (models::family(config.model.kind).output != models::Output::next_tokens)
      throw UserError(str(folder, " holds a ", config.model.kind, ", which gives ",
                          models::words(models::family(config.model.kind).output),
                          "; generate prints text of models that give the next token"));
    if (config.data.tokenizer != "bytes") {
      tokenizer.emplace(data::tokenizer_file_of(config.data.tokenizer));
      end = data::end_token(*tokenizer, config.data.eos);
    } else if (config.data.kind == "tokens" && config.model.integer("vocab") > 256) {
      throw UserError(str(folder, " was trained on token ids without a tokenizer (data.kind tokens, vocab ",
                          config.model.integer("vocab"),
                          "); name the one that made them, as in --data.tokenizer=tokenizer.json"));
    }
    set_precision(state, config);
    state.allocate();
    for (Array* array : state.arrays()) {
      Array whole = read_tensor(folder, array->fqn, files);
      if (whole.shape != array->shape || whole.dtype != array->dtype)
        throw UserError(str(folder, ": ", array->fqn, " is ", shape_text(whole.dtype, whole.shape),
                            " in the checkpoint and ", shape_text(array->dtype, array->shape),
                            " in the model of its config"));
      array->data = whole.data;
      array->host_wrote();
    }
  }
  // The template of the run's data, or that of its tokenizer if that is different.
  data::ChatOpening chat(const std::string& system, const std::string& user) const {
    std::vector<std::string> names = data::chat_templates();
    names.insert(names.begin(), config.data.chat_template);
    if (!tokenizer) return data::chat_opening(names[0], system, user);
    for (const auto& name : names) {
      data::ChatOpening out = data::chat_opening(name, system, user);
      if (std::all_of(out.specials.begin(), out.specials.end(),
                      [&](const std::string& token) { return tokenizer->id(token).has_value(); }))
        return out;
    }
    throw UserError(str("--chat: ", tokenizer->path(), " has the tokens of no chat template (",
                        join(data::chat_templates(), ", "),
                        "), so the model was not tuned on chats; leave --chat out"));
  }
  // Encodes and decodes text. `framed`: the text includes its own beginning.
  std::vector<int32_t> ids(const std::string& text, bool framed) const {
    const int64_t vocab = config.model.integer("vocab");
    std::vector<int32_t> out;
    if (tokenizer) {
      if (!framed) out = tokenizer->before();
      for (int32_t id : tokenizer->encode(text)) out.push_back(id);
      if (out.empty() && end) out.push_back(*end);
    } else {
      for (unsigned char c : text) out.push_back(c);
    }
    if (out.empty())
      throw UserError("--prompt is empty, and the tokenizer has nothing to begin with; give a prompt");
    for (int32_t id : out)
      if (id >= vocab)
        throw UserError(tokenizer ? str("--prompt holds the token ", id, ", and model.vocab is ", vocab)
                                  : str("--prompt holds byte ", id, ", and model.vocab is ", vocab));
    return out;
  }
  std::string text(std::span<const int32_t> of) const {
    if (tokenizer) return tokenizer->decode(of);
    std::string out;
    for (int32_t id : of) out += static_cast<char>(id);
    return out;
  }

  RunConfig config;
  State state;
  models::Model model;
  std::optional<data::Tokenizer> tokenizer;
  std::optional<int32_t> end;
};

std::unique_ptr<Loaded> load_one(const std::string& folder, const std::string& path,
                                 const std::vector<Override>& overrides) {
  auto held = hold_checkpoint(folder);  // stays readable even if its run removes it
  const std::string manifest = folder + "/manifest.json";
  const Json saved = read_manifest(folder, *held).config;
  if (saved.empty())
    throw UserError(
        str(folder,
            " was saved by a program of its own, whose model no config says, and generate makes the "
            "model of a config; let the program itself generate, once load_weights(state, \"",
            folder, "\") has read the checkpoint; in Python lockstep.load(\"", folder,
            "\") gives its tensors as arrays"));
  RunConfig config = parse_config(saved.dump(), manifest, overrides, DataPaths::may_be_empty);
  refuse_stored_plugin(config, manifest, folder, overrides, "trainrun generate " + path);
  return std::make_unique<Loaded>(folder, *held, std::move(config));
}

// How often the list is re-read if a run removes checkpoints as fast as they are found.
constexpr int kLooks = 100;

// Opens the newest intact checkpoint; a damaged one is reported and the next older one is tried. If the run
// removes one before it is opened, the list is re-read, because a newer one exists.
std::unique_ptr<Loaded> load(const std::string& path, const std::string& device, const std::string& tokenizer,
                             const std::string& load_ops) {
  std::vector<Override> overrides;
  open_libraries("", path, {"--compile.load_ops=" + load_ops});
  if (!load_ops.empty()) overrides.push_back({"compile.load_ops", load_ops});
  if (!tokenizer.empty()) overrides.push_back({"data.tokenizer", tokenizer});
  if (!device.empty()) overrides.push_back({"train.device", device});
  std::set<std::string> told;
  for (int look = 1;; ++look) {
    auto folders = step_folders(path);
    bool vanished = false;
    for (const auto& folder : folders) try {
        return load_one(folder, path, overrides);
      } catch (const VanishedError&) {
        if (folders.size() == 1 && folder == path) throw;
        vanished = true;
      } catch (const DamagedError& error) {
        if (folder == folders.back() && (!vanished || look == kLooks)) throw;
        if (told.insert(folder).second)
          std::cerr << "trainrun: " << folder << " is damaged: " << error.what()
                    << "\ntrainrun: the next older checkpoint is taken\n";
      }
    if (look == kLooks)
      throw UserError(str(path, ": its run removed every checkpoint before it could be opened, ", kLooks,
                          " times; raise checkpoint.keep"));
  }
}

int64_t choose(const float* logits, int64_t vocab, const GenerateArguments& arguments, int64_t position) {
  if (arguments.temperature <= 0) return std::max_element(logits, logits + vocab) - logits;
  std::vector<int64_t> order(vocab);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  if (arguments.top_k > 0 && arguments.top_k < vocab) order.resize(arguments.top_k);
  std::vector<double> weights;
  for (int64_t id : order)
    weights.push_back(std::exp((static_cast<double>(logits[id]) - logits[order[0]]) / arguments.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double at = philox::uniform(philox::bits(static_cast<uint64_t>(arguments.seed), 0, 0,
                                           static_cast<uint64_t>(position))) *
              total;
  for (size_t i = 0; i < weights.size(); ++i)
    if ((at -= weights[i]) < 0) return order[i];
  return order.back();
}
// The length of the longest suffix of a text that is a prefix of `word`.
size_t begun(const std::string& text, const std::string& word) {
  for (size_t n = std::min(text.size(), word.size()); n > 0; --n)
    if (text.ends_with(word.substr(0, n))) return n;
  return 0;
}
}  // namespace

int generate(const GenerateArguments& arguments, std::ostream& out) {
  auto loaded = load(arguments.path, arguments.device, arguments.tokenizer, arguments.load_ops);
  RunConfig& config = loaded->config;
  int64_t context = config.model.integer("context"), vocab = config.model.integer("vocab");
  FoundTarget found = arguments.device.empty() ? found_target(config.train.device)
                                               : FoundTarget{run_target(config.train.device, 0, 1), ""};
  const compiler::Target& target = found.target;
  if (device_choice(config.train.device).kind == "cuda")
    std::cerr << "trainrun: on " << target.device().describe()
              << (found.missing.empty() ? "" : str(" (", found.missing, ")")) << "\n";
  // The weights are fp32: without TF32 on the device, a model trained in TF32 runs in fp32.
  if (config.train.precision == "tf32" && target.device().kind() == "cpu") config.train.precision = "fp32";
  compiler::CompileOptions options = compile_options(config, 1, target);
  compiler::Forward forward(
      loaded->state, {{"ids", DType::i32, {1, context}}},
      [&](const std::vector<Tensor>& batch) {
        return convert(loaded->model.logits(batch[0], false), DType::f32);
      },
      options);
  const data::ChatOpening chat =
      arguments.chat ? loaded->chat(arguments.system, arguments.prompt) : data::ChatOpening{};
  std::vector<int32_t> tokens =
      loaded->ids(arguments.chat                                   ? chat.text
                  : arguments.prompt.empty() && !loaded->tokenizer ? "\n"
                                                                   : arguments.prompt,
                  arguments.chat);
  const size_t given = tokens.size();
  size_t told = 0;  // bytes of the answer printed so far
  if (!arguments.chat) out << arguments.prompt << std::flush;
  for (int64_t i = 0; i < arguments.tokens; ++i) {
    // The window is the last `context` tokens; the model is causal, so padding after the last token does not
    // matter.
    std::vector<int32_t> window(context, 0);
    int64_t seen = std::min<int64_t>(context, static_cast<int64_t>(tokens.size()));
    std::copy(tokens.end() - seen, tokens.end(), window.begin());
    const float* logits = static_cast<const float*>(forward.run({window.data()}));
    int64_t next = choose(logits + (seen - 1) * vocab, vocab, arguments, i);
    if (loaded->end && next == *loaded->end) break;
    tokens.push_back(static_cast<int32_t>(next));
    std::string text = loaded->text(std::span(tokens).subspan(given));
    const size_t end = chat.end.empty() ? std::string::npos : text.find(chat.end);
    if (end != std::string::npos) {
      out << text.substr(told, end - std::min(told, end));
      break;
    }
    // A possible start of the end marker is held back until it is complete.
    if (i + 1 < arguments.tokens) text.resize(text.size() - begun(text, chat.end));
    // A character may span several tokens: incomplete bytes are held back, but not forever.
    if (loaded->tokenizer && text.ends_with("\xef\xbf\xbd") && i + 1 < arguments.tokens) continue;
    out << text.substr(std::min(told, text.size())) << std::flush;
    told = text.size();
  }
  out << "\n";
  return kExitOk;
}

}  // namespace lockstep::launcher::cli
