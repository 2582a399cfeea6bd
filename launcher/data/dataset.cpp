// Dataset: builds token streams from the options, and samples from the streams.
#include "launcher/data/dataset.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "launcher/data/files.h"
#include "launcher/data/order.h"
#include "launcher/data/records.h"
#include "launcher/data/scan.h"
#include "launcher/data/source.h"
#include "launcher/data/token_form.h"
#include "launcher/data/tokenized_text.h"

namespace lockstep::launcher::data {

// A row of tokens over parts of files.
class TokenRow {
 public:
  void add(int source, int64_t begin, int64_t count) {
    if (!count) return;
    parts_.push_back({source, begin, tokens_});
    tokens_ += count;
  }
  int64_t tokens() const { return tokens_; }
  int64_t sequences(int64_t context) const { return tokens_ > context ? (tokens_ - 1) / context : 0; }

  void read(const std::vector<Source>& sources, int64_t at, int64_t count, int64_t vocab,
            int32_t* out) const {
    LS_CHECK(at >= 0 && at + count <= tokens_, "tokens ", at, " + ", count, " of ", tokens_);
    auto part = std::upper_bound(parts_.begin(), parts_.end(), at,
                                 [](int64_t token, const Part& p) { return token < p.start; }) -
                1;
    for (; count > 0; ++part) {
      int64_t end = part + 1 == parts_.end() ? tokens_ : (part + 1)->start;
      int64_t here = std::min(count, end - at);
      sources[part->source].read(part->begin + at - part->start, here, vocab, out);
      at += here, count -= here, out += here;
    }
  }

 private:
  struct Part {
    int source;
    int64_t begin;  // first token, in the file
    int64_t start;  // first token, in the stream
  };
  std::vector<Part> parts_;
  int64_t tokens_ = 0;
};

namespace {

// Position of `word` in `known`; UserError with the nearest word otherwise.
size_t word_of(const std::string& key, const std::string& word, const std::vector<std::string>& known) {
  auto found = std::find(known.begin(), known.end(), word);
  if (found != known.end()) return found - known.begin();
  std::string near = nearest(word, known);
  throw UserError(str(key, ": \"", word, "\" is none of ", join(known, ", "),
                      near.empty() ? "" : str("; nearest: ", near)));
}

std::string count_text(int64_t count, const char* one, const char* many) {
  return str(count, " ", count == 1 ? one : many);
}

}  // namespace

struct Dataset::Impl {
  DataOptions options;
  std::vector<Source> sources;
  TokenRow train, validation;
  int64_t taken_bytes = 0;
  std::string fingerprint, read_as;
  std::vector<DataFile> contents;
  std::optional<TextTokenizer> tokenizer;

  explicit Impl(const DataOptions& o) : options(o) {
    const bool text = word_of("data.kind", o.kind, {"text", "tokens"}) == 0;
    word_of("data.order", o.order, {"shuffle", "sequential"});
    const int width = word_of("data.dtype", o.dtype, {"uint16", "u16", "uint32", "u32"}) < 2 ? 2 : 4;
    if (!(o.validation >= 0 && o.validation < 1))
      throw UserError(str("data.validation: ", o.validation,
                          " is not in [0, 1); it is the fraction of each file kept for validation"));
    if (o.vocab < 1) throw UserError(str("model.vocab: ", o.vocab, " is not positive"));
    if (o.context < 1) throw UserError(str("model.context: ", o.context, " is not positive"));
    if (text && o.tokenizer != "bytes") tokenizer.emplace(o);
    open(text, width);
    read_all();
    if (tokenizer) tokenize_all();
    split(text && !tokenizer ? "bytes" : "tokens");
  }

  void open(bool text, int width) {
    FileList list = find_files(options.paths, text ? "" : ".bin");
    int64_t binary = 0, empty = 0, skipped_bytes = 0;
    size_t records = 0;
    std::string record_path, format;
    for (const auto& path : list.files) {
      Source source = text ? Source::text(path) : Source::stored(path, width);
      if (std::string is = text || options.raw ? "" : token_form_error(source, options.vocab); !is.empty())
        throw UserError(is);
      const std::vector<std::byte> head = source.head(kRecordHead);
      if (std::string is = text && !options.raw ? record_format(path, head) : "";
          !is.empty() && records++ == 0)
        record_path = path, format = is;
      if (text && (source.tokens == 0 || looks_binary(head.data(), static_cast<int64_t>(head.size())))) {
        logs::topic("data", str("skipped ", path, source.tokens ? ": binary, " : ": empty, ", source.tokens,
                                " bytes"));
        ++(source.tokens ? binary : empty);
        skipped_bytes += source.tokens;
        continue;
      }
      logs::topic("data",
                  str("took ", path, ": ", source.bytes.size(), " bytes, ", source.tokens, " tokens"));
      taken_bytes += source.bytes.size();
      sources.push_back(std::move(source));
    }
    if (records) throw UserError(records_error(record_path, format, records));
    std::vector<std::string> skipped;
    if (list.duplicates)
      skipped.push_back(count_text(list.duplicates, "further name of a file already taken",
                                   "further names of files already taken"));
    if (binary) skipped.push_back(count_text(binary, "binary file", "binary files"));
    if (empty) skipped.push_back(count_text(empty, "empty file", "empty files"));
    if (list.hidden) skipped.push_back(count_text(list.hidden, "hidden name", "hidden names"));
    if (list.others) skipped.push_back(count_text(list.others, "other name", "other names"));
    if (sources.empty())
      throw UserError(str("data.paths: no ", text ? "text" : "*.bin", " file in ", join(options.paths, ", "),
                          skipped.empty() ? "" : str(" (skipped: ", join(skipped, ", "), ")"),
                          text ? binary ? "; for stored tokens use data.kind tokens" : ""
                               : "; name token files with another ending one by one"));
    logs::info(
        str("data: ", count_text(static_cast<int64_t>(sources.size()), "file", "files"), ", ", taken_bytes,
            " bytes taken",
            skipped.empty() ? "" : str("; skipped ", join(skipped, ", "), " (", skipped_bytes, " bytes)")));
  }

  // Reads every file once, so that changed files and tokens beyond the vocabulary are found before the first
  // step.
  void read_all() {
    const ScanPlan plan = scan_plan(taken_bytes, options.read_whole);
    read_as = plan.text();
    if (plan.stride)
      logs::info(str("data: ", bytes_text(static_cast<double>(taken_bytes)),
                     " are more than data.fingerprint, ", bytes_text(static_cast<double>(options.read_whole)),
                     ": files are ", read_as,
                     "; a change or a token beyond model.vocab between the blocks is not found now"));
    const auto began = std::chrono::steady_clock::now();
    int64_t read = 0;
    std::string all;
    std::map<std::string, int> names;
    for (const auto& source : sources) {
      const Scan found = scan_once(source, plan, options.cache, read);
      if (!tokenizer && static_cast<int64_t>(found.largest) >= options.vocab)
        throw UserError(source.beyond_vocab(found.at, found.largest, options.vocab));
      std::string name = source.path.substr(source.path.rfind('/') + 1);
      if (int times = ++names[name]; times > 1) name += str(" #", times);
      const uint64_t hash = hash64(str(name, " ", source.width, " ", source.bytes.size(), " ", found.content,
                                       tokenizer ? " " + tokenizer->fingerprint() : ""));
      char hex[20];
      std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash));
      contents.push_back({name, source.tokens, hex});
      all += str(hex, "\n");
    }
    fingerprint = hash_hex(all);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (seconds > 1)
      logs::info(str("data: ", bytes_text(static_cast<double>(read)), " read once for the fingerprint, in ",
                     static_cast<int64_t>(seconds + 0.5), " s"));
  }

  void tokenize_all() {
    for (size_t i = 0; i < sources.size(); ++i) {
      sources[i] = tokenizer->tokenized(sources[i]);
      contents[i].tokens = sources[i].tokens;
    }
    tokenizer->tell();
  }

  void split(const char* unit) {
    for (size_t i = 0; i < sources.size(); ++i) {
      int64_t n = sources[i].tokens, kept = std::llround(static_cast<double>(n) * options.validation);
      train.add(static_cast<int>(i), 0, n - kept);
      validation.add(static_cast<int>(i), n - kept, kept);
    }
    const int64_t context = options.context, least = context + 1;
    if (train.tokens() < least)
      throw UserError(str("data.paths: ", train.tokens(), " training ", unit, " in ",
                          join(options.paths, ", "), " (", validation.tokens(),
                          " more kept for validation), but one sequence needs model.context + 1 = ", least,
                          "; give more data or a smaller model.context"));
    if (options.validation > 0 && validation.tokens() < least)
      logs::info(str("warning: data.validation: ", options.validation, " keeps ", validation.tokens(), " ",
                     unit, ", but one sequence needs model.context + 1 = ", least,
                     ": there will be no validation loss; keep more, or set it to 0"));
    logs::info(str("data: ", train.tokens(), " training ", unit, " (", train.sequences(context),
                   " sequences of ", context, "), ", validation.tokens(), " validation ", unit, " (",
                   validation.sequences(context), " sequences), order ", options.order, ", fingerprint ",
                   fingerprint));
  }

  // Sequence s of a stream: context tokens and one more as the last target.
  void sequence(const TokenRow& stream, int64_t s, std::vector<int32_t>& row, int32_t* ids,
                int32_t* targets) const {
    stream.read(sources, s * options.context, options.context + 1, options.vocab, row.data());
    std::copy(row.begin(), row.end() - 1, ids);
    std::copy(row.begin() + 1, row.end(), targets);
  }
};

Dataset::Dataset(const DataOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

int64_t Dataset::sequences() const { return impl_->train.sequences(impl_->options.context); }
int64_t Dataset::tokens() const { return impl_->train.tokens(); }
int64_t Dataset::validation_sequences() const { return impl_->validation.sequences(impl_->options.context); }
int64_t Dataset::validation_tokens() const { return impl_->validation.tokens(); }
const std::vector<DataFile>& Dataset::contents() const { return impl_->contents; }
std::vector<std::string> Dataset::changed() const {
  std::vector<std::string> out;
  for (const auto& source : impl_->sources)
    if (source.bytes.changed()) out.push_back(source.path);
  return out;
}
const std::string& Dataset::fingerprint() const { return impl_->fingerprint; }
const std::string& Dataset::read_as() const { return impl_->read_as; }

void Dataset::fill(int64_t step, int64_t global_batch, int64_t first, int64_t count, int32_t* ids,
                   int32_t* targets) const {
  LS_CHECK(step >= 0 && first >= 0 && count >= 0 && first + count <= global_batch, "step ", step,
           ", samples ", first, " + ", count, " of ", global_batch);
  const DataOptions& o = impl_->options;
  const bool shuffle = o.order == "shuffle";
  std::vector<int32_t> row(static_cast<size_t>(o.context) + 1);
  for (int64_t i = 0; i < count; ++i) {
    int64_t s = sequence_of(step * global_batch + first + i, sequences(), shuffle, o.seed);
    impl_->sequence(impl_->train, s, row, ids + i * o.context, targets + i * o.context);
  }
}

void Dataset::fill_validation(int64_t first, int64_t count, int32_t* ids, int32_t* targets) const {
  LS_CHECK(first >= 0 && count >= 0 && first + count <= validation_sequences(), "validation sequences ",
           first, " + ", count, " of ", validation_sequences());
  const int64_t context = impl_->options.context;
  std::vector<int32_t> row(static_cast<size_t>(context) + 1);
  for (int64_t i = 0; i < count; ++i)
    impl_->sequence(impl_->validation, first + i, row, ids + i * context, targets + i * context);
}

}  // namespace lockstep::launcher::data
