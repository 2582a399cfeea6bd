// Maps labels to classes, and builds rows from texts.
#include "launcher/data/documents/label_samples.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/reading/one_line.h"
#include "launcher/data/documents/labels.h"
#include "launcher/data/documents/row_samples.h"

namespace lockstep::launcher::data {

namespace {
constexpr size_t kShownNames = 20;

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i)
    out.push_back(shortened(printable(names[i]), 40));
  return join(out, ", ") + (names.size() > kShownNames ? ", ..." : "");
}

// Maps labels to classes.
class Classes {
 public:
  Classes(const DataOptions& options, int64_t count)
      : member_(options.label_key), names_(options.classes), several_(options.of_several), count_(count) {
    for (size_t i = 0; i < names_.size(); ++i) index_[names_[i]] = static_cast<int32_t>(i);
  }

  // The class of a number, or of a name listed in data.classes. Other names are collected; `finish` resolves
  // them.
  int32_t take(const Label& label, const std::string& path) {
    const std::string place = str(one_line(path), ", line ", label.line), where = "data.paths: " + place;
    if (!first_) first_ = {label, place};
    if (first_->first.number != label.number)
      throw UserError(str(where, ": \"", member_, "\" is ", label.shown(), ", and in ", first_->second,
                          " it is ", first_->first.shown(),
                          "; write all classes as numbers, or all as names"));
    return label.number ? number(label, where) : name(label, where);
  }
  // The final class for each class that `take` returned.
  std::vector<int32_t> finish() {
    if (!names_.empty() || index_.empty()) return {};
    std::vector<int32_t> out(index_.size());
    for (const auto& [name, taken] : index_) {
      out[taken] = static_cast<int32_t>(names_.size());
      names_.push_back(name);
    }
    if (several_)
      throw UserError(str("the labels are names (", listed(names_),
                          "), and each of data.sources may have others; list all classes in data.classes, "
                          "in their order"));
    if (static_cast<int64_t>(names_.size()) != count_)
      throw UserError(str("data.paths: the labels have ", names_.size(),
                          names_.size() == 1 ? " name (" : " names (", listed(names_),
                          "), and model.classes is ", count_, "; set model.classes to ", names_.size(),
                          ", or list all classes in data.classes"));
    return out;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  int32_t number(const Label& label, const std::string& where) const {
    const int64_t value = label.value();
    if (value >= 0 && value < count_) return static_cast<int32_t>(value);
    throw UserError(str(where, ": \"", member_, "\" is ", label.shown(), ", and model.classes is ", count_,
                        ": classes are 0 to ", count_ - 1, "; ",
                        value < 0 ? "take records without a class out"
                                  : str("set model.classes to ", value + 1, " or more, or mend the record")));
  }
  int32_t name(const Label& label, const std::string& where) {
    if (names_.empty())
      return index_.try_emplace(label.text, static_cast<int32_t>(index_.size())).first->second;
    if (auto found = index_.find(label.text); found != index_.end()) return found->second;
    const std::string near = nearest(label.text, names_);
    throw UserError(str(where, ": \"", member_, "\" is ", label.shown(),
                        ", which data.classes does not list (", listed(names_), ")",
                        near.empty() ? "" : str("; did you mean \"", near, "\"?")));
  }

  std::string member_;
  std::vector<std::string> names_;
  bool several_;
  int64_t count_;
  std::map<std::string, int32_t> index_;  // in byte order
  std::optional<std::pair<Label, std::string>> first_;
};

// A text's tokens in a store, and its class. `first`: tokens of a pair's first text; -1 for one text.
struct Row {
  int64_t begin;
  int32_t store, tokens, label, first;
};

// How many tokens of two texts are kept, at most `room` together: the longer text is cut at its end first, as
// Hugging Face's longest_first does.
std::pair<int64_t, int64_t> kept_of(int64_t first, int64_t second, int64_t room) {
  if (first + second <= room) return {first, second};
  const int64_t half = room / 2;
  if (first <= half) return {first, room - first};
  if (second <= half) return {room - second, second};
  return first > second ? std::pair(room - half, half) : std::pair(half, room - half);
}

class LabelSamples : public RowSamples<Row> {
 public:
  LabelSamples(const DataOptions& options, const std::vector<SampleField>& fields, DocumentMaker maker)
      : RowSamples(options, maker, "texts"),
        context_(fields[0].shape.at(0)),
        padding_(maker.pad().value_or(0)),
        single_(maker.around(false)),
        pair_(maker.around(true)),
        classes_(options, fields[3].below) {
    each_document([this](int32_t store, int64_t begin, int64_t end, std::vector<Row>& to) {
      add(store, begin, end, to);
    });
    if (const auto places = classes_.finish(); !places.empty())
      for (auto* rows : {&train_, &validation_})
        for (Row& row : *rows) row.label = places[row.label];
    if (train_.empty()) files_.refuse_empty(options_, "none is a text with a class");
    if (pairs_) logs::info(str("data: ", pairs_, " of ", files_.documents, " texts are pairs"));
    if (longer_)
      logs::info(str("data: ", longer_, " of ", files_.documents, " texts are longer than model.context, ",
                     context_, ": their ends are left out"));
    tell_classes(fields[3].below);
    tell(maker);
  }
  std::vector<std::string> class_names() const override { return classes_.names(); }

 private:
  void add(int32_t store, int64_t begin, int64_t end, std::vector<Row>& to) {
    const auto which = static_cast<size_t>(store);
    const StoredLabel stored = label_of(files_.stores[which], begin, end);
    const int64_t tokens = end - stored.tokens;
    longer_ += tokens > context_;
    pairs_ += stored.first >= 0;
    to.push_back({stored.tokens, store, static_cast<int32_t>(tokens),
                  classes_.take(stored.label, files_.paths[which]), static_cast<int32_t>(stored.first)});
  }

  void tell_classes(int64_t count) const {
    std::vector<int64_t> texts(count);
    for (const Row& row : train_) ++texts[row.label];
    std::vector<std::string> each, without;
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string name =
          i < classes_.names().size() ? str(i, " ", shortened(printable(classes_.names()[i]), 40)) : str(i);
      if (each.size() < kShownNames) each.push_back(str(name, ": ", texts[i]));
      if (texts[i] == 0 && without.size() < kShownNames) without.push_back(name);
    }
    logs::info(str("data: training texts of each class: ", join(each, ", "),
                   texts.size() > kShownNames ? ", ..." : ""));
    if (!without.empty())
      logs::info(str("warning: no training text is of class ", join(without, ", "),
                     options_.validation > 0
                         ? "; data.validation keeps the last records of each file: mix their lines"
                         : "; is model.classes too many?"));
  }

  // Frame tokens stay when texts are cut.
  void row(const Row& of, int64_t at, const std::vector<void*>& fields) const override {
    const bool pair = of.first >= 0;
    const DocumentMaker::Around& around = pair ? pair_ : single_;
    const int64_t frame = around.before + around.between + around.behind,
                  first = pair ? of.first : of.tokens - frame, second = pair ? of.tokens - frame - first : 0;
    const auto [keep, keep_second] = kept_of(first, second, std::max<int64_t>(context_ - frame, 0));
    const int64_t whole[] = {around.before, first, around.between, second, around.behind},
                  kept[] = {around.before, keep, around.between, keep_second, around.behind};
    auto* ids = static_cast<int32_t*>(fields[0]) + at * context_;
    auto* segments = static_cast<int32_t*>(fields[2]) + at * context_;
    std::vector<uint32_t> tokens(context_);
    int64_t from = of.begin, length = 0;
    for (int part = 0; part < 5; from += whole[part++]) {
      const int64_t n = std::min(kept[part], context_ - length);
      files_.stores[of.store].read(from, std::span(tokens).subspan(length, n));
      std::fill_n(segments + length, n, around.segments[part]);
      length += n;
    }
    std::transform(tokens.begin(), tokens.begin() + length, ids,
                   [](uint32_t token) { return static_cast<int32_t>(token); });
    std::fill(ids + length, ids + context_, padding_);
    std::fill(segments + length, segments + context_, 0);
    static_cast<int32_t*>(fields[1])[at] = static_cast<int32_t>(length);
    static_cast<int32_t*>(fields[3])[at] = of.label;
  }

  int64_t context_;
  int32_t padding_;
  DocumentMaker::Around single_, pair_;
  Classes classes_;
  int64_t longer_ = 0, pairs_ = 0;
};
}  // namespace

std::unique_ptr<Samples> label_samples(const DataOptions& options, const std::vector<SampleField>& fields) {
  return std::make_unique<LabelSamples>(options, fields, DocumentMaker(options, RecordKind::labelled));
}

}  // namespace lockstep::launcher::data
