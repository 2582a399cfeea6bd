// Conformance of the storages that need no server: files, files under faults, an object store in memory.
#include <gtest/gtest.h>

#include "tests/conformance/storage_conformance.h"
#include "tests/support/fault_storage.h"
#include "tests/support/memory_store.h"
#include "tests/support/scratch_folder.h"

using namespace lockstep;

class StorageConformance : public testing::TestWithParam<size_t> {
 protected:
  const conformance::StorageCase& one() const {
    static const auto cases = conformance::storage_cases();
    return cases[GetParam()];
  }
  ScratchFolder folder_;
};

TEST_P(StorageConformance, Files) { one().run(checkpoint::file_storage(), folder_.path("case")); }
TEST_P(StorageConformance, FilesByPath) { one().run(checkpoint::any_storage(), folder_.path("case")); }
TEST_P(StorageConformance, FilesUnderFaults) {
  FaultStorage storage;
  one().run(storage, folder_.path("case"));
}
TEST_P(StorageConformance, Memory) {
  MemoryStore storage;
  one().run(storage, "memory/case");
}

INSTANTIATE_TEST_SUITE_P(All, StorageConformance,
                         testing::Range<size_t>(0, conformance::storage_cases().size()),
                         [](const auto& info) { return conformance::storage_cases()[info.param].name; });
