// Samples of a file, and the signs.
#include "launcher/data/token_form.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/base/error.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kTokens = 4096, kFewest = 32, kPlaces = 5;
constexpr uint32_t kTiny = 15;  // what is left of an id below 2^20 above its lowest two bytes

struct Format {
  std::string_view begin;
  const char* name;
};
constexpr Format kFormats[] = {
    {"\x93NUMPY", "a NumPy array (.npy)"},
    {std::string_view("PK\x03\x04", 4), "an archive (.zip, .npz, .pt)"},
    {"\x1f\x8b\x08", "compressed by gzip"},
    {"\x28\xb5\x2f\xfd", "compressed by zstd"},
    {std::string_view("\xfd\x37zXZ\0", 6), "compressed by xz"},
    {"PAR1", "a Parquet table"},
    {"ARROW1", "an Arrow table"},
    {"\x89HDF", "a file of HDF5"},
};

// Bytes of a few places, each a multiple of 16 from the beginning of the file.
std::vector<std::byte> sampled(const Source& source) {
  const int64_t size = source.bytes.size(), each = kTokens * source.width;
  std::vector<std::byte> out;
  int64_t done = 0;
  for (int64_t place = 0; place < kPlaces; ++place) {
    const int64_t from = std::max(done, (size - each) / (kPlaces - 1) * place / 16 * 16);
    const int64_t bytes = std::min(each, size - from) / 16 * 16;
    if (bytes <= 0) break;
    const size_t begin = out.size();
    out.resize(begin + static_cast<size_t>(bytes));
    source.bytes.read(from, out.data() + begin, bytes);
    done = from + bytes;
  }
  return out;
}

// The largest of the tokens whose number is `first`, `first` + `step`, ...
template <class Token>
uint32_t largest(const std::vector<Token>& tokens, size_t first, size_t step) {
  uint32_t out = 0;
  for (size_t i = first; i < tokens.size(); i += step) out = std::max<uint32_t>(out, tokens[i]);
  return out;
}
// Whether there are three of them: a file of two, 0 and another one, says too little.
template <class Token>
bool varied(const std::vector<Token>& tokens) {
  std::vector<Token> seen;
  for (Token token : tokens) {
    if (std::find(seen.begin(), seen.end(), token) == seen.end()) seen.push_back(token);
    if (seen.size() > 2) return true;
  }
  return false;
}
template <class Token>
std::vector<Token> tokens_of(const std::vector<std::byte>& bytes) {
  std::vector<Token> out(bytes.size() / sizeof(Token));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(Token));
  return out;
}

bool is_text(const std::vector<std::byte>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte one) {
    const auto c = static_cast<unsigned char>(one);
    return (c >= 32 && c < 127) || c == '\n' || c == '\r' || c == '\t';
  });
}

// Why the bytes look like tokens of other widths or of the other order; "" for no reason.
std::string other_width(const std::vector<std::byte>& bytes, int width, const std::string& path) {
  auto anew = [&](const char* dtype) {
    return str(
        "; only uint16 and uint32 are read, in the order of x86: write it anew, as with python3 -c 'import "
        "numpy; numpy.fromfile(\"",
        path, "\", \"", dtype, "\").astype(\"uint32\").tofile(\"tokens.bin\")' and data.dtype uint32");
  };
  const std::string as = str(" (data.dtype uint", 8 * width, ")");
  if (width == 4) {
    const auto words = tokens_of<uint32_t>(bytes);
    if (!varied(words)) return "";
    const uint32_t low = largest(words, 0, 2), high = largest(words, 1, 2);
    if (low > 0 && high == 0)
      return str("each second token is 0", as, ", as in a file of int64", anew("<i8"));
    if (low == 0 && high > 0)
      return str("each second token is 0", as, ", as in a file of int64 in the other byte order",
                 anew(">i8"));
    return "";
  }
  const auto words = tokens_of<uint16_t>(bytes);
  if (!varied(words)) return "";
  const std::array<uint32_t, 4> most = {largest(words, 0, 4), largest(words, 1, 4), largest(words, 2, 4),
                                        largest(words, 3, 4)};
  auto tiny = [&](uint32_t high, uint32_t low) {
    return low > 0 && (high == 0 || (high <= kTiny && low > 255));
  };
  if (most[2] == 0 && most[3] == 0 && tiny(most[1], most[0]))
    return str("three of four tokens are 0", as, ", as in a file of int64", anew("<i8"));
  if (most[0] == 0 && most[1] == 0 && (most[2] > 0 || most[3] > 0))
    return str("two of four tokens are 0", as, ", as in a file of int64 in the other byte order",
               anew(">i8"));
  const uint32_t low = std::max(most[0], most[2]), high = std::max(most[1], most[3]);
  if (tiny(high, low))
    return str("each second token is ", high == 0 ? "0" : "tiny", as,
               ", as in a file of uint32 or int32; set data.dtype to uint32");
  if (low == 0 && high > 0)
    return str("each second token is 0", as, ", as in a file of uint32 in the other byte order", anew(">u4"));
  if (std::all_of(words.begin(), words.end(), [](uint16_t word) { return (word & 255) == 0; }) && low > 0)
    return str("all tokens are multiples of 256", as, ", as in a file of uint16 in the other byte order",
               anew(">u2"));
  return "";
}
}  // namespace

std::string token_form_error(const Source& source) {
  if (source.header > 0 || source.tokens == 0) return "";
  const std::vector<std::byte> head = source.head(64), bytes = sampled(source);
  const std::string_view begin(reinterpret_cast<const char*>(head.data()), head.size());
  std::string why;
  for (const Format& format : kFormats)
    if (begin.starts_with(format.begin))
      why = str("the file is ", format.name, "; write its tokens alone, as numpy's tofile does");
  if (why.empty() && begin.size() > 10 && begin.substr(8, 2) == "{\"")
    why = "the file is of safetensors; write its tokens alone, as numpy's tofile does";
  if (why.empty() && bytes.size() >= static_cast<size_t>(kFewest * source.width))
    why = is_text(bytes) ? "all bytes are those of text; read it with data.kind text, or jsonl"
                         : other_width(bytes, source.width, source.path);
  return why.empty() ? ""
                     : str("data.paths: ", source.path, ": ", why,
                           ". To read it as it is all the same, say so with data.raw=true");
}

}  // namespace lockstep::launcher::data
