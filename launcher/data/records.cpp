// Recognizes files of records by their names and first lines.
#include "launcher/data/records.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/reading/json_text.h"
#include "core/reading/one_line.h"

namespace lockstep::launcher::data {

namespace {
struct Ending {
  const char* ending;
  const char* format;
};
constexpr Ending kEndings[] = {
    {".jsonl", "JSON lines"},
    {".ndjson", "JSON lines"},
    {".jsonlines", "JSON lines"},
    {".json", "JSON"},
    {".csv", "a table"},
    {".tsv", "a table"},
    {".parquet", "a Parquet table"},
    {".arrow", "an Arrow table"},
    {".feather", "an Arrow table"},
    {".orc", "an ORC table"},
    {".avro", "Avro records"},
    {".tfrecord", "TFRecord records"},
    {".npy", "a NumPy array"},
    {".npz", "NumPy arrays"},
    {".gz", "compressed"},
    {".zst", "compressed"},
    {".xz", "compressed"},
    {".bz2", "compressed"},
    {".lz4", "compressed"},
    {".zip", "an archive"},
    {".tar", "an archive"},
    {".tgz", "an archive"},
    {".7z", "an archive"},
    {".safetensors", "tensors"},
    {".pt", "tensors"},
    {".pdf", "a PDF document"},
};

bool is_object(const std::string& line) {
  size_t first = line.find_first_not_of(" \t\r");
  return first != std::string::npos && line[first] == '{' && bounded_json(line).is_object();
}
}  // namespace

std::string record_format(const std::string& path, const std::vector<std::byte>& head) {
  std::string name = path.substr(path.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& row : kEndings)
    if (name.ends_with(row.ending)) return row.format;
  const std::string text(reinterpret_cast<const char*>(head.data()), head.size());
  auto lines = split(text, '\n');
  const bool cut = static_cast<int64_t>(head.size()) >= kRecordHead;
  if (lines.size() > 1 && (cut || lines.back().empty())) lines.pop_back();
  lines.resize(std::min<size_t>(lines.size(), 2));
  return std::all_of(lines.begin(), lines.end(), is_object) ? "JSON lines" : "";
}

std::string records_error(const std::string& path, const std::string& format, size_t files) {
  const bool lines = format == "JSON lines", packed = format == "compressed" || format == "an archive";
  return str("data.paths: ", one_line(path),
             files > 1 ? str(" (and ", files - 1, files == 2 ? " file" : " files", " more)") : "", " is ",
             format,
             packed  ? ""
             : lines ? ", a record to a line"
                     : "",
             ", and data.kind text trains on the bytes of files as they are",
             packed ? ": unpack it first" : ", names and punctuation of the records with them",
             lines    ? str(": read them with data.kind jsonl")
             : packed ? ""
                      : ": take the texts out into plain files",
             ", or make token files and use data.kind tokens; to train on the bytes all the same, say so "
             "with data.raw=true");
}

}  // namespace lockstep::launcher::data
