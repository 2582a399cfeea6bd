// Token files of another form than they are read in: nothing in such a file says what it is, but its bytes
// do.
#pragma once

#include <string>

#include "launcher/data/source.h"

namespace lockstep::launcher::data {

// Of stored tokens without a header: why they are none of `source.width` bytes, with the way out; "" where
// nothing speaks against it. Looked at are the first 4096 tokens, and as many at four other places: wider
// tokens whose halves are read as tokens of their own (each second one is 0, or tiny, or that of a negative
// number), bytes in the other order, floats, files of other formats, and text. Then 512 at each of 64 places,
// for a part of the file that is wider, or narrower: ids of `vocab` and more, each of two tokens of uint16.
std::string token_form_error(const Source& source, int64_t vocab);

}  // namespace lockstep::launcher::data
