// Rows that hold several documents: attention keeps them apart, and positions begin anew in each.
#pragma once

#include "core/ops/tensor.h"

namespace lockstep {

// While it lives, self-attention layers that are traced on this thread take its documents where their call
// names no masks, and models its positions. Rows are as in data.kind jsonl with data.pack documents.
class DocumentRows {
 public:
  DocumentRows(Tensor documents, Tensor positions);  // i32 [B, T] each: a document's number; from 0 in each
  ~DocumentRows();
  DocumentRows(const DocumentRows&) = delete;

  static bool active();
  static Tensor documents();  // undefined where none is alive, as positions
  static Tensor positions();

 private:
  Tensor documents_, positions_;
  const DocumentRows* before_;
};

}  // namespace lockstep
