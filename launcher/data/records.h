// Recognizes files of records (JSON lines, tables, archives), which contain text but are not plain text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::launcher::data {

inline constexpr int64_t kRecordHead = 8192;

// "" for a file that kind text may read as bytes; else the type of the file, such as "JSON lines". Decided by
// the extension, or, for any name, by first lines that are all JSON objects. `head`: its first bytes, at most
// kRecordHead of them.
std::string record_format(const std::string& path, const std::vector<std::byte>& head);

// The UserError of kind text for `files` files of which `path` is the first, with the ways out.
std::string records_error(const std::string& path, const std::string& format, size_t files);

}  // namespace lockstep::launcher::data
