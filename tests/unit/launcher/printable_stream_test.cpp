// The stream of the command line: controls shown, characters that a flush cuts kept together.
#include <gtest/gtest.h>

#include <sstream>

#include "launcher/cli/printable_stream.h"

namespace lockstep::launcher::cli {
namespace {

TEST(PrintableStream, PassesLinesAndFlushes) {
  std::ostringstream to;
  {
    PrintableStream out(to);
    out << "a\x1b[2J " << 7 << "\nrest";
    EXPECT_EQ(to.str(), "a\\x1b[2J 7\n");
    out << std::flush;
    EXPECT_EQ(to.str(), "a\\x1b[2J 7\nrest");
    out << "\xc3" << std::flush;  // the first byte of two
    EXPECT_EQ(to.str(), "a\\x1b[2J 7\nrest");
    out << "\xb6" << std::flush << "\xc3";
    EXPECT_EQ(to.str(), "a\\x1b[2J 7\nrest\xc3\xb6");
  }
  EXPECT_EQ(to.str(), "a\\x1b[2J 7\nrest\xc3\xb6\\xc3");  // never continued
}

}  // namespace
}  // namespace lockstep::launcher::cli
