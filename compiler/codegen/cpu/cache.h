// The kernel cache: files named by the hash of all that made them, each with its checksum; damaged files read as absent.
#pragma once

#include <optional>
#include <string>

namespace lockstep::cpu {

// Machine code with a trailer: magic, instruction set, length, checksum. `seal` writes it, `open_sealed` gives the code back, or nothing
// when a single byte is wrong.
std::string seal(const std::string& code, const std::string& isa);
std::optional<std::string> open_sealed(const std::string& sealed, std::string* isa = nullptr);

std::string default_cache_dir();
// The sealed file of this key; nothing when absent or damaged (a damaged file is removed when possible).
std::optional<std::string> read_cache(const std::string& dir, const std::string& key);
// Writes under another name and renames, so that readers see all or nothing. False with the reason when the folder does not take it.
bool write_cache(const std::string& dir, const std::string& key, const std::string& sealed, std::string& reason);

}  // namespace lockstep::cpu
