// Keeps the innermost DocumentRows of each thread.
#include "core/nn/document_rows.h"

#include <utility>

namespace lockstep {

namespace {
thread_local const DocumentRows* innermost = nullptr;
}

DocumentRows::DocumentRows(Tensor documents, Tensor positions)
    : documents_(documents), positions_(positions), before_(std::exchange(innermost, this)) {}
DocumentRows::~DocumentRows() { innermost = before_; }
bool DocumentRows::active() { return innermost; }
Tensor DocumentRows::documents() { return innermost ? innermost->documents_ : Tensor{}; }
Tensor DocumentRows::positions() { return innermost ? innermost->positions_ : Tensor{}; }

}  // namespace lockstep
