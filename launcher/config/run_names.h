// Names of runs in the folder runs/.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher {

// Why a name is not valid for a folder below runs/: `key` is "NAME"; it names ... "" if it is valid.
std::string no_run_name(const std::string& name, const std::string& key);
// Why a path is not a folder to write into: a scheme other than s3://BUCKET, or a ~ that no shell expanded.
// `key` is "PATH"; ... "" if it is valid, and for "".
std::string no_folder_path(const std::string& path, const std::string& key);
// UserError for a path that is not a writable place on a disk: as above, or an object store.
void refuse_no_local_path(const std::string& path, const std::string& key);
// Folders below runs/ that a run has written; empty without a folder runs/.
std::vector<std::string> run_names();
// "no run NAME: there is neither a folder runs/NAME nor NAME", for a run's name or path, and what to type
// instead.
std::string no_such_run(const std::string& word);
// What to type instead of a missing run's name or path: "; did you mean runs/NAME?", else the existing runs,
// or a note that there is no folder runs/.
std::string runs_instead_of(const std::string& word);

}  // namespace lockstep::launcher
