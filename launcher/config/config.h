// Reads, checks and prints a RunConfig. All errors of a config are reported in one UserError.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/mesh/mesh.h"
#include "launcher/config/run_config.h"

namespace lockstep::launcher {

// The table of keys in the order of RunConfig's fields. After model.kind and task.kind it has the options of
// all kinds, including those that a library has registered so far.
std::span<const ConfigKey> config_keys();
// The row of a path ("optim.lr"), or null.
const ConfigKey* find_key(const std::string& path);
// Value of a key as JSON; for an option that is not given, its default for the config's kind.
Json get_key(const RunConfig& config, const ConfigKey& key);
// The default of a key, for the config's kind of model or task.
Json default_of(const RunConfig& config, const ConfigKey& key);
// Whether a key applies to this config: an option of another kind of model or task does not.
bool has_meaning(const RunConfig& config, const ConfigKey& key);
// The given options of the model and the task, by name.
Json model_options(const RunConfig& config);
Json task_options(const RunConfig& config);
// task.kind, or for auto the default task of the model's family; "" for an unknown family.
std::string task_kind(const RunConfig& config);

// "--optim.lr=3e-4" split into path and the text after '='.
struct Override {
  std::string path;
  std::string value;  // JSON, or a bare string
};
// Splits arguments of the form --a.b=VALUE, and the spellings --name=VALUE and --init_from=VALUE (of name and
// train.init_from). UserError naming every other argument, with the nearest key or the nearest of the
// command's `flags`.
std::vector<Override> parse_overrides(const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& flags = {});

// Whether data.paths must not be empty: plan and show read no data.
enum class DataPaths { needed, may_be_empty };
// The config of a JSON text (with // and /* */ comments, if any): defaults, then the text, then the
// overrides, then every check that needs no world size. `where` names the text in messages (a file name).
// Throws UserError with all errors, at most 20 of them in full.
RunConfig parse_config(const std::string& text, const std::string& where,
                       const std::vector<Override>& overrides = {}, DataPaths paths = DataPaths::needed);
// The same for a file. UserError when it cannot be read, or is larger than kJsonBytes.
RunConfig load_config(const std::string& path, const std::vector<Override>& overrides = {},
                      DataPaths paths = DataPaths::needed);

// compile.load_ops from a config's text and overrides, ignoring everything else; empty for an unreadable
// config, which parse_config reports.
std::vector<std::string> libraries_of(const std::string& text, const std::vector<Override>& overrides);

// Every violated rule and cross check, one line each: "batch.global is 30, not a multiple of batch.micro, 4;
// 28 and 32 are".
std::vector<std::string> config_errors(const RunConfig& config, DataPaths paths = DataPaths::needed);
// Estimate of one rank's bytes if nothing were split: from sizes only, usually too high.
double rough_bytes(const RunConfig& config);
// Warnings about valid but suspicious settings, such as a warm-up longer than the run. One line each.
std::vector<std::string> config_warnings(const RunConfig& config);
// "" when a device ("cpu", "cuda") supports train.precision; else the problem and the way out.
std::string precision_error(const std::string& precision, const std::string& device);
// Resolves the mesh for a world and checks what depends on it (feasible.h). UserError listing all errors, and
// the nearest mesh that works.
Mesh validate(const RunConfig& config, int64_t world_size);

// Kinds of models or tasks whose default or meaning of a key differs from the first kind's (`key`), grouped
// by equal text.
struct OtherKinds {
  std::string text;  // `1e-06`; "classes of a picture"
  std::vector<std::string> kinds;
};
std::vector<OtherKinds> other_defaults(const ConfigKey& key);
std::vector<OtherKinds> other_meanings(const ConfigKey& key);

// The resolved config: every key with its value, in the struct's order. parse_config(config_text(c)) equals
// c.
Json config_json(const RunConfig& config);
std::string config_text(const RunConfig& config);  // indented, ends with a newline
// The reference as Markdown: one table per section.
std::string config_reference();
// The same as a JSON Schema, to which a config can refer for an editor: {"$schema": "lockstep.schema.json",
// ...}.
std::string config_schema();

// Parses train.device. UserError listing the choices for another word (a program's argument is not checked
// earlier).
struct DeviceChoice {
  std::string kind;  // auto, cpu, cuda, plugin
  int ordinal = -1;  // N of cuda:N; -1: the rank's number on its host
  std::string path;  // plugin:PATH, as written
};
DeviceChoice device_choice(const std::string& word);
// The device of ranks that are threads of one process: for several ranks with auto, the CPU; else
// train.device. UserError when it names a GPU and there are several ranks: one process drives one device.
std::string in_place_device(const RunConfig& config, int64_t nproc);

// M: micro-batches per step, batch.global / batch.micro.
inline int64_t micro_batches(const RunConfig& config) { return config.batch.global / config.batch.micro; }

}  // namespace lockstep::launcher
