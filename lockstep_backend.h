// The one header that a backend from outside the tree includes. ARCHITECTURE.md, "Writing a backend", tells
// how to write one.
#pragma once

#include "compiler/codegen/plugin.h"
#include "core/base/error.h"
#include "core/device/device.h"
