// Converts tensors by the family's rules.
#include "launcher/hf/weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "checkpoint/agreement.h"
#include "checkpoint/io/read_safetensors.h"
#include "core/base/error.h"
#include "core/files/linked_file.h"
#include "core/mesh/nonfinite.h"

namespace lockstep::launcher::hf {

using namespace checkpoint;

namespace {
// A whole tensor in memory, with the interface of a file.
class TensorInMemory : public InFile {
 public:
  explicit TensorInMemory(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  int64_t bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  void read(int64_t offset, void* out, size_t bytes) const override {
    LS_CHECK(offset >= 0 && offset + static_cast<int64_t>(bytes) <= this->bytes());
    std::memcpy(out, bytes_.data() + offset, bytes);
  }

 private:
  std::vector<std::byte> bytes_;
};

// [rows,columns] -> [columns,rows]
void transpose(const std::byte* from, std::byte* to, int64_t rows, int64_t columns, size_t size) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      std::memcpy(to + (c * rows + r) * static_cast<int64_t>(size),
                  from + (r * columns + c) * static_cast<int64_t>(size), size);
}

Array whole_array(const std::string& name, DType dtype, const Shape& shape) {
  return make_array(name, dtype, shape, Layout{}, Mesh{}, 0);
}

// Maps names of the table to names in the files.
class Stored {
 public:
  Stored(const HfFamily& family, const TensorFiles& files, const std::vector<std::string>& expected)
      : files_(files) {
    auto types = files.types();
    std::vector<std::string> known = expected;
    for (const auto& tie : family.tied) known.emplace_back(tie.name);
    const bool bare = std::none_of(types.begin(), types.end(),
                                   [&](const auto& type) { return type.fqn.starts_with(family.prefix); });
    for (auto& type : types) {
      const std::string name = spelled(family, type.fqn, bare, known);
      if (!in_file_.insert({name, type.fqn}).second)
        throw UserError(
            str(files.path(), " has ", name, " twice: as ", in_file_[name], " and as ", type.fqn));
      type.fqn = name;
      types_.push_back(type);
    }
  }
  const std::vector<NamedType>& types() const { return types_; }
  bool has(const std::string& name) const { return in_file_.contains(name); }
  void read(const std::string& name, Array& array) const { files_.read(in_file_.at(name), array); }
  Array whole(const std::string& name, DType dtype, const Shape& shape) const {
    Array out = whole_array(name, dtype, shape);
    read(name, out);
    return out;
  }

 private:
  const TensorFiles& files_;
  std::map<std::string, std::string> in_file_;
  std::vector<NamedType> types_;
};

// The arrays with their parts.
struct Wanted {
  Array* array;
  std::vector<Part> parts;
};

bool any_matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const auto& pattern) { return glob_match(pattern, name); });
}

// The tensors of the files that are compared with the model. Skipped ones are reported.
class Sorting {
 public:
  Sorting(const HfFamily& family, const Stored& stored, const std::vector<Wanted>& wanted,
          const Choices& choices) {
    for (const auto& one : wanted)
      for (const Part& part : one.parts) {
        expected_.insert(part.theirs);
        if (!stored.has(part.theirs) && any_matches(choices.draw, part.theirs))
          drawn_.insert(part.theirs);
        else
          wanted_.push_back({part.theirs, one.array->dtype, part.shape});
      }
    for (const auto& type : stored.types()) sort(family, type, choices);
  }
  std::string misfit(const std::string& path) const {
    const std::string text = misfit_text(kept_, path, wanted_, "the model", true);
    // Neither option helps with a tensor of another type.
    const bool helps =
        text.find("\n  missing: ") != std::string::npos || text.find("\n  extra: ") != std::string::npos;
    return helps ? text +
                       "\nimport-hf takes --draw=PATTERN for missing tensors, which are then drawn "
                       "as for a new model, and "
                       "--leave=PATTERN for extra ones"
                 : text;
  }
  const std::vector<TiedName>& tied() const { return tied_; }
  bool drawn(const Part& part) const { return drawn_.contains(part.theirs); }
  std::vector<std::string> told() const {
    std::vector<std::string> out;
    for (const auto& [why, names] : left_out_)
      out.push_back(str(names.size(), names.size() == 1 ? " tensor is" : " tensors are", " not read (", why,
                        "): ", names[0], names.size() > 1 ? ", ..." : ""));
    if (!drawn_.empty())
      out.push_back(str(drawn_.size(), drawn_.size() == 1 ? " tensor is" : " tensors are",
                        " missing and drawn by train.seed: ", *drawn_.begin(),
                        drawn_.size() > 1 ? ", ..." : ""));
    return out;
  }

 private:
  void sort(const HfFamily& family, const NamedType& type, const Choices& choices) {
    if (expected_.contains(type.fqn)) return kept_.push_back(type);
    for (const TiedName& tie : family.tied)
      if (tie.name == type.fqn && expected_.contains(std::string(tie.of))) return tied_.push_back(tie);
    for (const UnreadTensor& rule : family.left_out)
      if (glob_match(rule.pattern, type.fqn)) return left_out_[std::string(rule.why)].push_back(type.fqn);
    if (any_matches(choices.leave, type.fqn)) return left_out_["--leave"].push_back(type.fqn);
    kept_.push_back(type);
  }

  std::set<std::string> expected_, drawn_;
  std::vector<NamedType> wanted_, kept_;
  std::vector<TiedName> tied_;
  std::map<std::string, std::vector<std::string>> left_out_;
};

// A tensor under an alias must equal the tensor.
void check_tie(const Stored& stored, const TiedName& tie, const std::vector<Wanted>& wanted,
               const std::string& path) {
  const std::string name(tie.name), of(tie.of);
  for (const auto& one : wanted)
    for (const Part& part : one.parts) {
      if (part.theirs != of || !stored.has(of)) continue;
      for (const auto& type : stored.types()) {
        const bool reads = type.other.empty() && type.shape == part.shape &&
                           (type.dtype == one.array->dtype || widens(type.dtype, one.array->dtype));
        if (type.fqn == name && !reads)
          throw UserError(str(path, ": ", name, " is ", type_text(type), " and ", of, " is ",
                              shape_text(one.array->dtype, part.shape),
                              ", but the model has one tensor for both"));
      }
      const Array a = stored.whole(name, one.array->dtype, part.shape),
                  b = stored.whole(of, one.array->dtype, part.shape);
      if (std::memcmp(a.data.data(), b.data.data(), a.local_bytes()) != 0)
        throw UserError(
            str(path, ": ", name, " and ", of,
                " have other values, but the model has one tensor for both (tie_word_embeddings)"));
    }
}

void fill(const Stored& stored, const Wanted& wanted) {
  Array& array = *wanted.array;
  const std::vector<Part>& parts = wanted.parts;
  if (parts.size() == 1 && parts[0].how == How::as_it_is) return stored.read(parts[0].theirs, array);
  const size_t size = size_of(array.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(numel(array.shape)) * size);
  for (const Part& part : parts) {
    const Array theirs = stored.whole(part.theirs, array.dtype, part.shape);
    std::byte* to = bytes.data() + static_cast<size_t>(part.part) * theirs.local_bytes();
    if (part.how == How::transposed)
      transpose(theirs.data.data(), to, part.shape[0], part.shape[1], size);
    else
      std::memcpy(to, theirs.data.data(), theirs.local_bytes());
  }
  const auto count = static_cast<int64_t>(bytes.size());
  read_safetensor(TensorInMemory(std::move(bytes)), {array.fqn, array.dtype, array.shape, 0, count}, array);
}
}  // namespace

std::vector<std::string> load_weights(const HfFamily& family, const std::string& path,
                                      const std::vector<Array*>& arrays, const LiveMesh& mesh,
                                      const Choices& choices) {
  std::vector<std::string> told;
  raise(settle(*mesh.world, attempt([&] {
    const TensorFiles files(path);
    for (const auto& file : files.files()) refuse_linked_away(file, checkpoint::parent_folder(files.path()));
    told = files.told();
    std::vector<Wanted> wanted;
    std::vector<std::string> expected;
    for (Array* array : arrays) {
      wanted.push_back({array, parts_of(family, array->fqn, array->shape)});
      for (const Part& part : wanted.back().parts) expected.push_back(part.theirs);
    }
    const Stored stored(family, files, expected);
    const Sorting sorting(family, stored, wanted, choices);
    if (const std::string misfit = sorting.misfit(files.path()); !misfit.empty()) throw UserError(misfit);
    for (const TiedName& tie : sorting.tied()) check_tie(stored, tie, wanted, files.path());
    for (const Wanted& one : wanted) {
      const auto drawn = std::count_if(one.parts.begin(), one.parts.end(),
                                       [&](const Part& part) { return sorting.drawn(part); });
      if (drawn == 0)
        fill(stored, one);
      else if (drawn != static_cast<int64_t>(one.parts.size()))
        throw UserError(str(files.path(), ": --draw takes some of the tensors that make up ", one.array->fqn,
                            " and not all: ", one.parts[0].theirs, " and ", one.parts.size() - 1,
                            " more; draw all of them"));
    }
    for (const auto& line : sorting.told()) told.push_back(line);
  })));
  if (auto bad = find_nonfinite({arrays.begin(), arrays.end()}, mesh))
    throw UserError(str(path, ": ", bad->text(), "; weights must be finite numbers"));
  return told;
}

std::vector<std::byte> part_of(const Array& whole, const Part& part, DType dtype) {
  const size_t size = size_of(whole.dtype);
  const int64_t count = numel(part.shape);
  std::vector<std::byte> wide(static_cast<size_t>(count) * size);
  const std::byte* from = whole.data.data() + static_cast<size_t>(part.part) * wide.size();
  if (part.how == How::transposed)
    transpose(from, wide.data(), whole.shape[0], whole.shape[1], size);
  else
    std::memcpy(wide.data(), from, wide.size());
  if (dtype == whole.dtype) return wide;
  std::vector<std::byte> out(static_cast<size_t>(count) * size_of(dtype));
  for (int64_t i = 0; i < count; ++i)
    set_double(dtype, out.data(), i, get_double(whole.dtype, wide.data(), i));
  return out;
}

}  // namespace lockstep::launcher::hf
