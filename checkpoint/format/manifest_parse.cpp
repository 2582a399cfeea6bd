// Parses a manifest: checks every field before a data file is opened or memory is allocated for it.
#include <algorithm>
#include <map>

#include "checkpoint/format/checksum.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/strict_json.h"
#include "checkpoint/format/tiling.h"
#include "core/base/hash.h"
#include "core/reading/one_line.h"

namespace lockstep::checkpoint {

namespace {
void check_file_name(const std::string& name, const std::string& where) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\\') != std::string::npos || name.find('\0') != std::string::npos)
    throw DamagedError(
        str(where, ": file name ", Json(name).dump(-1, ' ', true, Json::error_handler_t::replace),
            " leaves the checkpoint folder; a plain name such as \"rank-0.safetensors\" belongs there"));
}

uint64_t read_checksum(const Json& in, const std::string& where) {
  std::string text = strict::text(in, "xxh3", where);
  auto value = parse_checksum(text);
  if (!value)
    throw DamagedError(str(where, ": \"xxh3\" is \"", text, "\"; 16 lower-case hex digits belong there"));
  return *value;
}

FileRecord read_file_record(const std::string& name, const Json& in, const std::string& path) {
  std::string where = str(path, ": files: ", one_line(name));
  check_file_name(name, where);
  FileRecord out{name, strict::natural(in, "bytes", where), strict::natural(in, "header_bytes", where),
                 read_checksum(in, where)};
  if (out.header_bytes < 8 || out.header_bytes > out.bytes)
    throw DamagedError(str(where, ": a header of ", out.header_bytes, " bytes in a file of ", out.bytes));
  return out;
}

using FilesByName = std::map<std::string_view, const FileRecord*>;  // each chunk looks up its file

Chunk read_chunk(const Json& in, const TensorRecord& tensor, const FilesByName& files,
                 const std::string& where) {
  Chunk out;
  out.file = strict::text(in, "file", where);
  check_file_name(out.file, where);
  out.offset = strict::natural(in, "offset", where);
  out.bytes = strict::natural(in, "bytes", where);
  const Json& box = strict::object(in, "box", where);
  out.box = {strict::naturals(box, "offset", where), strict::naturals(box, "size", where)};
  out.xxh3 = read_checksum(in, where);
  const auto found = files.find(out.file);
  if (found == files.end())
    throw DamagedError(str(where, ": file ", out.file, " is not listed under \"files\""));
  const FileRecord* file = found->second;
  int64_t expected = strict::multiply(strict::elements(out.box.size, where),
                                      static_cast<int64_t>(size_of(tensor.dtype)), where);
  if (out.bytes != expected)
    throw DamagedError(str(where, ": ", out.bytes, " bytes, but a box of size ", out.box.size, " in ",
                           name(tensor.dtype), " takes ", expected));
  if (out.offset < file->header_bytes)
    throw DamagedError(str(where, ": offset ", out.offset, " is inside the header of ", out.file, " (",
                           file->header_bytes, " bytes)"));
  if (out.offset > file->bytes || out.bytes > file->bytes - out.offset)
    throw DamagedError(str(where, ": bytes ", out.offset, "..",
                           static_cast<uint64_t>(out.offset) + static_cast<uint64_t>(out.bytes),
                           " pass the end of ", out.file, " (", file->bytes, " bytes)"));
  return out;
}

// The chunks of a file must follow each other without a gap from its header to its end.
void check_files_filled(const Manifest& manifest, const std::string& path) {
  struct Range {
    int64_t begin, end;
    const std::string* fqn;
  };
  std::map<std::string, std::vector<Range>> ranges;
  for (const auto& tensor : manifest.tensors)
    for (const auto& chunk : tensor.chunks)
      ranges[chunk.file].push_back({chunk.offset, chunk.offset + chunk.bytes, &tensor.fqn});
  for (const auto& file : manifest.files) {
    auto& list = ranges[file.name];
    std::stable_sort(list.begin(), list.end(), [](const Range& a, const Range& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    int64_t at = file.header_bytes;
    std::string before = "the header";
    for (const auto& range : list) {
      std::string where = str(path, ": tensors: ", *range.fqn, ": offset ", range.begin, " in ", file.name);
      if (range.begin < at) throw DamagedError(str(where, " overlaps ", before, ", which ends at ", at));
      if (range.begin > at)
        throw DamagedError(str(where, " leaves a hole after ", before, ", which ends at ", at));
      at = range.end;
      before = *range.fqn;
    }
    if (at != file.bytes)
      throw DamagedError(str(path, ": files: ", file.name, " has ", file.bytes,
                             " bytes, but its last chunk (", before, ") ends at ", at));
  }
}

void check_format(const Json& json, const std::string& path) {
  int64_t format = strict::natural(json, "format", path);
  if (format > kManifestFormat)
    throw UserError(str(path, " was written by a newer Lockstep (",
                        json.contains("producer") ? json["producer"].dump() : "unnamed", "): format ", format,
                        ", and this one reads up to ", kManifestFormat, "; read it with that version"));
  if (format < 1) throw DamagedError(str(path, ": format ", format, "; formats are counted from 1"));
  std::string order = strict::text(json, "byte_order", path);
  if (order != "little")
    throw UserError(str(path, ": byte order is \"", order, "\"; this build reads \"little\""));
}
}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& path) {
  Json json = strict::parse(text, path);
  if (!json.is_object())
    throw DamagedError(str(path, " is a JSON ", json.type_name(), "; an object belongs there"));
  check_format(json, path);
  Manifest out;
  out.step = strict::natural(json, "step", path);
  out.serial = strict::natural(json, "serial", path);
  out.state_hash = strict::text(json, "state_hash", path);
  out.certificate = strict::text(json, "certificate", path);
  out.producer = strict::text(json, "producer", path);
  const Json& mesh = strict::object(json, "mesh", path);
  out.mesh.shape = strict::naturals(mesh, "shape", str(path, ": mesh"));
  out.mesh.dim_names.clear();
  for (const Json& word : strict::array(mesh, "dim_names", str(path, ": mesh"))) {
    if (!word.is_string())
      throw DamagedError(
          str(path, ": mesh: \"dim_names\" holds a ", word.type_name(), "; strings belong there"));
    out.mesh.dim_names.push_back(word.get<std::string>());
  }
  if (out.mesh.shape.size() != out.mesh.dim_names.size())
    throw DamagedError(
        str(path, ": mesh: ", out.mesh.shape.size(), " sizes and ", out.mesh.dim_names.size(), " names"));
  out.config = strict::any(json, "config", path);
  out.extra = strict::any(json, "extra", path);
  for (const auto& [name, value] : strict::object(json, "files", path).items())
    out.files.push_back(read_file_record(name, value, path));
  FilesByName files;
  for (const FileRecord& file : out.files) files[file.name] = &file;
  for (const auto& [fqn, value] : strict::object(json, "tensors", path).items()) {
    std::string where = str(path, ": tensors: ", one_line(fqn));
    TensorRecord tensor;
    tensor.fqn = fqn;
    std::string dtype = strict::text(value, "dtype", where);
    try {
      tensor.dtype = parse_dtype(dtype);
    } catch (const UserError& e) { throw DamagedError(str(where, ": ", e.what())); }
    tensor.shape = strict::naturals(value, "shape", where);
    strict::multiply(strict::elements(tensor.shape, where), static_cast<int64_t>(size_of(tensor.dtype)),
                     where);
    if (value.contains("updates")) tensor.updates = strict::natural(value, "updates", where);
    std::vector<Box> boxes;
    for (const Json& chunk : strict::array(value, "chunks", where)) {
      tensor.chunks.push_back(read_chunk(chunk, tensor, files, str(where, ": chunk ", tensor.chunks.size())));
      boxes.push_back(tensor.chunks.back().box);
    }
    check_tiling(tensor.shape, boxes, where);
    out.tensors.push_back(std::move(tensor));
  }
  check_files_filled(out, path);
  std::string claimed = strict::text(json, "checksum", path);
  json.erase("checksum");
  std::string actual = hash_hex(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (claimed != actual)
    throw DamagedError(str(path, " was changed after it was written: its checksum is ", claimed,
                           ", its text gives ", actual));
  return out;
}

}  // namespace lockstep::checkpoint
