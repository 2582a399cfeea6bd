// Detects token files with another format than configured. Such files have no header, but their bytes give it
// away.
#pragma once

#include <string>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

// For stored tokens without a header: why they are not of `source.width` bytes, with the way out; "" if
// nothing contradicts it. First checks 4096 tokens at the start and at four other places for: wider tokens
// read as two (every second value is 0, tiny, or from a negative number), the other byte order, floats, other
// file formats, and text. Then checks 512 tokens at each of 64 places for a part with wider or narrower
// tokens: ids of `vocab` or more that are each two uint16 tokens.
std::string token_form_error(const Source& source, int64_t vocab);

}  // namespace lockstep::launcher::data
