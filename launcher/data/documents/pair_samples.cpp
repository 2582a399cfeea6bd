// Splits each record and builds rows of its two sides.
#include "launcher/data/documents/pair_samples.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/functions/losses.h"
#include "launcher/data/documents/row_samples.h"

namespace lockstep::launcher::data {

namespace {
// Tokens of a store: given [begin, answer), learnt [answer, end).
struct Pair {
  int64_t begin, answer, end;
  int32_t store;
};

class PairSamples : public RowSamples<Pair> {
 public:
  PairSamples(const DataOptions& options, const std::vector<SampleField>& fields, DocumentMaker maker)
      : RowSamples(options, maker, "pairs"),
        source_(fields[0].shape.at(0)),
        target_(fields[1].shape.at(0)),
        padding_(maker.pad().value_or(maker.padding())) {
    each_document([this](int32_t store, int64_t begin, int64_t end, std::vector<Pair>& to) {
      add(store, begin, end, to);
    });
    if (train_.empty())
      files_.refuse_empty(
          options_,
          "none has a prompt followed by something to learn: prompts or "
          "completions are empty or of weight 0, or no message that is learnt has the role assistant; mend "
          "the records");
    if (one_sided_)
      logs::info(str("data: ", one_sided_, " of ", files_.documents,
                     " records have no prompt, or nothing to learn after it, and are left out"));
    if (longer_)
      logs::info(str("data: ", longer_, " of ", files_.documents,
                     " records are longer than model.source_context, ", source_, ", or model.context, ",
                     target_, ": the ends of these sides are left out"));
    tell(maker);
  }

 private:
  void add(int32_t store, int64_t begin, int64_t end, std::vector<Pair>& to) {
    std::vector<uint32_t> tokens(end - begin);
    files_.stores[store].read(begin, tokens);
    auto counts = [](uint32_t token) { return (token & kCounts) != 0; };
    // The last run of tokens that are learnt.
    const auto until = std::find_if(tokens.rbegin(), tokens.rend(), counts).base();
    const auto from = std::find_if_not(std::make_reverse_iterator(until), tokens.rend(), counts).base();
    if (from == until || from == tokens.begin()) {
      ++one_sided_;
      return;
    }
    const int64_t answer = begin + (from - tokens.begin()), last = begin + (until - tokens.begin());
    longer_ += answer - begin > source_ || last - answer > target_;
    to.push_back({begin, answer, std::min(last, answer + target_), store});
  }

  void row(const Pair& pair, int64_t at, const std::vector<void*>& fields) const override {
    auto* ids = static_cast<int32_t*>(fields[0]) + at * source_;
    auto* decoder = static_cast<int32_t*>(fields[1]) + at * target_;
    auto* targets = static_cast<int32_t*>(fields[2]) + at * target_;
    std::fill_n(ids, source_, padding_);
    std::fill_n(decoder, target_, padding_);
    std::fill_n(targets, target_, static_cast<int32_t>(kIgnoreIndex));
    const TokenStore& store = files_.stores[pair.store];
    std::vector<uint32_t> tokens(std::min(pair.answer - pair.begin, source_));
    store.read(pair.begin, tokens);
    std::transform(tokens.begin(), tokens.end(), ids, id_of);
    tokens.resize(static_cast<size_t>(pair.end - pair.answer));
    store.read(pair.answer, tokens);
    std::transform(tokens.begin(), tokens.end(), targets, id_of);
    std::copy_n(targets, std::min(static_cast<int64_t>(tokens.size()), target_ - 1), decoder + 1);
  }
  static int32_t id_of(uint32_t token) { return static_cast<int32_t>(token & ~kCounts); }

  int64_t source_, target_;
  int32_t padding_;
  int64_t longer_ = 0, one_sided_ = 0;
};
}  // namespace

std::unique_ptr<Samples> pair_samples(const DataOptions& options, const std::vector<SampleField>& fields) {
  return std::make_unique<PairSamples>(options, fields, DocumentMaker(options));
}

}  // namespace lockstep::launcher::data
