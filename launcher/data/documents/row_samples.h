// RowSamples: the common base of labelled texts and pairs; builds rows of documents on request.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "launcher/data/documents/document_files.h"
#include "launcher/data/order.h"
#include "launcher/data/samples.h"

namespace lockstep::launcher::data {

// `Row` is the position of a document in its store. A derived class adds its rows in its constructor and
// fills one row.
template <class Row>
class RowSamples : public Samples {
 public:
  int64_t validation() const override { return static_cast<int64_t>(validation_.size()); }
  void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count,
            const std::vector<void*>& fields) const override {
    const auto rows = static_cast<int64_t>(train_.size());
    for (int64_t i = 0; i < count; ++i)
      row(train_[sequence_of(step * global_batch + first + i, rows, options_.order == "shuffle",
                             options_.seed)],
          i, fields);
  }
  void fill_validation(int64_t first, int64_t count, const std::vector<void*>& fields) const override {
    for (int64_t i = 0; i < count; ++i) row(validation_[first + i], i, fields);
  }
  const std::vector<DataFile>& contents() const override { return files_.contents; }
  const std::string& fingerprint() const override { return files_.fingerprint; }
  const std::string& read_as() const override { return files_.read_as; }
  std::string chat_template() const override { return files_.chat_template; }
  std::vector<std::string> changed() const override { return {}; }  // it reads its own stores
  std::pair<std::string, std::string> counts() const override {
    return {rows_, str(train_.size(), " for training, ", validation_.size(), " for validation")};
  }

 protected:
  // `rows`: their name in messages, "texts".
  RowSamples(const DataOptions& options, DocumentMaker& maker, std::string rows)
      : options_(options), files_(options, maker), rows_(std::move(rows)) {}
  // Writes the row of a document at index `at` of a batch's fields.
  virtual void row(const Row& of, int64_t at, const std::vector<void*>& fields) const = 0;
  // add(store, begin, end, rows) for each document, with the training rows or the validation's.
  template <class Add>
  void each_document(const Add& add) {
    for (const auto& [store, starts, kept] : files_.ranges(options_.validation))
      for (size_t i = 0; i + 1 < starts.size(); ++i)
        add(store, starts[i], starts[i + 1], static_cast<int64_t>(i) < kept ? train_ : validation_);
  }
  // The last log line about the data, once all rows exist.
  void tell(const DocumentMaker& maker) const {
    files_.tell(options_, maker,
                str(train_.size(), " training ", rows_, ", ", validation_.size(), " validation ", rows_),
                validation());
  }

  DataOptions options_;
  DocumentFiles files_;
  std::vector<Row> train_, validation_;

 private:
  std::string rows_;
};

}  // namespace lockstep::launcher::data
