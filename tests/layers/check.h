// The rules of the house as functions from a source tree to the list of what breaks them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::layers {

// Every function reads the .h and .cpp files under core, compiler, distributed, checkpoint, launcher, tests,
// bench and examples, and lockstep.h, and gives one line per violation, sorted: "FILE:LINE: what is wrong,
// and what would be right". No line: all is well.

// Includes against a table of allowed arrows. Its lines are "ROOM -> TARGET TARGET ...": a room is a folder
// ("FOLDER/." are the files directly in it) or a file, and the longest one that holds a file counts; a target
// is a folder or a header. A room may include itself. Also: an include that is not spelled from the root,
// leads nowhere, or names our header in angle brackets (lockstep.h may be); a file in no room; a line of the
// table that cannot be read (std::runtime_error).
std::vector<std::string> wrong_arrows(const std::filesystem::path& root, const std::string& table);

// Files without a purpose comment ("// " and at least two words) on their first line.
std::vector<std::string> without_purpose(const std::filesystem::path& root);

// Files over 400 lines that `allowed` does not list. Its lines are "FILE: reason"; a line without a reason,
// and one for a file that is gone or no longer long, are violations too. Lines that start with # are
// comments.
std::vector<std::string> too_long(const std::filesystem::path& root, const std::string& allowed);

// Functions of the product with over 60 lines or a cyclomatic number over 30. Lambdas count with
// the function that holds them; a table is no function.
std::vector<std::string> long_functions(const std::filesystem::path& root);

// Lines of more than 120 characters in .py files of these folders and of python. (clang-format wraps the
// others.)
std::vector<std::string> too_wide(const std::filesystem::path& root);

// Circles of includes. A header and the .cpp beside it that has its name are one unit: A and B are in a
// circle where each leads to the other. `known` lists those that may stay for now: "UNIT UNIT ...: reason",
// sorted; a line without a reason, and one for what is no circle any more, are violations too. Lines that
// start with # are comments.
std::vector<std::string> include_circles(const std::filesystem::path& root, const std::string& known);

// .cpp files that no CMakeLists.txt names: they would silently not be built, or not be tested.
std::vector<std::string> not_built(const std::filesystem::path& root);

// Folders called utils, common, misc, helpers or internal.
std::vector<std::string> nameless_folders(const std::filesystem::path& root);

// Code of the product that reads without a bound, throws on numbers or waits for pipes: regular expressions,
// std::stoi and its like, sscanf, Json::parse, property trees, std::ifstream. `allowed` lists those that may
// stay, since no stranger writes what they read: "FILE WORD: reason"; a line without a reason, and one for
// what is not there any more, are violations too. Lines that start with # are comments.
std::vector<std::string> unbounded_readers(const std::filesystem::path& root, const std::string& allowed);

// Types (struct, class, union, enum) that two files of the product define under one name in named namespaces,
// whichever these are: a reader takes them for one, and in one namespace the linker does, too.
std::vector<std::string> types_defined_twice(const std::filesystem::path& root);

// Namespaces against a table of the rooms' own. Its lines are "ROOM -> NAMESPACE NAMESPACE ...": a file of
// the room opens one of these, or one nested in it that is no other room's, and defines nothing outside of
// one; the longest room that holds a file counts, and files in no room are not looked at. A program's main()
// may stand alone.
std::vector<std::string> wrong_namespaces(const std::filesystem::path& root, const std::string& table);

// Sentences of more than 35 words in README.md, CONTRIBUTING.md, ARCHITECTURE.md and docs/ (but for faults.md,
// which tests write). Tables, headings and blocks of code are left out; a span of code counts as one word.
std::vector<std::string> long_sentences(const std::filesystem::path& root);

}  // namespace lockstep::layers
