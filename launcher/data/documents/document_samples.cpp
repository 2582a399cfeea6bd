// Stores to rows, rows to fields.
#include "launcher/data/documents/document_samples.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/ops/functions/losses.h"
#include "launcher/data/documents/documents.h"
#include "launcher/data/documents/packing.h"
#include "launcher/data/files.h"
#include "launcher/data/order.h"
#include "launcher/data/scan.h"

namespace lockstep::launcher::data {

namespace {
// Where the fields of a sample are written; null: it is not asked for.
struct RowFields {
  int32_t *ids = nullptr, *targets = nullptr, *documents = nullptr, *positions = nullptr;
};

// Tokens of a store in large reads, for a walk from its first one on.
class Window {
 public:
  // Whether one of the tokens begin ... begin + count - 1 is learnt.
  bool any_counts(const TokenStore& store, int32_t which, int64_t begin, int64_t count) {
    constexpr int64_t kTokens = int64_t{1} << 18;
    if (which != store_ || begin < begin_ || begin + count > begin_ + static_cast<int64_t>(tokens_.size())) {
      store_ = which, begin_ = begin;
      tokens_.resize(static_cast<size_t>(std::min(store.tokens - begin, std::max(count, kTokens))));
      store.read(begin, tokens_);
    }
    const auto first = tokens_.begin() + (begin - begin_);
    return std::any_of(first, first + count, [](uint32_t token) { return (token & kCounts) != 0; });
  }

 private:
  int32_t store_ = -1;
  int64_t begin_ = 0;
  std::vector<uint32_t> tokens_;
};

class DocumentSamples : public Samples {
 public:
  DocumentSamples(const DataOptions& options, const std::vector<SampleField>& fields)
      : options_(options), train_(options.context), validation_(options.context) {
    for (const auto& field : fields) names_.push_back(field.name);
    DocumentMaker maker(options);
    padding_ = maker.padding();
    open(maker);
    lay();
    tell(maker);
  }

  int64_t validation() const override { return validation_.size(); }
  void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count,
            const std::vector<void*>& fields) const override {
    for (int64_t i = 0; i < count; ++i)
      row(train_,
          sequence_of(step * global_batch + first + i, train_.size(), options_.order == "shuffle",
                      options_.seed),
          i, fields);
  }
  void fill_validation(int64_t first, int64_t count, const std::vector<void*>& fields) const override {
    for (int64_t i = 0; i < count; ++i) row(validation_, first + i, i, fields);
  }
  const std::vector<DataFile>& contents() const override { return contents_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  const std::string& read_as() const override { return read_as_; }
  std::vector<std::string> changed() const override { return {}; }  // what is read are stores of its own
  std::pair<std::string, std::string> counts() const override {
    return {"tokens", str(train_.inputs(), " for training, ", validation_.inputs(), " for validation")};
  }

 private:
  void open(DocumentMaker& maker) {
    const FileList list = find_files(options_.paths, ".jsonl");
    std::vector<Source> files;
    int64_t bytes = 0, read = 0;
    for (const auto& path : list.files) {
      files.push_back(Source::text(path));
      bytes += files.back().bytes.size();
    }
    if (files.empty())
      throw UserError(str("data.paths: no *.jsonl file in ", join(options_.paths, ", "),
                          "; name files with another ending one by one"));
    const ScanPlan plan = scan_plan(bytes, options_.read_whole);
    read_as_ = plan.text();
    std::string all;
    std::map<std::string, int> names;
    for (const auto& file : files) {
      const Scan found = scan_once(file, plan, options_.cache, read);
      stores_.push_back(maker.store(file.bytes, file.path));
      std::string name = file.path.substr(file.path.rfind('/') + 1);
      if (int times = ++names[name]; times > 1) name += str(" #", times);
      char hex[20];
      std::snprintf(hex, sizeof hex, "%016llx",
                    static_cast<unsigned long long>(hash64(
                        str(name, " ", file.bytes.size(), " ", found.content, " ", maker.fingerprint()))));
      contents_.push_back({name, stores_.back().tokens, hex});
      all += str(hex, "\n");
      documents_ += stores_.back().documents;
    }
    fingerprint_ = hash_hex(all);
    bytes_ = bytes;
  }

  // The last documents of each file are kept for validation.
  void lay() {
    for (size_t i = 0; i < stores_.size(); ++i) {
      const std::vector<int64_t> starts = stores_[i].starts();
      const int64_t n = stores_[i].documents,
                    kept = std::llround(static_cast<double>(n) * options_.validation);
      lay_range(static_cast<int32_t>(i), starts, 0, n - kept, train_);
      lay_range(static_cast<int32_t>(i), starts, n - kept, n, validation_);
    }
    train_.finish(), validation_.finish();
    window_ = {};
    if (train_.size() == 0)
      throw UserError(str("data.paths: ", documents_, documents_ == 1 ? " record" : " records", " in ",
                          join(options_.paths, ", "),
                          ", and none to train on has a token to learn; is data.validation ",
                          options_.validation, " too much, or have no messages the role assistant?"));
  }

  void lay_range(int32_t store, const std::vector<int64_t>& starts, int64_t from, int64_t until,
                 PackedPieces& rows) {
    if (from == until) return;
    if (options_.pack == "stream")
      return cut(store, starts[static_cast<size_t>(from)], starts[static_cast<size_t>(until)], rows);
    for (int64_t i = from; i < until; ++i)
      cut(store, starts[static_cast<size_t>(i)], starts[static_cast<size_t>(i) + 1], rows);
  }

  // Tokens [from, until) as pieces of at most `context` inputs; those without a target are left out.
  void cut(int32_t store, int64_t from, int64_t until, PackedPieces& rows) {
    const int64_t context = options_.context;
    longer_ += until - from - 1 > context;
    bool any = false;
    for (int64_t at = from; at + 1 < until; at += context) {
      const int64_t count = std::min(context, until - 1 - at);
      if (!window_.any_counts(stores_[static_cast<size_t>(store)], store, at + 1, count)) continue;
      any = true;
      const RowPiece piece{at, store, static_cast<int32_t>(count)};
      if (options_.pack == "documents")
        rows.packed(piece);
      else
        rows.alone(piece);
    }
    nothing_ += !any;
  }

  void tell(const DocumentMaker& maker) const {
    if (maker.made && maker.seconds > 1)
      logs::info(
          str("data: ", bytes_text(static_cast<double>(maker.made)), " of JSON lines tokenized in ",
              static_cast<int64_t>(maker.seconds + 0.5), " s",
              options_.cache.empty() ? "" : str("; kept in ", options_.cache, " until a file changes")));
    if (longer_ && options_.pack != "stream")
      logs::info(str("data: ", longer_, " of ", documents_, " records are longer than model.context, ",
                     options_.context, ": they are cut into pieces, which do not see one another"));
    if (nothing_ && options_.pack != "stream")
      logs::info(
          str("data: ", nothing_, " of ", documents_, " records have no token to learn, and are left out"));
    if (options_.validation > 0 && validation_.size() == 0)
      logs::info(str("warning: data.validation: ", options_.validation, " keeps no record of ", documents_,
                     ": there will be no validation loss; keep more, or set it to 0"));
    const auto room = static_cast<double>(train_.size() * options_.context);
    logs::info(str("data: ", stores_.size(), stores_.size() == 1 ? " file, " : " files, ", bytes_, " bytes, ",
                   documents_, " records; ", train_.size(), " training rows of ", options_.context, ", ",
                   static_cast<int64_t>(100 * static_cast<double>(train_.inputs()) / room), " % full, ",
                   validation_.size(), " validation rows, pack ", options_.pack, ", order ", options_.order,
                   ", fingerprint ", fingerprint_));
  }

  void row(const PackedPieces& rows, int64_t i, int64_t at, const std::vector<void*>& fields) const {
    const int64_t context = options_.context;
    RowFields to;
    for (size_t f = 0; f < names_.size(); ++f) {
      int32_t* place = static_cast<int32_t*>(fields[f]) + at * context;
      (names_[f] == "ids"         ? to.ids
       : names_[f] == "targets"   ? to.targets
       : names_[f] == "documents" ? to.documents
                                  : to.positions) = place;
    }
    std::vector<uint32_t> tokens;
    int64_t t = 0;
    int32_t document = 0;
    for (const RowPiece* piece = rows.begin(i); piece != rows.end(i); ++piece, ++document) {
      tokens.resize(static_cast<size_t>(piece->count) + 1);
      stores_[static_cast<size_t>(piece->store)].read(piece->begin, tokens);
      for (int32_t k = 0; k < piece->count; ++k, ++t) {
        const uint32_t next = tokens[static_cast<size_t>(k) + 1];
        put(to, t, static_cast<int32_t>(tokens[static_cast<size_t>(k)] & ~kCounts),
            next & kCounts ? static_cast<int32_t>(next & ~kCounts) : static_cast<int32_t>(kIgnoreIndex),
            document, k);
      }
    }
    for (; t < context; ++t) put(to, t, padding_, static_cast<int32_t>(kIgnoreIndex), document, 0);
  }
  static void put(const RowFields& to, int64_t t, int32_t id, int32_t target, int32_t document,
                  int32_t position) {
    to.ids[t] = id, to.targets[t] = target;
    if (to.documents) to.documents[t] = document;
    if (to.positions) to.positions[t] = position;
  }

  DataOptions options_;
  std::vector<std::string> names_;
  std::vector<TokenStore> stores_;
  PackedPieces train_, validation_;
  Window window_;  // while rows are laid
  std::vector<DataFile> contents_;
  std::string fingerprint_, read_as_;
  int32_t padding_ = 0;
  int64_t documents_ = 0, bytes_ = 0, longer_ = 0, nothing_ = 0;
};
}  // namespace

std::unique_ptr<Samples> document_samples(const DataOptions& options,
                                          const std::vector<SampleField>& fields) {
  bool ids = false, targets = false;
  std::vector<std::string> all;
  for (const auto& field : fields) {
    all.push_back(text(field));
    ids |= field.name == "ids", targets |= field.name == "targets";
  }
  if (!ids || !targets || fields.size() != (options.pack == "documents" ? 4u : 2u))
    throw UserError(
        str("data.kind is jsonl, rows of ids and targets, and a sample of this model and task has ",
            join(all, ", "),
            "; choose a model of the next token (gpt, llama, qwen, mistral, "
            "gemma) and task.kind causal_lm"));
  DataOptions of = options;
  of.context = fields[0].shape.at(0);
  return std::make_unique<DocumentSamples>(of, fields);
}

}  // namespace lockstep::launcher::data
