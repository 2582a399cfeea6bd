// Describes an uncaught exception: its type through the C++ ABI, its frames through GCC's libbacktrace.
#include "launcher/supervise/worker/program_error.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <typeinfo>

#include "core/base/text.h"
#ifdef LOCKSTEP_BACKTRACE
#include <backtrace.h>
#endif

namespace lockstep::launcher {

namespace {
std::string demangled(const char* name) {
  int failed = 0;
  std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &failed),
                                                   std::free);
  return failed ? name : text.get();
}
}  // namespace

std::string exception_text(std::exception_ptr failure) {
  if (!failure) return "std::terminate was called without an exception";
  const std::string type = demangled(failure.__cxa_exception_type()->name());
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) { return str(type, ": ", error.what()); } catch (const char* text) {
    return text;
  } catch (const std::string& text) { return text; } catch (int number) {
    return str(type, ": ", number);
  } catch (...) { return type; }
}

#ifdef LOCKSTEP_BACKTRACE
namespace {
struct Search {
  backtrace_state* state;
  // frames of the C++ runtime, from terminate to throw, come before the frame that threw
  bool in_runtime = false;
  std::string function, place;
};

// Stops at the first frame below the runtime that has a line of a source that is not a system header.
int look_at(void* data, uintptr_t pc, const char* file, int line, const char* function) {
  auto& search = *static_cast<Search*>(data);
  Dl_info object{};
  const bool known = dladdr(reinterpret_cast<void*>(pc), &object) && object.dli_fname;
  if (known && std::strstr(object.dli_fname, "libstdc++")) {
    search.in_runtime = true;
    return 0;
  }
  if (!search.in_runtime) return 0;
  if (known && std::strstr(object.dli_fname, "/libc.so")) return 1;  // below main, or below a thread
  if (search.function.empty()) {
    auto named = [](void* into, uintptr_t, const char* name, uintptr_t, uintptr_t) {
      if (name) *static_cast<std::string*>(into) = demangled(name);
    };
    if (function)
      search.function = demangled(function);
    else
      backtrace_syminfo(search.state, pc, named, [](void*, const char*, int) {}, &search.function);
  }
  if (!file || std::strncmp(file, "/usr/", 5) == 0) return 0;
  const char* name = std::strrchr(file, '/');
  search.place = str(name ? name + 1 : file, ":", line);
  return 1;
}
}  // namespace

std::string where_thrown() {
  Search search{backtrace_create_state(nullptr, 0, [](void*, const char*, int) {}, nullptr), false, {}, {}};
  if (!search.state) return "";
  backtrace_full(search.state, 0, look_at, [](void*, const char*, int) {}, &search);
  if (!search.place.empty()) return str(" (thrown at ", search.place, ")");
  return search.function.empty() || search.function == "main" ? ""
                                                              : str(" (thrown in ", search.function, ")");
}
#else
std::string where_thrown() { return ""; }
#endif

}  // namespace lockstep::launcher
