// Reads the directory at the end of a zip archive. APPNOTE 6.3, sections 4.3.12, 4.3.14 to 4.3.16 and 4.5.3.
#include "launcher/data/npz.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/reading/one_line.h"
#include "launcher/data/room.h"

namespace lockstep::launcher::data {

namespace {
[[noreturn]] void refuse_archive(const std::string& path, const std::string& what) {
  throw UserError(str("data.paths: ", one_line(path), " ", what, "; numpy.savez writes one"));
}

// Reads little-endian numbers of a record; nothing beyond its end.
class Record {
 public:
  Record(const FileBytes& file, int64_t at, int64_t bytes, const std::string& path) : path_(path) {
    if (at < 0 || bytes < 0 || at > file.size() - bytes)
      refuse_archive(path, "is an archive that is cut short");
    bytes_.resize(bytes);
    file.read(at, bytes_.data(), bytes);
  }
  uint64_t number(size_t at, size_t width) const {
    if (at + width > bytes_.size()) refuse_archive(path_, "is an archive that is cut short");
    uint64_t out = 0;
    for (size_t i = 0; i < width; ++i) out |= static_cast<uint64_t>(bytes_[at + i]) << 8 * i;
    return out;
  }
  std::string text(size_t at, size_t count) const {
    number(at + count - (count > 0), count > 0);
    return {reinterpret_cast<const char*>(bytes_.data()) + at, count};
  }
  size_t size() const { return bytes_.size(); }

 private:
  const std::string& path_;
  std::vector<std::byte> bytes_;
};

struct Directory {
  int64_t begin, bytes, members;
};
Directory directory_of(const FileBytes& file, const std::string& path) {
  const int64_t tail = std::min<int64_t>(file.size(), 65557);
  const Record end(file, file.size() - tail, tail, path);
  for (int64_t at = tail - 22; at >= 0; --at) {
    const auto i = static_cast<size_t>(at);
    if (end.number(i, 4) != 0x06054b50) continue;
    Directory out{static_cast<int64_t>(end.number(i + 16, 4)), static_cast<int64_t>(end.number(i + 12, 4)),
                  static_cast<int64_t>(end.number(i + 10, 2))};
    if (out.begin != 0xffffffff && out.members != 0xffff) return out;
    if (i < 20) refuse_archive(path, "is an archive that is cut short");
    const Record wide(file, static_cast<int64_t>(end.number(i - 12, 8)), 56, path);
    return {static_cast<int64_t>(wide.number(48, 8)), static_cast<int64_t>(wide.number(40, 8)),
            static_cast<int64_t>(wide.number(32, 8))};
  }
  refuse_archive(path, "is no .npz archive");
}
}  // namespace

std::vector<NpzMember> npz_members(const FileBytes& file, const std::string& path) {
  const Directory found = directory_of(file, path);
  const Record all(file, found.begin, found.bytes, path);
  std::vector<NpzMember> out;
  size_t at = 0;
  for (int64_t i = 0; i < found.members; ++i) {
    if (all.number(at, 4) != 0x02014b50) refuse_archive(path, "is an archive whose directory is damaged");
    const uint64_t method = all.number(at + 10, 2), crc = all.number(at + 16, 4);
    uint64_t size = all.number(at + 20, 4), whole = all.number(at + 24, 4), local = all.number(at + 42, 4);
    const size_t name = all.number(at + 28, 2), extra = all.number(at + 30, 2), note = all.number(at + 32, 2);
    std::string member = all.text(at + 46, name);
    // Sizes that need more than 32 bits follow the name, in this order; smaller ones are absent there.
    for (size_t e = at + 46 + name, last = e + extra; e + 4 <= last; e += 4 + all.number(e + 2, 2)) {
      if (all.number(e, 2) != 1) continue;
      size_t next = e + 4;
      for (uint64_t* wide : {&whole, &size, &local})
        if (*wide == 0xffffffff) *wide = all.number(next, 8), next += 8;
    }
    at += 46 + name + extra + note;
    if (!member.ends_with(".npy")) continue;
    if (method != 0 && method != 8)
      refuse_archive(path,
                     str("packs ", one_line(member), " in a way that is not read (method ", method, ")"));
    const Record head(file, static_cast<int64_t>(local), 30, path);
    const auto begin = static_cast<int64_t>(local + 30 + head.number(26, 2) + head.number(28, 2));
    if (size > static_cast<uint64_t>(file.size()) || begin > file.size() - static_cast<int64_t>(size))
      refuse_archive(path, "is an archive that is cut short");
    out.push_back({member.substr(0, member.size() - 4), begin, static_cast<int64_t>(size),
                   static_cast<int64_t>(whole), method == 8, static_cast<uint32_t>(crc)});
  }
  return out;
}

std::vector<std::byte> unpacked(const FileBytes& file, const NpzMember& member, const std::string& path) {
  // A compressed byte expands to at most 1032 (zlib's technical notes).
  if (member.whole < 0 || member.whole / 1032 > member.size)
    refuse_archive(path, str("packs ", one_line(member.name), " into fewer bytes than it can have"));
  check_room(path, str("unpacked, ", one_line(member.name)), member.size + member.whole,
             "save it by numpy.savez, or as .npy: what is not packed is read in place");
  std::vector<std::byte> from(member.size), out(member.whole);
  file.read(member.begin, from.data(), member.size);
  z_stream stream{};
  LS_CHECK(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib");
  constexpr size_t kMost = size_t{1} << 30;
  size_t read = 0, written = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    const size_t in = std::min(kMost, from.size() - read), room = std::min(kMost, out.size() - written);
    stream.next_in = reinterpret_cast<Bytef*>(from.data() + read), stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + written),
    stream.avail_out = static_cast<uInt>(room);
    state = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in, written += room - stream.avail_out;
    if (state == Z_OK && in == stream.avail_in && room == stream.avail_out) break;
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || written != out.size() ||
      crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size()) != member.crc)
    refuse_archive(path, str("has ", one_line(member.name), " packed, and damaged"));
  return out;
}

}  // namespace lockstep::launcher::data
