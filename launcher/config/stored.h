// Configs that a run or a checkpoint holds are data: they may come from elsewhere, and open no library unless
// the command line names it.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace lockstep::launcher {

// The run folder or step folder that a config file lies in; "" for a file of the user's own. Links are
// followed. A run folder is one below a folder `runs`, or has what a run writes: metrics.jsonl, ckpt, or a
// lock beside logs.
std::string stored_in(const std::string& file);

// Whether a text is a config as a run of any version stores it: an object that says nearly every key, which
// nobody writes by hand.
bool is_stored_config(const std::string& text);
// UserError where a file of this name is there and none of a run's wrote it: it would be replaced. `other`:
// the way to another one.
void refuse_foreign_config(const std::string& path, const std::string& other);

// The same for small files with which a run tells where it is and what it is.
void refuse_foreign_words(const std::string& run, const std::vector<std::string>& names,
                          const std::string& other);

// UserError when a config that was read from `where` names a plugin or libraries of ops (compile.load_ops)
// which `overrides` do not name, or not with absolute paths. `folder`: what stored_in gave, or the
// checkpoint; "": it was not stored, and may name one. `command`: what is to be typed again, for the message.
void refuse_stored_plugin(const RunConfig& config, const std::string& where, const std::string& folder,
                          const std::vector<Override>& overrides, const std::string& command);

// UserError when a stored config decides where a run would write and remove: by a checkpoint.dir, by the
// name of another run that is there with another config, or by the name that its own folder had before. What
// `overrides` name is the user's word. As above.
void refuse_stored_place(const RunConfig& config, const std::string& where, const std::string& folder,
                         const std::vector<Override>& overrides, const std::string& command);

// For a command that only looks at a config: it opens no library that the file names, whoever wrote it, but
// those of the command line alone (open_libraries without a file). UserError where the config names others.
void refuse_unnamed_libraries(const RunConfig& config, const std::string& where,
                              const std::vector<Override>& overrides, const std::string& command);

// Opens the libraries that a command's config names (compile.load_ops), before its keys are read: they may
// register families and tasks, whose options are keys. `words`: the command's arguments, whose
// --compile.load_ops=VALUE goes before what the file `config` names; "": no file. `folder`: as above; a
// stored config opens what `words` name with absolute paths, or nothing, and is left to refuse_stored_plugin.
// UserError for a name without a slash, and what load_ops throws.
void open_libraries(const std::string& config, const std::string& folder,
                    const std::vector<std::string>& words);
// Behind errors of a config that names libraries which are not open: what they may come from, and the way
// out;
// "" where all are open.
std::string unopened_libraries(const RunConfig& config);

// The config with absolute paths of its plugin and its libraries of ops, so that what is stored means the
// same in every folder. UserError for a name without a slash.
void make_plugin_absolute(RunConfig& config);

}  // namespace lockstep::launcher
