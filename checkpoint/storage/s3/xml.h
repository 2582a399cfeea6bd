// XML answers of an object store as elements.
#pragma once

#include <string>
#include <vector>

namespace lockstep::checkpoint::s3 {

struct Element {
  std::string name, text;
  std::vector<Element> children;
  // The text of the first child of this name; "" without one.
  std::string text_of(const std::string& child) const;
};
// The root. StorageError, naming `path`, for text that is not XML, that declares a document type, or that has
// too many or too deeply nested elements.
Element parse(const std::string& xml, const std::string& path);

}  // namespace lockstep::checkpoint::s3
