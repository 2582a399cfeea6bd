// Samples: the input of a step, by the names of the batch's fields, for all kinds of files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/types/dtype.h"
#include "core/types/shape.h"
#include "launcher/data/options.h"

namespace lockstep::launcher::data {

// A field of the batch: f32 or i32, and the shape of a sample.
struct SampleField {
  std::string name;
  DType dtype;
  Shape shape;
  int64_t below = 0;   // integers are in [0, below), or -100, which is ignored; 0: any
  bool zeros = false;  // if arrays lack it, it is zeros
  bool input = false;  // a model reads it, so that -100 is not allowed
};
std::string text(const SampleField& field);  // "images f32[3,32,32]"

// Training and validation samples. Filling is const and thread-safe.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual int64_t validation() const = 0;  // samples
  // Fills samples first ... first + count - 1 of a step, field by field: [count, shape...] each. Sample g =
  // step * global_batch + i is chosen as in Dataset.
  virtual void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count,
                    const std::vector<void*>& fields) const = 0;
  virtual void fill_validation(int64_t first, int64_t count, const std::vector<void*>& fields) const = 0;

  // The name of a sample: "row 7 of x.npy"; "" if it has none. For a step as in fill; for validation.
  virtual std::string name(int64_t /*step*/, int64_t /*global_batch*/, int64_t /*sample*/) const {
    return "";
  }
  virtual std::string validation_name(int64_t /*sample*/) const { return ""; }
  // Class names in order; empty: labels are numbers, or there are no labels.
  virtual std::vector<std::string> class_names() const { return {}; }

  // The chat template of the conversations among the records; "": none.
  virtual std::string chat_template() const { return ""; }

  // As Dataset's.
  virtual const std::vector<DataFile>& contents() const = 0;
  virtual const std::string& fingerprint() const = 0;
  virtual const std::string& read_as() const = 0;
  virtual std::vector<std::string> changed() const = 0;
  // The unit and the counts: {"tokens", "900 for training, 100 for validation"}.
  virtual std::pair<std::string, std::string> counts() const = 0;
};

// Kinds text and tokens: rows of tokens as "ids" and "targets" (shifted by one). With a decoder, after S
// tokens of ids, "decoder_ids" (from token S - 1 on) with their targets. An optional field is zeros.
// UserError as Dataset, and for another field.
std::unique_ptr<Samples> token_samples(DataOptions options, const std::vector<SampleField>& fields);

// A file NAME.npy for each field, of as many samples each along its first dim: numbers of numpy's plain
// types. Floats are read into f32, u1 as value / 255; integers and booleans into i32. The last round(n *
// validation) of n samples are held out for validation. UserError for a file that is missing, is not such an
// array, has other shapes or counts, is in Fortran order, or has an integer outside its field's range (naming
// file and sample).
std::unique_ptr<Samples> array_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
