// The one header that a backend from outside the tree includes; docs/backend.md tells how to write one.
#pragma once

#include "compiler/codegen/plugin.h"
#include "core/base/error.h"
#include "core/device/device.h"
