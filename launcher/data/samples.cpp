// TokenSamples: rows of tokens as samples.
#include "launcher/data/samples.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/data/dataset.h"

namespace lockstep::launcher::data {

std::string text(const SampleField& field) {
  return str(field.name, " ", shape_text(field.dtype, field.shape));
}

namespace {
const SampleField* find(const std::vector<SampleField>& fields, std::string_view name) {
  auto found =
      std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}
int64_t tokens_of(const std::vector<SampleField>& fields, std::string_view name) {
  const SampleField* field = find(fields, name);
  return field ? field->shape[0] : 0;
}

class TokenSamples : public Samples {
 public:
  TokenSamples(const DataOptions& options, std::vector<SampleField> fields)
      : fields_(std::move(fields)),
        context_(options.context),
        source_(tokens_of(fields_, "decoder_ids") ? tokens_of(fields_, "ids") : 0),
        dataset_(options) {}

  int64_t validation() const override { return dataset_.validation_sequences(); }
  void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count,
            const std::vector<void*>& fields) const override {
    lay(count, fields, [&](int32_t* ids, int32_t* targets) {
      dataset_.fill(step, global_batch, first, count, ids, targets);
    });
  }
  void fill_validation(int64_t first, int64_t count, const std::vector<void*>& fields) const override {
    lay(count, fields,
        [&](int32_t* ids, int32_t* targets) { dataset_.fill_validation(first, count, ids, targets); });
  }
  const std::vector<DataFile>& contents() const override { return dataset_.contents(); }
  const std::string& fingerprint() const override { return dataset_.fingerprint(); }
  const std::string& read_as() const override { return dataset_.read_as(); }
  std::vector<std::string> changed() const override { return dataset_.changed(); }
  std::pair<std::string, std::string> counts() const override {
    return {"tokens",
            str(dataset_.tokens(), " for training, ", dataset_.validation_tokens(), " for validation")};
  }

 private:
  template <class Read>
  void lay(int64_t count, const std::vector<void*>& fields, const Read& read) const {
    auto at = [&](size_t i) { return static_cast<int32_t*>(fields[i]); };
    if (fields_.size() == 2 && fields_[0].name == "ids" && fields_[1].name == "targets")
      return read(at(0), at(1));
    std::vector<int32_t> ids(count * context_), targets(ids.size());
    read(ids.data(), targets.data());
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].zeros) {
        std::fill_n(at(i), count * fields_[i].shape[0], 0);
        continue;
      }
      const auto& from = fields_[i].name == "targets" ? targets : ids;
      const int64_t begin = source_ && fields_[i].name != "ids" ? source_ - 1 : 0, n = fields_[i].shape[0];
      for (int64_t s = 0; s < count; ++s) std::copy_n(from.data() + s * context_ + begin, n, at(i) + s * n);
    }
  }

  std::vector<SampleField> fields_;
  int64_t context_;
  int64_t source_;  // tokens before those of a decoder; 0: no decoder
  Dataset dataset_;
};
}  // namespace

std::unique_ptr<Samples> token_samples(DataOptions options, const std::vector<SampleField>& fields) {
  for (const auto& field : fields) {
    const bool known =
        field.name == "ids" || field.name == "targets" || field.name == "decoder_ids" || field.zeros;
    if (known && field.dtype == DType::i32 && field.shape.size() == 1) continue;
    std::vector<std::string> all;
    for (const auto& each : fields) all.push_back(text(each));
    throw UserError(str("data.kind is ", options.kind,
                        ", rows of tokens, and a sample of this model and task has ", join(all, ", "),
                        "; choose data.kind arrays and name a file for each in data.paths: ", fields[0].name,
                        ".npy, ..."));
  }
  const int64_t target = tokens_of(fields, "decoder_ids");
  options.context = target ? tokens_of(fields, "ids") + target - 1 : tokens_of(fields, "ids");
  return std::make_unique<TokenSamples>(options, fields);
}

}  // namespace lockstep::launcher::data
