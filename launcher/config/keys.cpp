// The table of keys: built from RunConfig and the options of every kind of model and task.
#include <algorithm>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "core/models/family.h"
#include "core/tasks/task.h"
#include "launcher/config/config.h"

namespace lockstep::launcher {

namespace {
struct Kind {
  std::string_view name;
  std::span<const ConfigKey> keys;
};
std::vector<Kind> model_kinds() {
  std::vector<Kind> out;
  for (const auto* row : models::families()) out.push_back({row->kind, row->keys()});
  return out;
}
std::vector<Kind> task_kinds() {
  std::vector<Kind> out;
  for (const auto* row : tasks::tasks()) out.push_back({row->kind, row->keys()});
  return out;
}

const ConfigKey* row_of(std::span<const ConfigKey> rows, const std::string& path) {
  auto found = std::find_if(rows.begin(), rows.end(), [&](const ConfigKey& row) { return row.path == path; });
  return found == rows.end() ? nullptr : &*found;
}
// The row of an option in the table of a kind, or null.
const ConfigKey* own_row(const std::string& kind, const std::vector<Kind>& kinds, const std::string& name) {
  for (const Kind& row : kinds)
    if (row.name == kind) return row_of(row.keys, name);
  return nullptr;
}

struct Section {
  std::string name;
  std::vector<Kind> kinds;
  KindConfig& (*of)(RunConfig&);
  std::string (*kind)(const RunConfig&);
};
Section model_section() {
  return {"model", model_kinds(), [](RunConfig& c) -> KindConfig& { return c.model; },
          [](const RunConfig& c) { return c.model.kind; }};
}
Section task_section() {
  return {"task", task_kinds(), [](RunConfig& c) -> KindConfig& { return c.task; }, task_kind};
}

Json option_of(const Section& section, const RunConfig& config, const std::string& name,
               const Json& otherwise) {
  const Json& given = section.of(const_cast<RunConfig&>(config)).options;
  if (given.contains(name)) return given[name];
  const ConfigKey* own = own_row(section.kind(config), section.kinds, name);
  return own ? own->fallback : otherwise;
}

// The keys of all kinds of a section, each once: type, help and rule of the first kind that has it.
std::vector<ConfigKey> section_keys(const Section& section) {
  std::vector<ConfigKey> out;
  for (const Kind& kind : section.kinds)
    for (const ConfigKey& option : kind.keys) {
      const std::string path = str(section.name, ".", option.path);
      auto same = std::find_if(out.begin(), out.end(), [&](const auto& row) { return row.path == path; });
      if (same != out.end()) {
        LS_CHECK(same->type == option.type, path, " is ", same->type, " and ", option.type);
        same->kinds.emplace_back(kind.name);
        continue;
      }
      ConfigKey row = option;
      row.path = path;
      row.kinds = {std::string(kind.name)};
      row.get = [&section, of = option.path, fallback = option.fallback](const void* config) {
        return option_of(section, *static_cast<const RunConfig*>(config), of, fallback);
      };
      row.set = [&section, of = option.path, written = option.written](void* config, const Json& value) {
        auto typed = written(value);
        if (typed) section.of(*static_cast<RunConfig*>(config)).options[of] = *typed;
        return typed.has_value();
      };
      out.push_back(std::move(row));
    }
  return out;
}

// The given options, restricted to those of the section's kind.
Json own_options(const RunConfig& config, const Section& section) {
  Json out = Json::object();
  for (const auto& [name, value] : section.of(const_cast<RunConfig&>(config)).options.items())
    if (own_row(section.kind(config), section.kinds, name)) out[name] = value;
  return out;
}

// The keys of the families and tasks registered at its creation.
struct Table {
  Section model = model_section(), task = task_section();
  std::vector<ConfigKey> rows;

  Table() {
    for (ConfigKey& row : read_keys<RunConfig>()) {
      rows.push_back(std::move(row));
      std::vector<ConfigKey> more;
      if (rows.back().path == "model.kind") more = section_keys(model);
      if (rows.back().path == "task.kind") more = section_keys(task);
      rows.insert(rows.end(), more.begin(), more.end());
    }
  }
  Table(const Table&) = delete;  // rows point to the sections
};
// A table is never freed, so that references into it stay valid when a library registers more.
const Table& table() {
  static std::mutex mutex;
  static std::map<size_t, Table> made;  // by the number of families and tasks, which only grows
  std::lock_guard lock(mutex);
  return made[models::families().size() + tasks::tasks().size()];
}
}  // namespace

int64_t ModelConfig::integer(std::string_view name, int64_t otherwise) const {
  const std::string of(name);
  if (options.contains(of)) return options[of].get<int64_t>();
  const ConfigKey* own = own_row(kind, table().model.kinds, of);
  return own ? own->fallback.get<int64_t>() : otherwise;
}

std::string task_kind(const RunConfig& config) {
  if (config.task.kind != "auto") return config.task.kind;
  for (const auto* row : models::families())
    if (row->kind == config.model.kind) return std::string(row->task);
  return "";
}

std::span<const ConfigKey> config_keys() { return table().rows; }

const ConfigKey* find_key(const std::string& path) { return row_of(config_keys(), path); }

Json get_key(const RunConfig& config, const ConfigKey& key) { return key.get(&config); }

Json default_of(const RunConfig& config, const ConfigKey& key) {
  if (key.kinds.empty()) return key.fallback;
  const Section& section = key.path.starts_with("model.") ? table().model : table().task;
  const ConfigKey* own =
      own_row(section.kind(config), section.kinds, key.path.substr(section.name.size() + 1));
  return own ? own->fallback : key.fallback;
}

namespace {
// Texts of a key by kind, without those of the first kind.
std::vector<OtherKinds> otherwise(const ConfigKey& key, std::string (*text)(const ConfigKey& row)) {
  std::vector<OtherKinds> out;
  if (key.kinds.empty()) return out;
  const Section& section = key.path.starts_with("model.") ? table().model : table().task;
  const std::string option = key.path.substr(section.name.size() + 1);
  const std::string first = text(*own_row(key.kinds[0], section.kinds, option));
  for (const std::string& kind : key.kinds) {
    const std::string own = text(*own_row(kind, section.kinds, option));
    if (own == first) continue;
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const OtherKinds& one) { return one.text == own; });
    if (same == out.end())
      out.push_back({own, {kind}});
    else
      same->kinds.push_back(kind);
  }
  return out;
}
}  // namespace

std::vector<OtherKinds> other_defaults(const ConfigKey& key) {
  return otherwise(key, [](const ConfigKey& row) { return row.fallback.dump(); });
}
std::vector<OtherKinds> other_meanings(const ConfigKey& key) {
  return otherwise(key, [](const ConfigKey& row) { return row.help; });
}

bool has_meaning(const RunConfig& config, const ConfigKey& key) {
  if (key.kinds.empty()) return true;
  const std::string kind = key.path.starts_with("model.") ? config.model.kind : task_kind(config);
  return std::find(key.kinds.begin(), key.kinds.end(), kind) != key.kinds.end();
}

Json model_options(const RunConfig& config) { return own_options(config, table().model); }
Json task_options(const RunConfig& config) { return own_options(config, table().task); }

}  // namespace lockstep::launcher
