// Where a checkpoint is written before its commit, and how it is committed or removed: by rename, or by its
// manifest (Commit). Only for the holder of the folder's lock.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint {

// Where the files of DIR/NAME are written: DIR/NAME.tmp, or DIR/NAME itself.
std::string writing_folder(Storage& storage, const std::string& dir, const std::string& name);

// The tag in the names of new files, "" or ".SERIAL". It keeps them apart from the files of an existing
// checkpoint (`there`: its manifest's text, or "") until the new manifest replaces the old one.
std::string file_tag(Storage& storage, const std::string& dir, const std::string& there);

// Writes the manifest and commits the checkpoint; it replaces an existing one of this name.
void commit_folder(Storage& storage, const std::string& dir, const std::string& name,
                   const std::string& manifest_text);
// Removes the files of a checkpoint that will not be committed; an existing one of this name stays.
void remove_unfinished(Storage& storage, const std::string& dir, const std::string& name);
// Removes checkpoints. One with a foreign file (stranger_in) stays, with a warning. A reader sees each
// complete or not at all.
void remove_checkpoints(Storage& storage, const std::string& dir, const std::vector<std::string>& step_dirs);
// Removes one checkpoint's files, and its folder if it is then empty; other files stay, with a warning. For a
// link, removes only the link.
void remove_step(Storage& storage, const std::string& step_dir);
// Writes a small file atomically: all of it or no change.
void replace_text(Storage& storage, const std::string& path, const std::string& text);

// Removes the leftovers of interrupted saves, and renames step-N.old back when step-N is missing. Foreign
// files stay, and a save of the same step works around them; a file named step-N.tmp is renamed.
void tidy(Storage& storage, const std::string& dir);

// The file `latest` of a folder, for people and other tools.
void write_latest(Storage& storage, const std::string& dir, const std::string& step_folder_name);
// Removes all but the newest `keep` folders with a sound structure. Folders with a problem are neither
// counted nor touched. keep < 1 removes nothing.
void retain(Storage& storage, const std::string& dir, int keep);

}  // namespace lockstep::checkpoint
