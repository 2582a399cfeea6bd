// Parses XML with expat's events: depth and element count are bounded, and there is no recursion.
#include "checkpoint/storage/s3/xml.h"

#include <expat.h>

#include <cerrno>
#include <memory>

#include "checkpoint/storage/storage.h"

namespace lockstep::checkpoint::s3 {

namespace {
constexpr size_t kMostDepth = 16, kMostElements = 1 << 16;  // of a page of a thousand keys

struct Reader {
  XML_Parser parser = nullptr;
  Element document;
  std::vector<Element> open;
  size_t elements = 0;
  std::string refused;  // why parsing stopped

  void refuse(const std::string& why) {
    refused = why;
    XML_StopParser(parser, XML_FALSE);
  }
  static void begin(void* self, const char* name, const char**) {
    auto& one = *static_cast<Reader*>(self);
    if (one.open.size() == kMostDepth) return one.refuse(str("elements nested deeper than ", kMostDepth));
    if (++one.elements > kMostElements) return one.refuse(str("more than ", kMostElements, " elements"));
    const char* colon = std::char_traits<char>::find(name, std::char_traits<char>::length(name), ':');
    const std::string local = colon ? colon + 1 : name;  // without its namespace's prefix
    if (local.empty()) return one.refuse("an element without a name");
    one.open.push_back({local, "", {}});
  }
  static void end(void* self, const char*) {
    auto& one = *static_cast<Reader*>(self);
    if (one.open.empty()) return;
    Element done = std::move(one.open.back());
    one.open.pop_back();
    (one.open.empty() ? one.document : one.open.back()).children.push_back(std::move(done));
  }
  static void text(void* self, const char* from, int bytes) {
    auto& one = *static_cast<Reader*>(self);
    if (!one.open.empty()) one.open.back().text.append(from, static_cast<size_t>(bytes));
  }
  static void doctype(void* self, const char*, const char*, const char*, int) {
    static_cast<Reader*>(self)->refuse("a type of documents of its own");
  }
};
}  // namespace

std::string Element::text_of(const std::string& child) const {
  for (const Element& one : children)
    if (one.name == child) return one.text;
  return "";
}

Element parse(const std::string& xml, const std::string& path) {
  const std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser(XML_ParserCreate(nullptr),
                                                                       &XML_ParserFree);
  LS_CHECK(parser, "expat does not start");
  Reader reader;
  reader.parser = parser.get();
  XML_SetUserData(parser.get(), &reader);
  XML_SetElementHandler(parser.get(), &Reader::begin, &Reader::end);
  XML_SetCharacterDataHandler(parser.get(), &Reader::text);
  XML_SetStartDoctypeDeclHandler(parser.get(), &Reader::doctype);
  if (XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE) != XML_STATUS_OK)
    throw StorageError(
        str("cannot read what the store answers of ", path, ": ",
            reader.refused.empty() ? XML_ErrorString(XML_GetErrorCode(parser.get())) : reader.refused,
            " at line ", XML_GetCurrentLineNumber(parser.get()), "; is AWS_ENDPOINT_URL an S3 store?"),
        path, EIO);
  return std::move(reader.document.children.at(0));
}

}  // namespace lockstep::checkpoint::s3
