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
// The root. StorageError, naming `path`, for a text that is no XML, declares a type of documents of its own,
// or has more elements, or deeper ones, than an answer has.
Element parse(const std::string& xml, const std::string& path);

}  // namespace lockstep::checkpoint::s3
