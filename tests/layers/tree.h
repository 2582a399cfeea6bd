// A source tree, read as text: its files, their lines, and tables of rules by room.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep::layers {

using Lines = std::vector<std::string>;

const Lines& top_folders();  // the wings, and those who use them
std::string read(const std::filesystem::path& path);
Lines lines_of(const std::string& text);

// Files below the top folders, and the front headers (for users, and for backends from outside the tree), as
// paths from the root, that `wanted` accepts; sorted.
Lines files(const std::filesystem::path& root,
            const std::function<bool(const std::filesystem::path&)>& wanted);
Lines sources(const std::filesystem::path& root);  // .h and .cpp
bool is_front(const std::string& header);
bool is_ours(const std::string& header);  // a front header, or below a top folder
bool inside(const std::string& file, const std::string& folder);

// Lines of "ROOM -> WORD WORD ...", # for comments.
using Rules = std::map<std::string, Lines>;
Rules parse_rules(const std::string& table);  // std::runtime_error for a line that cannot be read
// The room that holds a file: its key in the rules, "" without one.
std::string room_of(const std::string& file, const Rules& rules);

}  // namespace lockstep::layers
