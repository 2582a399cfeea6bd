// Configs stored by a run or checkpoint are untrusted data: they may come from elsewhere, and open no library
// unless the command line names it.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/config.h"

namespace lockstep::launcher {

// The run or step folder of a config file; "" for the user's own file. Links are followed. A run folder is
// below a folder `runs`, or contains files of a run: metrics.jsonl, ckpt, or a lock and logs.
std::string stored_in(const std::string& file);

// Whether a text is a config stored by a run of any version: an object with nearly every key, which nobody
// writes by hand.
bool is_stored_config(const std::string& text);
// UserError if a file of this name exists that no run wrote and that would be replaced. `other`: how to
// choose another one.
void refuse_foreign_config(const std::string& path, const std::string& other);

// The same for the small files in which a run stores its place and kind.
void refuse_foreign_words(const std::string& run, const std::vector<std::string>& names,
                          const std::string& other);

// UserError when a config read from `where` names a plugin or op libraries (compile.load_ops) that
// `overrides` do not name, or not with absolute paths. `folder`: the result of stored_in, or the checkpoint;
// "": not stored, so it may name one. `command`: the command to type again, for the message.
void refuse_stored_plugin(const RunConfig& config, const std::string& where, const std::string& folder,
                          const std::vector<Override>& overrides, const std::string& command);

// UserError when a stored config would choose where a run writes and removes: by checkpoint.dir, by the name
// of another existing run with another config, or by the former name of its own folder. Values in `overrides`
// are the user's own. Arguments as above.
void refuse_stored_place(const RunConfig& config, const std::string& where, const std::string& folder,
                         const std::vector<Override>& overrides, const std::string& command);

// For a command that only inspects a config: opens only libraries of the command line, never those named in
// the file (open_libraries without a file). UserError when the config names others.
void refuse_unnamed_libraries(const RunConfig& config, const std::string& where,
                              const std::vector<Override>& overrides, const std::string& command);

// Opens the libraries that a command's config names (compile.load_ops), before its keys are read: they may
// register families and tasks, whose options are keys. `words`: the command's arguments, whose
// --compile.load_ops=VALUE overrides the file `config`; "": no file. `folder`: as above; for a stored config
// only absolute paths in `words` are opened, and refuse_stored_plugin checks the rest. UserError for a name
// without a slash, and errors of load_ops.
void open_libraries(const std::string& config, const std::string& folder,
                    const std::vector<std::string>& words);
// Appended to errors of a config that names unopened libraries: the possible cause and the way out;
// "" if all are open.
std::string unopened_libraries(const RunConfig& config);

// The config with absolute paths of its plugin and op libraries, so that the stored config is valid in every
// folder. UserError for a name without a slash.
void make_plugin_absolute(RunConfig& config);

}  // namespace lockstep::launcher
