// Resharding and averaging: sources of blocks for write_copy.
#include "checkpoint/tools/transform.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/initial_weights.h"
#include "checkpoint/optimizer_tensors.h"
#include "checkpoint/tools/open_shards.h"

namespace lockstep::checkpoint {

namespace {
struct Source {
  Source(const std::string& step_dir, Storage& below)
      : storage(hold_checkpoint(step_dir, below)),
        manifest(read_manifest(step_dir, *storage)),
        shards(step_dir, manifest, *storage) {}
  std::unique_ptr<Storage> storage;
  Manifest manifest;
  OpenShards shards;
};

std::string type_text(const TensorRecord& tensor) { return shape_text(tensor.dtype, tensor.shape); }

// The tensors of `b` are those of `a`.
void check_alike(const std::string& a, const std::vector<TensorRecord>& of_a, const std::string& b,
                 const Manifest& of_b) {
  for (const TensorRecord& tensor : of_a) {
    const TensorRecord* other = of_b.find(tensor.fqn);
    if (!other)
      throw UserError(str(a, " has ", tensor.fqn, ", ", type_text(tensor), ", and ", b,
                          " has no such tensor; average checkpoints of one model"));
    if (other->dtype != tensor.dtype || other->shape != tensor.shape)
      throw UserError(str(tensor.fqn, " is ", type_text(tensor), " in ", a, " and ", type_text(*other),
                          " in ", b, "; average checkpoints of one model"));
  }
}

std::vector<TensorRecord> weights_of(const Manifest& manifest) {
  const auto names = optimizer_tensors(manifest);
  const std::set<std::string> left(names.begin(), names.end());
  std::vector<TensorRecord> out;
  for (const TensorRecord& tensor : manifest.tensors)
    if (!left.count(tensor.fqn)) out.push_back(tensor);
  return out;
}

// Adapters must have the same scale: their matrices are not comparable otherwise.
void check_scales(const std::vector<std::string>& step_dirs,
                  const std::vector<std::unique_ptr<Source>>& sources) {
  const auto& tensors = sources[0]->manifest.tensors;
  const auto adapter = std::find_if(tensors.begin(), tensors.end(), [](const TensorRecord& tensor) {
    return tensor.fqn.ends_with(".lora_A.weight") && tensor.shape.size() == 2;
  });
  if (adapter == tensors.end()) return;
  const int64_t rank = adapter->shape[0];
  const double first = adapter_scale(sources[0]->manifest, rank, step_dirs[0]);
  for (size_t i = 1; i < sources.size(); ++i)
    if (const double scale = adapter_scale(sources[i]->manifest, rank, step_dirs[i]); scale != first)
      throw UserError(str("the adapters of ", step_dirs[0], " have alpha ",
                          number_text(first * static_cast<double>(rank)), " and those of ", step_dirs[i], " ",
                          number_text(scale * static_cast<double>(rank)),
                          "; average checkpoints of one train.lora.alpha"));
}

// Every byte is verified, so the mean is over what was written.
void check_whole(const std::string& step_dir, Storage& storage) {
  if (const auto problems = verify_checkpoint(step_dir, storage); !problems.empty())
    throw DamagedError(str(step_dir, " is not whole: ", problems[0]));
}

// The mean of a block over the sources, in `out`.
class Mean {
 public:
  explicit Mean(std::vector<std::unique_ptr<Source>>& sources) : sources_(sources) {}
  void operator()(const TensorRecord& tensor, const Box& block, std::byte* out) {
    if (!is_float(tensor.dtype)) return read(*sources_.back(), tensor, block, out);
    const int64_t n = numel(block);
    sums_.assign(n, 0);
    for (auto& source : sources_) {
      read(*source, tensor, block, out);
      for (int64_t i = 0; i < n; ++i) sums_[i] += get_double(tensor.dtype, out, i);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (!std::isfinite(sums_[i]))
        throw UserError(str("the mean of ", tensor.fqn, " is ", sums_[i], " at an element of ", text(block),
                            ": a source holds values that are not finite, or too large; leave it out"));
      set_double(tensor.dtype, out, i, sums_[i] / static_cast<double>(sources_.size()));
    }
  }

 private:
  static void read(Source& source, const TensorRecord& tensor, const Box& block, std::byte* out) {
    source.shards.read(*source.manifest.find(tensor.fqn), block, out);
  }
  std::vector<std::unique_ptr<Source>>& sources_;
  std::vector<double> sums_;
};
}  // namespace

WrittenCopy reshard_checkpoint(const std::string& step_dir, const std::string& dir, const Mesh& mesh,
                               const std::function<Layout(const TensorRecord&)>& layout_of, Storage& from,
                               Storage& to) {
  Source source(step_dir, from);
  Manifest facts = source.manifest;
  facts.mesh = mesh;
  std::vector<Layout> layouts;
  for (const TensorRecord& tensor : facts.tensors) layouts.push_back(layout_of(tensor));
  const auto& tensors = source.manifest.tensors;
  try {
    return write_copy(
        dir, facts, layouts,
        [&](size_t index, const Box& block, std::byte* out) {
          source.shards.read(tensors[index], block, out);
        },
        source.manifest.state_hash, to);
  } catch (const DamagedError&) {
    check_whole(step_dir, *source.storage);
    throw;
  }
}

Layout layout_by_rows(const TensorRecord& tensor, const Mesh& mesh) {
  Layout out;
  if (tensor.shape.empty()) return out;
  for (int d = 0; d < mesh.ndim(); ++d)
    if (is_data_dim(mesh.dim_names[d])) out.set(d, Shard(0));
  return out;
}

Averaged average_checkpoints(const std::vector<std::string>& step_dirs, const std::string& dir, Storage& from,
                             Storage& to) {
  if (step_dirs.size() < 2)
    throw UserError(str("average takes two checkpoints or more, and ", step_dirs.size(), " is named"));
  std::vector<std::unique_ptr<Source>> sources;
  for (const auto& step_dir : step_dirs) sources.push_back(std::make_unique<Source>(step_dir, from));
  Manifest facts = sources.back()->manifest;
  Averaged out;
  out.left_out = optimizer_tensors(facts);
  facts.tensors = weights_of(facts);
  for (size_t i = 0; i + 1 < sources.size(); ++i) {
    check_alike(step_dirs.back(), facts.tensors, step_dirs[i], sources[i]->manifest);
    check_alike(step_dirs[i], weights_of(sources[i]->manifest), step_dirs.back(), sources.back()->manifest);
  }
  for (size_t i = 0; i < sources.size(); ++i) check_whole(step_dirs[i], *sources[i]->storage);
  check_scales(step_dirs, sources);
  for (const TensorRecord& tensor : facts.tensors)
    if (is_float(tensor.dtype))
      ++out.weights;
    else
      out.as_last.push_back(tensor.fqn);
  facts.mesh = Mesh{};
  facts.certificate.clear();
  const Json adapters = facts.extra.is_object() ? facts.extra.value(kAdapters, Json()) : Json();
  facts.extra = Json::object({{"average_of", step_dirs}});
  if (!adapters.is_null()) facts.extra[kAdapters] = adapters;
  const std::vector<TensorRecord> tensors = facts.tensors;
  Mean mean(sources);
  out.written = write_copy(
      dir, facts, std::vector<Layout>(tensors.size()),
      [&](size_t index, const Box& block, std::byte* bytes) { mean(tensors[index], block, bytes); }, "", to);
  return out;
}

}  // namespace lockstep::checkpoint
