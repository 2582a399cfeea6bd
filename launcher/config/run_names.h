// The runs of the folder runs/, by name.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launcher {

// Why a name is none of a folder below runs/: `key` is "NAME"; it names ... "" where it is one.
std::string no_run_name(const std::string& name, const std::string& key);
// Why a path names no folder to write into: a scheme other than s3://BUCKET, or a ~ that no shell has read.
// `key` is "PATH"; ... "" where it may, and for "".
std::string no_folder_path(const std::string& path, const std::string& key);
// UserError where a path names no file or folder of a disk to write: as above, or an object store.
void refuse_no_local_path(const std::string& path, const std::string& key);
// Folders below runs/ that a run has written. Without a folder runs/ there are none.
std::vector<std::string> run_names();
// "no run NAME: there is neither a folder runs/NAME nor NAME", of a run's name or path, and what is to be
// typed instead.
std::string no_such_run(const std::string& word);
// What is to be typed instead of a run's name or path that is not there: "; did you mean runs/NAME?", else
// which runs there are, or that no folder runs/ is here.
std::string runs_instead_of(const std::string& word);

}  // namespace lockstep::launcher
