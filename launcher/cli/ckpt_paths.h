// What the words of ckpt commands name: runs, folders of checkpoints, step folders; and tables for people.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace lockstep::launcher::cli {

// How often a list is read anew where a run removes checkpoints as fast as they are found.
inline constexpr int kCheckpointLooks = 100;

// The path of a run that is meant by its name alone, where no folder has that name here; else the word
// itself.
std::string run_or_path(const std::string& word);
// The folder that holds step-N folders: PATH/ckpt of a run, or of one that is named, or of the program whose
// logs lie in PATH, PATH itself otherwise. UserError where there is no such folder.
std::string checkpoint_folder(const std::string& word);
// The file that says so of a program whose checkpoints lie elsewhere than its logs; "" where PATH has its
// own.
std::string word_of_program(const std::string& path);
// Whether a path is spelled as one step-N folder.
bool names_a_step(const std::string& path);
// The checkpoints of a path, by ascending step. UserError where there is none.
std::vector<checkpoint::CheckpointSummary> checkpoints_of(const std::string& path);

// A step folder, held open, with its manifest.
struct HeldStep {
  std::string path;
  std::string problem;  // of its structure; "": sound
  std::unique_ptr<checkpoint::Storage> files;
  checkpoint::Manifest manifest;
};
// The step folder that a path means: itself, or the newest one below it, sound or not.
HeldStep hold_step(const std::string& word);
// The same, sound: UserError with the problem.
HeldStep hold_sound_step(const std::string& path);

// Rows of cells as columns two spaces apart.
void print_cells(std::ostream& out, const std::vector<std::vector<std::string>>& rows);

}  // namespace lockstep::launcher::cli
