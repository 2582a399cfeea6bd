// Builds rows from token stores, and sample fields from rows.
#include "launcher/data/documents/document_samples.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/functions/losses.h"
#include "launcher/data/documents/document_files.h"
#include "launcher/data/documents/label_samples.h"
#include "launcher/data/documents/packing.h"
#include "launcher/data/documents/pair_samples.h"
#include "launcher/data/order.h"

namespace lockstep::launcher::data {

namespace {
// Destinations of a sample's fields; null: not requested.
struct RowFields {
  int32_t *ids = nullptr, *targets = nullptr, *unlearnt = nullptr, *documents = nullptr, *positions = nullptr;
};

// Reads a store's tokens in large blocks, for a sequential walk.
class Window {
 public:
  // How many of the tokens begin ... begin + count - 1 are targets; `last`: the value of the last of them.
  int64_t learnt(const TokenStore& store, int32_t which, int64_t begin, int64_t count, uint32_t& last) {
    constexpr int64_t kTokens = int64_t{1} << 18;
    if (which != store_ || begin < begin_ || begin + count > begin_ + static_cast<int64_t>(tokens_.size())) {
      store_ = which, begin_ = begin;
      tokens_.resize(static_cast<size_t>(std::min(store.tokens - begin, std::max(count, kTokens))));
      store.read(begin, tokens_);
    }
    const auto first = tokens_.begin() + (begin - begin_);
    last = *(first + count - 1);
    return std::count_if(first, first + count, [](uint32_t token) { return (token & kCounts) != 0; });
  }

 private:
  int32_t store_ = -1;
  int64_t begin_ = 0;
  std::vector<uint32_t> tokens_;
};

class DocumentSamples : public Samples {
 public:
  DocumentSamples(const DataOptions& options, const std::vector<SampleField>& fields, DocumentMaker maker)
      : options_(options),
        files_(options, maker),
        train_(options.context),
        validation_(options.context),
        padding_(maker.padding()),
        end_(maker.end()) {
    for (const auto& field : fields) names_.push_back(field.name);
    whole_rows_ = names_.back() == "special_tokens_mask";
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
  const std::vector<DataFile>& contents() const override { return files_.contents; }
  const std::string& fingerprint() const override { return files_.fingerprint; }
  const std::string& read_as() const override { return files_.read_as; }
  std::string chat_template() const override { return files_.chat_template; }
  std::vector<std::string> changed() const override { return {}; }  // it reads its own stores
  std::pair<std::string, std::string> counts() const override {
    return {"tokens", str(train_.inputs(), " for training, ", validation_.inputs(), " for validation")};
  }

 private:
  // The last documents of each file are held out for validation.
  void lay() {
    for (const auto& [store, starts, kept] : files_.ranges(options_.validation)) {
      lay_range(store, starts, 0, kept, train_);
      lay_range(store, starts, kept, static_cast<int64_t>(starts.size()) - 1, validation_);
    }
    train_.finish(), validation_.finish();
    window_ = {};
    if (train_.size() == 0)
      files_.refuse_empty(
          options_,
          whole_rows_ && !unlearnt_rows_
              ? str("all together have fewer tokens than a row of model.context, ", options_.context,
                    "; give more records, or a smaller context")
              : "none has a token to learn: their texts or completions are empty, one token with none before "
                "it, or of weight 0, or no message that is learnt has the role assistant; mend the records");
  }

  void lay_range(int32_t store, const std::vector<int64_t>& starts, int64_t from, int64_t until,
                 PackedPieces& rows) {
    if (from == until) return;
    if (options_.pack == "stream") {
      for (int64_t i = from; i < until && !whole_rows_; ++i)
        tally(store, starts[i], starts[static_cast<size_t>(i) + 1]);
      return cut(store, starts[from], starts[until], rows);
    }
    for (int64_t i = from; i < until; ++i) cut(store, starts[i], starts[static_cast<size_t>(i) + 1], rows);
  }

  // Tokens [from, until) as pieces of at most `context` inputs; those without a target are left out.
  void cut(int32_t store, int64_t from, int64_t until, PackedPieces& rows) {
    const int64_t context = options_.context;
    longer_ += until - from - 1 > context;
    if (options_.pack != "stream") tally(store, from, until);
    for (int64_t at = from; at + 1 < until; at += context) {
      const int64_t count = std::min(context, until - (whole_rows_ ? 0 : 1) - at);
      if (whole_rows_ && count < context) continue;
      uint32_t last = 0;
      if (!window_.learnt(files_.stores[store], store, at + (whole_rows_ ? 0 : 1), count, last)) {
        ++unlearnt_rows_;
        continue;
      }
      const RowPiece piece{at, store, static_cast<int32_t>(count)};
      if (options_.pack == "documents")
        rows.packed(piece);
      else
        rows.alone(piece);
    }
  }

  // Whether a document has a token to learn, and whether that is only its end token.
  void tally(int32_t store, int64_t from, int64_t until) {
    uint32_t last = 0;
    const int64_t learnt =
        until - from < 2 ? 0 : window_.learnt(files_.stores[store], store, from + 1, until - from - 1, last);
    nothing_ += learnt == 0;
    end_alone_ += learnt == 1 && end_ && last == (static_cast<uint32_t>(*end_) | kCounts);
  }

  void tell(const DocumentMaker& maker) const {
    if (longer_ && options_.pack != "stream")
      logs::info(str("data: ", longer_, " of ", files_.documents, " records are longer than model.context, ",
                     options_.context, ": they are cut into pieces, which do not see one another"));
    if (nothing_)
      logs::info(str("data: ", nothing_, " of ", files_.documents,
                     " records have no token to learn, and are ",
                     options_.pack == "stream" ? "only read" : "left out"));
    if (whole_rows_ && unlearnt_rows_)
      logs::info(str("data: ", unlearnt_rows_, unlearnt_rows_ == 1 ? " row has" : " rows have",
                     " no token to learn, and ", unlearnt_rows_ == 1 ? "is" : "are", " left out"));
    if (end_alone_)
      logs::info(
          str("data: ", end_alone_, " of ", files_.documents,
              " records teach the token that ends a document, and nothing else: is what should be learnt "
              "empty?"));
    const auto room = static_cast<double>(train_.size() * options_.context);
    files_.tell(options_, maker,
                str(train_.size(), " training rows of ", options_.context, ", ",
                    static_cast<int64_t>(100 * static_cast<double>(train_.inputs()) / room), " % full, ",
                    validation_.size(), " validation rows, pack ", options_.pack),
                validation_.size());
  }

  void row(const PackedPieces& rows, int64_t i, int64_t at, const std::vector<void*>& fields) const {
    const int64_t context = options_.context;
    RowFields to;
    for (size_t f = 0; f < names_.size(); ++f) {
      int32_t* place = static_cast<int32_t*>(fields[f]) + at * context;
      (names_[f] == "ids"                   ? to.ids
       : names_[f] == "targets"             ? to.targets
       : names_[f] == "special_tokens_mask" ? to.unlearnt
       : names_[f] == "documents"           ? to.documents
                                            : to.positions) = place;
    }
    std::vector<uint32_t> tokens;
    int64_t t = 0;
    int32_t document = 0;
    for (const RowPiece* piece = rows.begin(i); piece != rows.end(i); ++piece, ++document) {
      tokens.resize(static_cast<size_t>(piece->count) + (whole_rows_ ? 0 : 1));
      files_.stores[piece->store].read(piece->begin, tokens);
      for (int32_t k = 0; k < piece->count; ++k, ++t) {
        const uint32_t next = whole_rows_ ? 0 : tokens[static_cast<size_t>(k) + 1];
        put(to, t, static_cast<int32_t>(tokens[k] & ~kCounts),
            next & kCounts ? static_cast<int32_t>(next & ~kCounts) : static_cast<int32_t>(kIgnoreIndex),
            document, k);
        if (to.unlearnt) to.unlearnt[t] = !(tokens[k] & kCounts);
      }
    }
    for (; t < context; ++t) put(to, t, padding_, static_cast<int32_t>(kIgnoreIndex), document, 0);
  }
  static void put(const RowFields& to, int64_t t, int32_t id, int32_t target, int32_t document,
                  int32_t position) {
    to.ids[t] = id;
    if (to.targets) to.targets[t] = target;
    if (to.documents) to.documents[t] = document;
    if (to.positions) to.positions[t] = position;
  }

  DataOptions options_;
  std::vector<std::string> names_;
  DocumentFiles files_;
  PackedPieces train_, validation_;
  Window window_;  // while rows are built
  int32_t padding_ = 0;
  bool whole_rows_ = false;  // without padding, and with a mask value for each token
  std::optional<int32_t> end_;
  int64_t longer_ = 0, nothing_ = 0, unlearnt_rows_ = 0, end_alone_ = 0;
};
}  // namespace

std::unique_ptr<Samples> document_samples(const DataOptions& options,
                                          const std::vector<SampleField>& fields) {
  std::vector<std::string> all;
  std::string names;
  for (const auto& field : fields) {
    all.push_back(text(field));
    names += field.name + " ";
  }
  DataOptions of = options;
  of.context = fields[0].shape.empty() ? 0 : fields[0].shape[0];
  if (names == "ids decoder_ids targets ") return pair_samples(of, fields);
  if (names == "ids lengths token_type_ids labels ") return label_samples(of, fields);
  if (names == "ids special_tokens_mask ") {
    if (options.pack == "none")
      throw UserError(
          "data.pack is none, and a model that sees all tokens of a row (task.kind masked_lm) would be "
          "trained on the padding after a record; leave data.pack out, which joins the records into full "
          "rows");
    of.pack = "stream";
  } else if (names != (options.pack == "documents" ? "ids targets documents positions " : "ids targets ")) {
    throw UserError(
        str("data.kind is jsonl, rows of tokens, and a sample of this model and task has ", join(all, ", "),
            "; choose a model of text: of the next token (gpt, llama, qwen, mistral, gemma; task.kind "
            "causal_lm), bert (masked_lm), t5 (seq2seq), or bert_classifier (classification)"));
  }
  return std::make_unique<DocumentSamples>(of, fields, DocumentMaker(of));
}

}  // namespace lockstep::launcher::data
