// Rows with several documents: attention separates them, and positions restart in each.
#pragma once

#include "core/ops/tensor.h"

namespace lockstep {

// While an object lives, self-attention layers that this thread traces use its documents, unless their call
// has masks, and models use its positions. Rows are as in data.kind jsonl with data.pack documents.
class DocumentRows {
 public:
  // i32 [B, T] each: the number of the document, the position in it
  DocumentRows(Tensor documents, Tensor positions);
  ~DocumentRows();
  DocumentRows(const DocumentRows&) = delete;

  static bool active();
  static Tensor documents();  // undefined if no object lives; positions() likewise
  static Tensor positions();

 private:
  Tensor documents_, positions_;
  const DocumentRows* before_;
};

}  // namespace lockstep
