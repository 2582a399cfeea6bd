// NCCL found, not found, and too old: words, and the environment it is opened in. Needs no GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "distributed/nccl/nccl_calls.h"
#include "distributed/nccl/nccl_library.h"

using namespace lockstep;
using namespace lockstep::distributed;

TEST(NcclLibrary, NotFoundSaysWhyAndTheWayOut) {
  try {
    open_nccl({"libnccl-of-nowhere.so.2"});
    FAIL() << "opened";
  } catch (const UserError& error) {
    std::string text = error.what();
    EXPECT_EQ(text.find("NCCL cannot be opened: libnccl-of-nowhere.so.2"), 0u) << text;
    EXPECT_NE(
        text.find("install it (package libnccl2), name its folder in LD_LIBRARY_PATH, or train on one GPU"),
        std::string::npos)
        << text;
  }
}

TEST(NcclLibrary, AnotherLibraryIsNotTakenForIt) {
  try {
    open_nccl({"libm.so.6"});
    FAIL() << "opened";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what())
                  .find("the library that was opened as NCCL (libm.so.6) does not tell NCCL's version"),
              0u)
        << error.what();
  }
}

TEST(NcclLibrary, MulticastIsOffBeforeItIsOpened) {
  for (const char* before : {"", "0", "1", "2"}) {
    setenv("NCCL_NVLS_ENABLE", before, 1);
    EXPECT_THROW(open_nccl({"libnccl-of-nowhere.so.2"}), UserError);
    EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  }
  unsetenv("NCCL_NVLS_ENABLE");
  EXPECT_THROW(open_nccl({"libnccl-of-nowhere.so.2"}), UserError);
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
}

TEST(NcclLibrary, TellsItsVersion) {
  std::string why;
  if (!nccl_available(&why)) GTEST_SKIP() << why;
  EXPECT_GE(nccl().version, 21800);
  std::string version = nccl_version();
  EXPECT_EQ(version.find("2."), 0u) << version;
  EXPECT_STREQ(nccl().GetErrorString(ncclSuccess), "no error");
}

TEST(NcclCalls, SixteenBitIntegersAreNotReduced) {
  try {
    check_nccl_dtype(AllReduce{nullptr, nullptr, 1, DType::u16}, "tokens");
    FAIL() << "accepted";
  } catch (const InternalError& error) {
    EXPECT_NE(
        std::string(error.what()).find("all_reduce \"tokens\": NCCL reduces no 16-bit integers; use u32"),
        std::string::npos)
        << error.what();
  }
  check_nccl_dtype(AllGather{nullptr, nullptr, {1, 1}, DType::u16}, "tokens");  // moving them is all right
}

TEST(NcclCalls, EmptyCollectivesAreKnown) {
  EXPECT_TRUE(is_empty(AllReduce{nullptr, nullptr, 0, DType::f32}));
  EXPECT_TRUE(is_empty(AllGather{nullptr, nullptr, {0, 0}, DType::f32}));
  EXPECT_FALSE(is_empty(AllGather{nullptr, nullptr, {0, 3}, DType::f32}));
  EXPECT_FALSE(is_empty(AllToAll{nullptr, nullptr, {0, 0}, {0, 1}, DType::f32}));
  EXPECT_FALSE(is_empty(Barrier{}));
}
