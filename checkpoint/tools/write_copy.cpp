// write_copy: writes the files of all ranks in turn, then the manifest, then renames.
#include "checkpoint/tools/write_copy.h"

#include <algorithm>
#include <limits>
#include <map>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/format/checksum.h"
#include "checkpoint/format/damage.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/io/read_chunks.h"
#include "checkpoint/io/write_shard.h"
#include "checkpoint/place.h"
#include "checkpoint/plan/blocks.h"
#include "checkpoint/plan/save_plan.h"
#include "core/base/hash.h"
#include "core/files/unfinished.h"

namespace lockstep::checkpoint {

namespace {
class CopyWriter {
 public:
  CopyWriter(const Manifest& facts, const std::vector<Layout>& layouts, const BlockSource& source,
             Storage& storage)
      : source_(source), storage_(storage), out_(facts) {
    out_.files.clear();
    std::vector<TensorSpec> specs;
    for (size_t i = 0; i < facts.tensors.size(); ++i) {
      TensorRecord& tensor = out_.tensors[i];
      tensor.chunks.clear();
      specs.push_back({tensor.fqn, tensor.dtype, tensor.shape, layouts[i]});
    }
    plan_ = plan_save(specs, facts.mesh);
  }

  // The data files of all ranks, and their records.
  void write_files(const std::string& folder) {
    for (size_t rank = 0; rank < plan_.by_rank.size(); ++rank)
      if (!plan_.by_rank[rank].empty()) write_rank(folder, static_cast<int64_t>(rank));
  }
  // The files of write_files(), and the manifest.
  std::vector<std::string> files() const {
    std::vector<std::string> out{kManifestName};
    for (size_t rank = 0; rank < plan_.by_rank.size(); ++rank)
      if (!plan_.by_rank[rank].empty()) out.push_back(shard_name(static_cast<int64_t>(rank)));
    return out;
  }
  Manifest& manifest() { return out_; }
  std::string hash() const { return hash_.hex(); }

 private:
  void write_rank(const std::string& folder, int64_t rank) {
    const auto& chunks = plan_.by_rank[rank];
    std::vector<SafeTensor> tensors;
    for (const PlannedChunk& chunk : chunks) {
      const TensorSpec& spec = plan_.tensors[chunk.tensor];
      tensors.push_back({chunk_name(spec.fqn, spec.shape, chunk.box), spec.dtype, chunk.box.size, 0, 0});
    }
    const std::string header = make_safetensors_header(
        tensors,
        {{"format", "pt"}, {"producer", out_.producer}, {"step", str(out_.step)}, {"rank", str(rank)}});
    const std::string name = shard_name(rank);
    auto file = storage_.create(folder + "/" + name);
    file->write(header.data(), header.size());
    for (size_t i = 0; i < chunks.size(); ++i) {
      TensorRecord& tensor = out_.tensors[chunks[i].tensor];
      const uint64_t sum = write_chunk(*file, chunks[i]);
      tensor.chunks.push_back({name, tensors[i].offset, tensors[i].bytes, chunks[i].box, sum});
    }
    out_.files.push_back({name, file->bytes(), static_cast<int64_t>(header.size()), hash64(header)});
    file->sync();
    file->close();
  }
  uint64_t write_chunk(OutFile& file, const PlannedChunk& chunk) {
    const TensorRecord& tensor = out_.tensors[chunk.tensor];
    const auto element = static_cast<int64_t>(size_of(tensor.dtype));
    Checksum sum;
    for_each_block(chunk.box, kBlockBytes / element, [&](const Box& block, int64_t) {
      buffer_.resize(numel(block) * element);
      source_(chunk.tensor, block, buffer_.data());
      hash_.add(hash_block(tensor, block, buffer_.data()));
      sum.add(buffer_.data(), buffer_.size());
      file.write(buffer_.data(), buffer_.size());
    });
    return sum.value();
  }

  const BlockSource& source_;
  Storage& storage_;
  Manifest out_;
  SavePlan plan_;
  StateHash hash_;
  std::vector<std::byte> buffer_;
};

int64_t next_serial(Storage& storage, const std::string& dir) {
  int64_t serial = 1;
  for (const StepFolder& folder : scan(storage, dir))
    if (folder.manifest && folder.serial < std::numeric_limits<int64_t>::max())
      serial = std::max(serial, folder.serial + 1);
  return serial;
}

void commit(Storage& storage, const std::string& dir, const std::string& name, const Manifest& manifest) {
  const std::string words = to_text(manifest);
  parse_manifest(words, dir + "/" + name);  // nothing is committed that a reader would refuse
  commit_folder(storage, dir, name, words);
  write_latest(storage, dir, name);
}
}  // namespace

WrittenCopy write_copy(const std::string& dir, const Manifest& facts, const std::vector<Layout>& layouts,
                       const BlockSource& source, const std::string& hash, Storage& storage) {
  LS_CHECK(layouts.size() == facts.tensors.size(), layouts.size());
  const std::string name = step_name(facts.step), path = dir + "/" + name;
  if (storage.exists(path + "/" + kManifestName) ||
      (storage.commit(dir) == Commit::rename && storage.exists(path)))
    throw UserError(str(path, " is there already, and is left as it is; name another OUT"));
  Unfinished made;
  const bool renames = storage.commit(dir) == Commit::rename;
  auto is_made = [&](const std::string& one) { made.add(Unfinished::Kind::entry, one); };
  if (renames)
    for (const std::string& one : {parent_folder(dir), dir, dir + "/.lock"})
      if (!storage.exists(one)) is_made(one);
  const auto lock = lock_checkpoints(dir, storage);
  tidy(storage, dir);
  CopyWriter writer(facts, layouts, source, storage);
  const std::string writing = writing_folder(storage, dir, name);
  if (renames) {
    is_made(writing);
    for (const std::string& file : writer.files()) is_made(writing + "/" + file);
  }
  storage.make_folders(writing);
  try {
    writer.write_files(writing);
    if (!hash.empty() && writer.hash() != hash)
      throw DamagedError(str("the tensors that were read give the state hash ", writer.hash(),
                             ", and the manifest says ", hash, "; nothing was written"));
    writer.manifest().state_hash = writer.hash();
    writer.manifest().serial = next_serial(storage, dir);
    lock->check();
    made.keep();  // from here on it exists
    commit(storage, dir, name, writer.manifest());
  } catch (...) {
    made.keep();  // the storage itself takes it away
    remove_unfinished(storage, dir, name);
    throw;
  }
  WrittenCopy out{path, writer.hash(), 0, static_cast<int64_t>(writer.manifest().files.size())};
  for (const FileRecord& file : writer.manifest().files) out.bytes += file.bytes;
  return out;
}

}  // namespace lockstep::checkpoint
