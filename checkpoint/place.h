// Where a checkpoint lies until it is there, and how it takes its name or goes: by rename, or with its
// manifest (Commit). For the holder of the folder's lock.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

// Where the files of DIR/NAME are written: DIR/NAME.tmp, or DIR/NAME itself.
std::string writing_folder(Storage& storage, const std::string& dir, const std::string& name);

// What the names of new files carry, so that they lie beside those of the checkpoint whose manifest is there
// (`there`, its text; "" where none is) until the new manifest takes its place: "" or ".SERIAL".
std::string file_tag(Storage& storage, const std::string& dir, const std::string& there);

// Writes the manifest, and the checkpoint is there, in the place of one of this name.
void commit_folder(Storage& storage, const std::string& dir, const std::string& name,
                   const std::string& manifest_text);
// Removes what was written of a checkpoint that is not going to be committed; another one of the name stays.
void remove_unfinished(Storage& storage, const std::string& dir, const std::string& name);
// Removes checkpoints, but for those with a file that is none of a checkpoint's (stranger_in), which are
// warned of. A reader sees each whole or not at all.
void remove_checkpoints(Storage& storage, const std::string& dir, const std::vector<std::string>& step_dirs);
// The files of one, and its folder if nothing else is in it; what else there is stays, with a warning. Of a
// link, the link.
void remove_step(Storage& storage, const std::string& step_dir);
// A small file, whole or as it was.
void replace_text(Storage& storage, const std::string& path, const std::string& text);

// Removes what interrupted saves left, and gives a step-N.old its name back where step-N is not there. What
// is none of a save's stays, and one of the same step goes on around it; a file in the place of step-N.tmp is
// renamed.
void tidy(Storage& storage, const std::string& dir);

// The file `latest` of a folder, for people and other tools.
void write_latest(Storage& storage, const std::string& dir, const std::string& step_folder_name);
// Removes all but the newest `keep` folders of sound structure. Folders with a
// problem are neither counted nor touched. keep < 1 removes nothing.
void retain(Storage& storage, const std::string& dir, int keep);

}  // namespace lockstep::checkpoint
