// Mixture: computes shares, the table of a period, and the samples that it names.
#include "launcher/data/kinds/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace lockstep::launcher::data {

Mixture::Mixture(const std::vector<double>& weights) {
  double all = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0) || !std::isfinite(weights[i]))
      throw UserError(str("data.sources[", i, "]: weight is ", number_text(weights[i]),
                          "; give a number above 0, or leave the source out"));
    all += weights[i];
  }
  // Largest remainder method: each source gets the integer part of its share, and the samples that are left
  // go to the largest fractions.
  std::vector<std::pair<double, size_t>> rest;
  int64_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / all * kPeriod;
    share_.push_back(static_cast<int64_t>(exact));
    given += share_.back();
    rest.push_back({exact - std::floor(exact), i});
  }
  std::stable_sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; given < kPeriod; ++i, ++given) ++share_[rest[i % rest.size()].second];
  for (size_t i = 0; i < weights.size(); ++i)
    if (share_[i] == 0)
      throw UserError(str("data.sources[", i, "]: weight is ", number_text(weights[i]), " of ",
                          number_text(all), " in all, less than one sample of ", kPeriod,
                          "; raise it, or leave the source out"));
  // Sample o of a source is placed at (o + 1/2) / share of the period.
  std::vector<std::pair<double, int32_t>> order;
  for (size_t i = 0; i < share_.size(); ++i)
    for (int64_t o = 0; o < share_[i]; ++o)
      order.push_back(
          {(static_cast<double>(o) + 0.5) / static_cast<double>(share_[i]), static_cast<int32_t>(i)});
  std::sort(order.begin(), order.end());
  std::vector<int32_t> next(share_.size(), 0);
  for (const auto& [time, source] : order) table_.push_back({source, next[source]++});
}

Mixture::Place Mixture::at(int64_t sample) const {
  const auto [source, index] = table_[sample % kPeriod];
  return {source, sample / kPeriod * share_[source] + index};
}

namespace {
class MixedSamples : public Samples {
 public:
  MixedSamples(const DataOptions& options, const std::vector<SampleField>& fields,
               const OpenSamples& open_source)
      : mixture_(weights_of(options)) {
    for (const auto& field : fields) bytes_.push_back(bytes_of(field.dtype, field.shape));
    std::string all, read;
    for (size_t i = 0; i < options.sources.size(); ++i) {
      open(options, i, fields, open_source);
      all += str(sources_[i]->fingerprint(), " ", mixture_.share(i), "\n");
      for (auto file : sources_[i]->contents()) {
        file.name = str(i, "/", file.name);
        contents_.push_back(file);
      }
      if (i == 0) read_as_ = sources_[i]->read_as();
      if (sources_[i]->read_as() != read_as_) read_as_ = "read whole or in blocks, each source by its size";
      logs::info(str("data.sources[", i, "]: ", mixture_.share(i), " of ", Mixture::kPeriod, " samples"));
    }
    fingerprint_ = hash_hex(all);
    set_validation(options);
  }

  int64_t validation() const override { return kept_; }
  void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count,
            const std::vector<void*>& fields) const override {
    for (int64_t i = 0; i < count; ++i) {
      const Mixture::Place place = mixture_.at(step * global_batch + first + i);
      sources_[place.source]->fill(place.index, 1, 0, 1, at(fields, i));
    }
  }
  void fill_validation(int64_t first, int64_t count, const std::vector<void*>& fields) const override {
    for (int64_t i = 0; i < count; ++i) {
      const Mixture::Place place = validating_->at(first + i);
      sources_[keeping_[place.source]]->fill_validation(place.index, 1, at(fields, i));
    }
  }
  std::string name(int64_t step, int64_t global_batch, int64_t sample) const override {
    const Mixture::Place place = mixture_.at(step * global_batch + sample);
    return of_source(static_cast<size_t>(place.source), sources_[place.source]->name(place.index, 1, 0));
  }
  std::string validation_name(int64_t sample) const override {
    const Mixture::Place place = validating_->at(sample);
    const size_t source = keeping_[place.source];
    return of_source(source, sources_[source]->validation_name(place.index));
  }
  std::vector<std::string> class_names() const override { return classes_; }
  std::string chat_template() const override {
    for (const auto& source : sources_)
      if (std::string name = source->chat_template(); !name.empty()) return name;
    return "";
  }
  const std::vector<DataFile>& contents() const override { return contents_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  const std::string& read_as() const override { return read_as_; }
  std::vector<std::string> changed() const override {
    std::vector<std::string> out;
    for (const auto& source : sources_)
      for (auto& path : source->changed()) out.push_back(path);
    return out;
  }
  std::pair<std::string, std::string> counts() const override {
    std::vector<std::string> each;
    for (const auto& source : sources_) each.push_back(source->counts().second);
    return {sources_[0]->counts().first, join(each, "; ")};
  }

 private:
  static std::string of_source(size_t source, const std::string& name) {
    return name.empty() ? "" : str(name, " of data.sources[", source, "]");
  }
  static std::vector<double> weights_of(const DataOptions& options) {
    std::vector<double> out;
    for (const auto& source : options.sources) out.push_back(source.weight);
    return out;
  }

  void open(const DataOptions& options, size_t i, const std::vector<SampleField>& fields,
            const OpenSamples& open_source) {
    const DataSource& source = options.sources[i];
    DataOptions own = options;
    own.sources.clear();
    own.of_several = true;
    own.paths = source.paths;
    own.seed = hash64(str("data.sources ", i), options.seed);
    for (auto [from, to] : {std::pair{&source.text_key, &own.text_key},
                            {&source.prompt_key, &own.prompt_key},
                            {&source.completion_key, &own.completion_key},
                            {&source.messages_key, &own.messages_key},
                            {&source.label_key, &own.label_key},
                            {&source.pair_key, &own.pair_key}})
      if (!from->empty()) *to = *from;
    try {
      sources_.push_back(open_source(own, fields));
    } catch (const UserError& error) { throw UserError(str("data.sources[", i, "]: ", error.what())); }
    join_classes(i, sources_.back()->class_names());
  }
  // All sources must have the same classes.
  void join_classes(size_t source, const std::vector<std::string>& names) {
    for (size_t c = 0; c < std::min(names.size(), classes_.size()); ++c)
      if (names[c] != classes_[c])
        throw UserError(str("data.sources[", source, "]: class ", c, " is \"",
                            shortened(printable(names[c]), 60), "\", and in the sources before it is \"",
                            shortened(printable(classes_[c]), 60),
                            "\"; name all folders in data.paths, which makes one set of classes of them, or "
                            "give each source the same classes"));
    if (names.size() > classes_.size()) classes_ = names;
  }

  void set_validation(const DataOptions& options) {
    std::vector<double> weights;
    for (size_t i = 0; i < sources_.size(); ++i)
      if (sources_[i]->validation() > 0) keeping_.push_back(i), weights.push_back(options.sources[i].weight);
    if (keeping_.empty()) return;
    validating_ = std::make_unique<Mixture>(weights);
    for (bool there = true; there;) {
      const Mixture::Place place = validating_->at(kept_);
      there = place.index < sources_[keeping_[place.source]]->validation();
      kept_ += there;
    }
  }

  std::vector<void*> at(const std::vector<void*>& fields, int64_t sample) const {
    std::vector<void*> out;
    for (size_t f = 0; f < fields.size(); ++f)
      out.push_back(static_cast<std::byte*>(fields[f]) + sample * bytes_[f]);
    return out;
  }

  Mixture mixture_;
  std::vector<int64_t> bytes_;  // of a sample's fields
  std::vector<std::unique_ptr<Samples>> sources_;
  std::unique_ptr<Mixture> validating_;  // of the sources that hold out samples
  std::vector<size_t> keeping_;
  int64_t kept_ = 0;
  std::vector<DataFile> contents_;
  std::vector<std::string> classes_;
  std::string fingerprint_, read_as_;
};
}  // namespace

std::unique_ptr<Samples> mixed_samples(const DataOptions& options, const std::vector<SampleField>& fields,
                                       const OpenSamples& open_source) {
  return std::make_unique<MixedSamples>(options, fields, open_source);
}

}  // namespace lockstep::launcher::data
