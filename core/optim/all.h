// The list of optimizers in the order of help and messages: headers, and one line each with the name in a
// config, the class, and the options, whose members name the config keys.
#pragma once

#include "core/optim/adafactor.h"
#include "core/optim/adagrad.h"
#include "core/optim/adamw.h"
#include "core/optim/lion.h"
#include "core/optim/muon.h"
#include "core/optim/rmsprop.h"
#include "core/optim/rowwise_adagrad.h"
#include "core/optim/sgd.h"
#include "core/optim/sparse_adam.h"

// clang-format off
#define LOCKSTEP_OPTIMIZERS(X) \
  X(adamw, AdamW, AdamWOptions) \
  X(sgd, Sgd, SgdOptions) \
  X(lion, Lion, LionOptions) \
  X(rmsprop, Rmsprop, RmspropOptions) \
  X(adagrad, Adagrad, AdagradOptions) \
  X(sparse_adam, SparseAdam, SparseAdamOptions) \
  X(rowwise_adagrad, RowwiseAdagrad, AdagradOptions) \
  X(muon, Muon, MuonOptions) \
  X(adafactor, Adafactor, AdafactorOptions)
// clang-format on
