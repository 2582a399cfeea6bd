// What a release says of itself agrees: its version, its licences, and what a forge runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <vector>

#include "tests/layers/tree.h"

namespace lockstep::layers {
namespace {

std::string text_of(const std::string& name) {
  const auto path = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / name;
  EXPECT_TRUE(std::filesystem::exists(path)) << name;
  return read(path);
}
std::string found(const std::string& text, const char* pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "nothing found";
}

TEST(Release, its_version_is_one) {
  const std::string version = found(text_of("CMakeLists.txt"), R"(project\(lockstep VERSION ([0-9.]+))");
  EXPECT_EQ(found(text_of("checkpoint/commit.h"), R"re(kProducer = "lockstep ([0-9.]+)")re"), version);
  const std::string cited = text_of("CITATION.cff"), changes = text_of("CHANGELOG.md");
  EXPECT_EQ(found(cited, R"(\nversion: ([0-9.]+))"), version);
  // The newest section below Unreleased is this version's, of the day that is cited.
  EXPECT_EQ(changes.find("# Changelog\n\n## Unreleased\n"), 0u);
  EXPECT_EQ(found(changes, R"(\n## ([0-9.]+ \([0-9-]+\)))"),
            version + " (" + found(cited, R"(\ndate-released: ([0-9-]+))") + ")");
}

// Each library that the build asks for has a line of NOTICE, by the name that people know.
TEST(Release, the_notice_names_each_library) {
  const std::map<std::string, std::string> rows{{"OpenMP", "libgomp"},
                                                {"MPI", "Open MPI"},
                                                {"Boost", "Boost"},
                                                {"nlohmann_json", "nlohmann/json"},
                                                {"spdlog", "spdlog"},
                                                {"CLI11", "CLI11"},
                                                {"dnnl", "oneDNN"},
                                                {"xxhash", "xxHash"},
                                                {"pmix", "PMIx"},
                                                {"sodium", "libsodium"},
                                                {"curl", "libcurl"},
                                                {"expat", "expat"},
                                                {"pcre2-8", "PCRE2"},
                                                {"png", "libpng"},
                                                {"jpeg", "libjpeg"},
                                                {"z", "zlib"},
                                                {"utf8proc", "utf8proc"},
                                                {"sentencepiece", "SentencePiece"},
                                                {"GTest", "GoogleTest"},
                                                {"nanobind", "nanobind"},
                                                {"benchmark", "Google Benchmark"}};
  const std::map<std::string, bool> not_of_others{{"Threads", true}, {"Python", true}};
  const std::string notice = text_of("NOTICE");
  int libraries = 0;
  for (const char* file : {"CMakeLists.txt", "python/CMakeLists.txt", "bench/CMakeLists.txt"}) {
    const std::string text = text_of(file);
    const std::regex asked(R"(find_package\((\w+)|find_library\(\w+ ([\w-]+))");
    for (std::sregex_iterator it(text.begin(), text.end(), asked), end; it != end; ++it) {
      const std::string name = (*it)[1].matched ? (*it)[1] : (*it)[2];
      if (not_of_others.contains(name)) continue;
      ++libraries;
      ASSERT_TRUE(rows.contains(name))
          << file << " asks for " << name << "; give it a row here and in NOTICE";
      EXPECT_NE(notice.find(rows.at(name)), std::string::npos) << name;
    }
  }
  EXPECT_GE(libraries, 18);
  EXPECT_EQ(text_of("LICENSE").find("                                 Apache License\n"), 1u);
}

// A command of a page that is gone ends a reader's work.
TEST(Release, each_script_that_a_page_names_is_there) {
  const std::filesystem::path root = LOCKSTEP_SOURCE_DIR;
  std::vector<std::filesystem::path> pages{root / "README.md", root / "CONTRIBUTING.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  std::set<std::string> scripts;
  for (const auto& page : pages) {
    const std::string text = read(page);
    const std::regex script(R"(scripts/\w+\.(sh|py))");
    for (std::sregex_iterator it(text.begin(), text.end(), script), end; it != end; ++it) {
      scripts.insert(it->str());
      EXPECT_TRUE(std::filesystem::exists(root / it->str())) << page << ": " << it->str();
    }
  }
  for (const char* of_a_release :
       {"scripts/wheel.sh", "scripts/wheel_check.sh", "scripts/image.sh", "scripts/site.sh"})
    EXPECT_TRUE(scripts.contains(of_a_release)) << of_a_release;
}

TEST(Release, a_forge_runs_the_script_that_everybody_runs) {
  const std::string workflow = text_of(".github/workflows/ci.yml");
  for (const char* part : {"run: bash .ci/run\n", "image: debian:12\n", "timeout-minutes: 90\n", "--cpus 2 "})
    EXPECT_NE(workflow.find(part), std::string::npos) << part;
  EXPECT_NE(text_of(".ci/run").find("scripts/test.sh"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::layers
