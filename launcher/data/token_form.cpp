// Checks samples of a token file for signs of another format.
#include "launcher/data/token_form.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>
#include <tuple>

#include "core/base/error.h"

namespace lockstep::launcher::data {

namespace {
constexpr int64_t kTokens = 4096, kFewest = 32, kPlaces = 5;
constexpr int64_t kMostId = 1 << 20, kNoId = 1 << 15;  // bounds of plausible and implausible ids

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

// Bytes at a few offsets, each a multiple of 16.
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

template <class Number>
std::vector<Number> numbers(const std::vector<std::byte>& bytes) {
  std::vector<Number> out(bytes.size() / sizeof(Number));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(Number));
  return out;
}
// Swaps the byte order of numbers of `width` bytes.
std::vector<std::byte> turned(std::vector<std::byte> bytes, int width) {
  for (auto at = bytes.begin(); at != bytes.end(); at += width) std::reverse(at, at + width);
  return bytes;
}
// Whether at least three different values occur: 0 and one other value prove too little.
template <class Number>
bool varied(const std::vector<Number>& all) {
  std::vector<Number> seen;
  for (Number one : all) {
    if (std::find(seen.begin(), seen.end(), one) == seen.end()) seen.push_back(one);
    if (seen.size() > 2) return true;
  }
  return false;
}
// Whether all are ids or markers of none (-1, -100), and enough of them exceed the narrower type.
struct Ids {
  bool are = false, negative = false, large = false;  // beyond 16 bits
};
template <class Number>
Ids ids_among(const std::vector<Number>& all) {
  Ids out{.are = varied(all)};
  bool low = false, positive = false;
  for (Number one : all) {
    out.are = out.are && one >= -kNoId && one < kMostId;
    out.negative |= one < 0, out.large |= one > 0xffff;
    low |= one > 0 && (one & 0xff00) != 0, positive |= one > 0;
  }
  out.are = out.are && positive && (low || !out.large);
  return out;
}
// Whether all are whole numbers.
template <class Number>
bool whole_floats(const std::vector<std::byte>& bytes) {
  const auto all = numbers<Number>(bytes);
  return varied(all) && std::all_of(all.begin(), all.end(), [](Number one) {
           return std::abs(one) < (1 << 24) && one == std::trunc(one);
         });
}
bool whole_halves(const std::vector<std::byte>& bytes) {
  const auto all = numbers<uint16_t>(bytes);
  bool fine = false;  // some value has mantissa bits below 1, all of which are 0
  for (uint16_t bits : all) {
    const int exponent = bits >> 10, below = 25 - exponent;  // of the mantissa's bits, those below 1
    if (exponent > 30 || (bits != 0 && (exponent < 15 || (below > 0 && (bits & ((1 << below) - 1)) != 0))))
      return false;
    fine |= bits != 0 && below > 0;
  }
  return fine && varied(all);
}

template <class Number>
bool is_text(const std::vector<Number>& all) {
  return std::all_of(all.begin(), all.end(), [](Number one) {
    const auto c = static_cast<uint32_t>(one);
    return (c >= 32 && c < 127) || c == '\n' || c == '\r' || c == '\t';
  });
}
// UTF-16 text after its byte order mark, with one byte per character.
bool is_utf16(const std::vector<std::byte>& bytes) {
  auto all = numbers<uint16_t>(bytes);
  if (all[0] == 0xfeff) all.erase(all.begin());
  return is_text(all) && std::find(all.begin(), all.end(), ' ') != all.end();
}

// Why the bytes look like numbers of another width, byte order or type; "" if they do not.
std::string other_width(const std::vector<std::byte>& bytes, int width, const std::string& path) {
  auto anew = [&](const char* dtype) {
    return str(
        "; only uint16 and uint32 are read, in the order of x86: write it anew, as with python3 -c 'import "
        "numpy; numpy.fromfile(\"",
        path, "\", \"", dtype, "\").astype(\"uint32\").tofile(\"tokens.bin\")' and data.dtype uint32");
  };
  const std::string as = str(" (data.dtype uint", 8 * width, ")");
  const std::tuple<const char*, const char*, bool> floats[] = {
      {"float64", "<f8", whole_floats<double>(bytes)},
      {"float32", "<f4", whole_floats<float>(bytes)},
      {"float16", "<f2", whole_halves(bytes)}};
  for (const auto& [name, dtype, are] : floats)
    if (are) return str("the bytes are whole numbers of ", name, as, anew(dtype));
  for (int wide : {8, 4})
    for (bool other : {false, true}) {
      if (wide == width && !other) continue;
      const auto all = other ? turned(bytes, wide) : bytes;
      const Ids found = wide == 8 ? ids_among(numbers<int64_t>(all)) : ids_among(numbers<int32_t>(all));
      if (!found.are) continue;
      const std::string most = str(width == 2 ? "65535" : "4294967295");
      const std::string what = wide == width ? "all tokens are multiples of 256"
                               : wide == 2 * width
                                   ? str("each second token is ", found.negative              ? "0 or " + most
                                                                  : found.large && width == 2 ? "tiny"
                                                                                              : "0")
                                   : str("three of four tokens are 0", found.negative ? " or " + most : "");
      const std::string type = wide == 8        ? "int64"
                               : found.negative ? "int32"
                               : other          ? "uint32"
                                                : "uint32 or int32";
      const std::string like =
          str(what, as, ", as in a file of ", type, other ? " in the other byte order" : "");
      if (found.negative)
        return str(like,
                   " with negative numbers, which are no tokens; write it anew without them, as numpy's "
                   "tofile does of uint32");
      return like + (wide == 4 && !other ? "; set data.dtype to uint32"
                                         : anew(wide == 8 ? (other ? ">i8" : "<i8") : ">u4"));
    }
  if (is_utf16(bytes))
    return "all tokens are characters of text, as in a file of UTF-16; write it as UTF-8 (iconv -f utf-16 -t "
           "utf-8), and read it with data.kind text";
  if (width == 4) return "";
  const auto words = numbers<uint16_t>(bytes);
  if (varied(words) &&
      std::all_of(words.begin(), words.end(), [](uint16_t word) { return (word & 255) == 0; }))
    return str("all tokens are multiples of 256", as, ", as in a file of uint16 in the other byte order",
               anew(">u2"));
  return "";
}

// Detects tokens of twice the width. Their upper halves, which are all the even or all the odd values, are 0
// or small (ids below 2^18); their lower halves vary.
bool are_halves(const std::vector<uint32_t>& tokens, uint32_t most) {
  constexpr size_t kKinds = 16;
  for (size_t upper : {1, 0}) {
    std::set<uint32_t> lower;
    bool zero = false, halves = true;
    for (size_t i = 0; i < tokens.size() && halves; ++i) {
      if (i % 2 != upper && lower.size() < kKinds) lower.insert(tokens[i]);
      if (i % 2 == upper) halves = tokens[i] <= most, zero |= tokens[i] == 0;
    }
    if (halves && zero && lower.size() == kKinds) return true;
  }
  return false;
}

// Finds where a file changes its width: joined files, each of which is fine.
class Parts {
 public:
  Parts(const Source& source, int64_t vocab)
      : source_(source), vocab_(vocab), bytes_(kPart * source.width), own_(str("uint", 8 * source.width)) {}

  // "" if it does not. Two consecutive samples must have the other width.
  std::string mixed() const {
    const int64_t parts = source_.bytes.size() / bytes_, step = std::max<int64_t>(1, parts / kLooked);
    std::string first, last;
    int64_t same = 0;  // the last sample that looks like the first one
    for (int64_t part = 0; part < parts; part += step) {
      const std::string is = look(part);
      if (is.empty()) continue;
      if (first.empty()) first = is;
      if (is == first) same = part;
      if (is != first && is == last) return told(border(first, same, part), first, is);
      last = is;
    }
    return "";
  }

 private:
  static constexpr int64_t kPart = 512, kLooked = 64;

  // The type that a sample's tokens look like; "" if they fit any, such as padding.
  std::string look(int64_t part) const {
    std::vector<std::byte> bytes(static_cast<size_t>(bytes_));
    source_.bytes.read(part * bytes_, bytes.data(), bytes_);
    std::vector<uint32_t> tokens;
    if (source_.width == 2)
      for (uint16_t token : numbers<uint16_t>(bytes)) tokens.push_back(token);
    else
      tokens = numbers<uint32_t>(bytes);
    const auto beyond =
        std::count_if(tokens.begin(), tokens.end(), [&](uint32_t token) { return token >= vocab_; });
    if (source_.width == 4 && beyond > 0) return beyond > kPart / 2 ? "uint16" : "";
    if (!are_halves(tokens, source_.width == 2 ? 3 : 0)) return varied(tokens) ? own_ : "";
    return source_.width == 4 || std::count(tokens.begin(), tokens.end(), 0u) > kPart * 2 / 3 ? "int64"
                                                                                              : "uint32";
  }
  // The first sample that differs from the earlier ones.
  int64_t border(const std::string& first, int64_t from, int64_t until) const {
    while (until - from > 1) {
      const int64_t middle = from + (until - from) / 2;
      (look(middle) == first ? from : until) = middle;
    }
    return until;
  }
  std::string told(int64_t border, const std::string& first, const std::string& then) const {
    return str("tokens up to about ", border * kPart, " (byte ", border * bytes_, ") look like ", first,
               ", and those behind them like ", then, " (data.dtype ", own_,
               "), as where files of two widths were joined; write each as uint32, as numpy's astype does, "
               "join those, and set data.dtype to uint32");
  }

  const Source& source_;
  int64_t vocab_, bytes_;
  std::string own_;
};

bool is_pickle(std::string_view begin) {
  if (begin.size() < 16 || begin[0] != '\x80' || begin[1] < 2 || begin[1] > 5) return false;
  for (const char* word : {"numpy", "torch"})
    if (begin.find(word) != std::string_view::npos) return true;
  // Protocols 4 and 5 of pickle state the length of the first frame.
  return begin[1] >= 4 && begin[2] == '\x95' && begin.substr(6, 5) == std::string_view("\0\0\0\0\0", 5);
}
}  // namespace

std::string token_form_error(const Source& source, int64_t vocab) {
  if (source.header > 0 || source.tokens == 0) return "";
  const std::vector<std::byte> head = source.head(64), bytes = sampled(source);
  const std::string_view begin(reinterpret_cast<const char*>(head.data()), head.size());
  std::string why;
  for (const Format& format : kFormats)
    if (begin.starts_with(format.begin))
      why = str("the file is ", format.name, "; write its tokens alone, as numpy's tofile does");
  if (is_pickle(begin))
    why = "the file is a pickle of Python; write its tokens alone, as numpy's tofile does";
  if (why.empty() && begin.size() > 10 && begin.substr(8, 2) == "{\"")
    why = "the file is of safetensors; write its tokens alone, as numpy's tofile does";
  if (why.empty() && bytes.size() >= static_cast<size_t>(kFewest * source.width))
    why = is_text(numbers<uint8_t>(bytes))
              ? "all bytes are those of text; read it with data.kind text, or jsonl"
              : other_width(bytes, source.width, source.path);
  if (why.empty()) why = Parts(source, vocab).mixed();
  return why.empty() ? ""
                     : str("data.paths: ", source.path, ": ", why,
                           ". To read it as it is all the same, say so with data.raw=true");
}

}  // namespace lockstep::launcher::data
