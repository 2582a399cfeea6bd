// Reads NumPy arrays as samples.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/functions/losses.h"
#include "core/reading/one_line.h"
#include "launcher/data/files.h"
#include "launcher/data/npy.h"
#include "launcher/data/order.h"
#include "launcher/data/samples.h"
#include "launcher/data/scan.h"
#include "launcher/data/tokenizer/stop.h"

namespace lockstep::launcher::data {

namespace {
std::string stem(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.rfind('.'));
}

struct Column {
  SampleField field;
  std::optional<NpyFile> file;  // none: zeros
};

// An array named by data.paths: a file, or a member of an archive.
struct Named {
  std::string name, path;
  std::optional<NpzMember> member = {};
  std::vector<SummedBytes> sums = {};  // for all members, because the archive is scanned once
  NpyFile open() const { return member ? NpyFile(path, *member, sums) : NpyFile(path); }
};
std::vector<Named> named_arrays(const std::vector<std::string>& files) {
  std::vector<Named> out;
  for (const auto& path : files) {
    if (!path.ends_with(".npz")) {
      out.push_back({stem(path), path});
      continue;
    }
    const auto members = npz_members(FileBytes(path), path);
    std::vector<SummedBytes> sums;
    for (const auto& member : members)
      if (!member.packed) sums.push_back({member.name, member.begin, member.size, member.crc});
    for (const auto& member : members) out.push_back({member.name, path, member, sums});
  }
  return out;
}

// The array of a field, checked against it.
Column column_of(const SampleField& field, const std::vector<Named>& arrays) {
  std::vector<std::string> names;
  const Named* found = nullptr;
  for (const auto& array : arrays) {
    names.push_back(array.name);
    if (array.name != field.name) continue;
    if (found)
      throw UserError(str("data.paths: ", one_line(found->path), " and ", array.path, " are both ",
                          field.name, "; name one"));
    found = &array;
  }
  if (!found && field.zeros) return {field, {}};
  if (!found)
    throw UserError(str("data.paths has no ", field.name, ".npy, and a sample has ", text(field),
                        "; there is: ", join(names, ", ")));
  Column out{field, found->open()};
  Shape want = field.shape, have(out.file->shape().begin() + 1, out.file->shape().end());
  if (want != have)
    throw UserError(str("data.paths: ", one_line(found->path), " holds samples of ", str(have), ", and ",
                        field.name, " is ", text(field), "; set the model's options to those of the data"));
  if (field.dtype == DType::i32 && out.file->type()[0] == 'f')
    throw UserError(str("data.paths: ", one_line(found->path), " holds floats (", out.file->type(), "), and ",
                        field.name, " are integers; save them as such"));
  return out;
}

// Reads all integers once, so that one out of range is found before the first step. `last`: the field with
// the learning target.
void check_range(const Column& column, const std::string& last) {
  if (column.field.dtype != DType::i32 || !column.field.below) return;
  const NpyFile& file = *column.file;
  const int64_t width = std::max<int64_t>(1, file.row_elements()), samples = file.shape()[0],
                block = std::max<int64_t>(1, (int64_t{1} << 18) / width);
  std::vector<int32_t> rows(static_cast<size_t>(std::min(block, samples) * width));
  for (int64_t first = 0; first < samples; first += block) {
    check_stop();
    const int64_t count = std::min(block, samples - first);
    const std::span<int32_t> read(rows.data(), static_cast<size_t>(count * file.row_elements()));
    file.read(first, read);
    for (size_t k = 0; k < read.size(); ++k)
      if (const int32_t value = read[k];
          (value < 0 || value >= column.field.below) && (column.field.input || value != kIgnoreIndex))
        throw UserError(str("data.paths: ", one_line(file.source().path), " has ", value, " in sample ",
                            first + static_cast<int64_t>(k) / width, "; ", column.field.name, " lie in [0, ",
                            column.field.below,
                            !column.field.input     ? "), or are -100, which counts nothing"
                            : value == kIgnoreIndex ? str("), and what is not learnt is said in ", last)
                                                    : ")"));
  }
}

class ArraySamples : public Samples {
 public:
  ArraySamples(const DataOptions& options, const std::vector<SampleField>& fields) : options_(options) {
    const auto arrays = named_arrays(find_files(options.paths, ".npy").files);
    std::string all;
    int64_t read = 0;
    for (const auto& field : fields) {
      columns_.push_back(column_of(field, arrays));
      const Column& column = columns_.back();
      if (!column.file) continue;
      const NpyFile& first = *columns_[0].file;
      if (column.file->shape()[0] != first.shape()[0])
        throw UserError(str("data.paths: ", one_line(column.file->source().path), " has ",
                            column.file->shape()[0], " samples, and ", first.source().path, " ",
                            first.shape()[0]));
      check_range(column, str(fields.back().name, fields.back().zeros ? ", as 1" : ", as -100"));
      const Scan found =
          scan_once(column.file->source(), scan_plan(column.file->source().bytes.size(), options.read_whole),
                    options.cache, read);
      char hex[20];
      std::snprintf(hex, sizeof hex, "%016llx",
                    static_cast<unsigned long long>(hash64(str(field.name, " ", found.content))));
      contents_.push_back({field.name + ".npy", column.file->shape()[0], hex});
      all += str(hex, "\n");
    }
    fingerprint_ = hash_hex(all);
    read_as_ = scan_plan(columns_[0].file->source().bytes.size(), options.read_whole).text();
    samples_ = columns_[0].file->shape()[0];
    kept_ = std::llround(static_cast<double>(samples_) * options.validation);
    if (samples_ - kept_ < 1)
      throw UserError(str("data.paths: ", samples_, " samples, of which ", kept_,
                          " are kept for validation: none is left to train on"));
    logs::info(str("data: ", samples_ - kept_, " training samples, ", kept_, " validation samples, order ",
                   options.order, ", fingerprint ", fingerprint_));
  }

  int64_t validation() const override { return kept_; }
  void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count,
            const std::vector<void*>& fields) const override {
    for (int64_t i = 0; i < count; ++i) row(row_of(step * global_batch + first + i), i, fields);
  }
  void fill_validation(int64_t first, int64_t count, const std::vector<void*>& fields) const override {
    for (int64_t i = 0; i < count; ++i) row(samples_ - kept_ + first + i, i, fields);
  }
  std::string name(int64_t step, int64_t global_batch, int64_t sample) const override {
    return str("row ", row_of(step * global_batch + sample), " of the arrays");
  }
  std::string validation_name(int64_t sample) const override {
    return str("row ", samples_ - kept_ + sample, " of the arrays");
  }
  const std::vector<DataFile>& contents() const override { return contents_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  const std::string& read_as() const override { return read_as_; }
  std::vector<std::string> changed() const override {
    std::vector<std::string> out;
    for (const auto& column : columns_)
      if (column.file && column.file->source().bytes.changed()) out.push_back(column.file->source().path);
    return out;
  }
  std::pair<std::string, std::string> counts() const override {
    return {"samples", str(samples_ - kept_, " for training, ", kept_, " for validation")};
  }

 private:
  int64_t row_of(int64_t sample) const {
    return sequence_of(sample, samples_ - kept_, options_.order == "shuffle", options_.seed);
  }
  void row(int64_t sample, int64_t at, const std::vector<void*>& fields) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const SampleField& field = columns_[i].field;
      const auto n = static_cast<size_t>(numel(field.shape));
      const size_t bytes = n * size_of(field.dtype);
      char* into = static_cast<char*>(fields[i]) + static_cast<size_t>(at) * bytes;
      if (!columns_[i].file)
        std::memset(into, 0, bytes);
      else if (field.dtype == DType::f32)
        columns_[i].file->read(sample, std::span(reinterpret_cast<float*>(into), n));
      else
        columns_[i].file->read(sample, std::span(reinterpret_cast<int32_t*>(into), n));
    }
  }

  DataOptions options_;
  std::vector<Column> columns_;
  std::vector<DataFile> contents_;
  std::string fingerprint_, read_as_;
  int64_t samples_ = 0, kept_ = 0;
};
}  // namespace

std::unique_ptr<Samples> array_samples(const DataOptions& options, const std::vector<SampleField>& fields) {
  return std::make_unique<ArraySamples>(options, fields);
}

}  // namespace lockstep::launcher::data
