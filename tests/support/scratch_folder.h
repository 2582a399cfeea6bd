// A folder under the system's temporary folder, removed with its content at the end of the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make " + name);
    root_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Absolute path of a name in the folder; "" gives the folder itself.
  std::string path(const std::string& name) const {
    return name.empty() ? root_.string() : (root_ / name).string();
  }

  // Writes a file (and the folders above it); gives its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary | std::ios::trunc) << bytes;
    return path(name);
  }
  template <class T>
  std::string write(const std::string& name, const std::vector<T>& values) const {
    return write(name, std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }

 private:
  std::filesystem::path root_;
};

}  // namespace lockstep
