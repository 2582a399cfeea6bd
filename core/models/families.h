// The list of model families, one line each, in the order of help and messages. NAME() returns the row, which
// the family's file defines.
#pragma once

#include "core/models/family.h"

// clang-format off
#define LOCKSTEP_FAMILIES(X) \
  X(gpt) \
  X(llama) \
  X(qwen) \
  X(gemma) \
  X(mistral) \
  X(bert) \
  X(bert_classifier) \
  X(t5) \
  X(lstm) \
  X(vit) \
  X(resnet) \
  X(convnext) \
  X(unet) \
  X(mixer) \
  X(dlrm) \
  X(vae) \
  X(dcgan)
// clang-format on

namespace lockstep::models {

#define LOCKSTEP_FAMILY_ROW(name) const Family& name();
LOCKSTEP_FAMILIES(LOCKSTEP_FAMILY_ROW)
#undef LOCKSTEP_FAMILY_ROW

}  // namespace lockstep::models
