// Resolves arguments of ckpt commands: runs, checkpoint folders, step folders; and prints tables.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace lockstep::launcher::cli {

// How often a list is re-read if a run removes checkpoints as fast as they are found.
inline constexpr int kCheckpointLooks = 100;

// The path of a run given by its name, if no folder of that name exists here; else the word itself.
std::string run_or_path(const std::string& word);
// The folder with step-N folders: PATH/ckpt of a run, of a named run, or of the program whose logs are in
// PATH; else PATH itself. UserError when it does not exist.
std::string checkpoint_folder(const std::string& word);
// The file that points to a program's checkpoints outside its log folder; "" if they are in PATH.
std::string word_of_program(const std::string& path);
// Whether a path is spelled as one step-N folder.
bool names_a_step(const std::string& path);
// The checkpoints of a path, by ascending step. UserError when there are none.
std::vector<checkpoint::CheckpointSummary> checkpoints_of(const std::string& path);

// An open step folder, with its manifest.
struct HeldStep {
  std::string path;
  std::string problem;  // of its structure; "": sound
  std::unique_ptr<checkpoint::Storage> files;
  checkpoint::Manifest manifest;
};
// The step folder of a path: itself, or the newest one below it, sound or not.
HeldStep hold_step(const std::string& word);
// The same, sound: UserError with the problem.
HeldStep hold_sound_step(const std::string& path);

// Prints rows of cells as columns, two spaces apart.
void print_cells(std::ostream& out, const std::vector<std::vector<std::string>>& rows);

}  // namespace lockstep::launcher::cli
