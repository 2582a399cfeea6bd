// Samples: what a step is fed, by the names of the batch's fields, whatever the files are.
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
  int64_t below = 0;   // integers lie in [0, below), or are -100, which counts nothing; 0: any
  bool zeros = false;  // arrays may lack it, and then it is zeros
  bool input = false;  // a model reads it, so that -100 is none of its numbers
};
std::string text(const SampleField& field);  // "images f32[3,32,32]"

// Training samples and validation samples. Filling is const and safe from several threads.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual int64_t validation() const = 0;  // samples
  // Samples first ... first + count - 1 of a step, of fields in their order: [count, shape...] each. Sample g
  // = step * global_batch + i is read as Dataset says.
  virtual void fill(int64_t step, int64_t global_batch, int64_t first, int64_t count,
                    const std::vector<void*>& fields) const = 0;
  virtual void fill_validation(int64_t first, int64_t count, const std::vector<void*>& fields) const = 0;

  // What the sample is called: "row 7 of x.npy"; "" where it has no name. Of a step as in fill; of
  // validation.
  virtual std::string name(int64_t /*step*/, int64_t /*global_batch*/, int64_t /*sample*/) const {
    return "";
  }
  virtual std::string validation_name(int64_t /*sample*/) const { return ""; }
  // Names of the classes that labels stand for, in their order; empty: labels are numbers, or there are none.
  virtual std::vector<std::string> class_names() const { return {}; }

  // The name of the template of conversations that are among the records; "": there are none.
  virtual std::string chat_template() const { return ""; }

  // As Dataset's.
  virtual const std::vector<DataFile>& contents() const = 0;
  virtual const std::string& fingerprint() const = 0;
  virtual const std::string& read_as() const = 0;
  virtual std::vector<std::string> changed() const = 0;
  // What is counted, and how many: {"tokens", "900 for training, 100 for validation"}.
  virtual std::pair<std::string, std::string> counts() const = 0;
};

// Kinds text and tokens: rows of tokens as "ids", "targets" (one further), and, behind ids of S tokens,
// "decoder_ids" (from token S - 1 on) with their targets; zeros for a field that may lack. UserError as
// Dataset, and for another field.
std::unique_ptr<Samples> token_samples(DataOptions options, const std::vector<SampleField>& fields);

// A file NAME.npy for each field, of as many samples each along its first dim: numbers of numpy's plain
// types. Floats are read into f32, u1 as value / 255; integers and booleans into i32. Of n samples the last
// round(n * validation) are kept for validation. UserError for a file that is missing, no such array, of
// other shapes or counts, in Fortran's order, or with an integer outside its field's range, which names file
// and sample.
std::unique_ptr<Samples> array_samples(const DataOptions& options, const std::vector<SampleField>& fields);

}  // namespace lockstep::launcher::data
