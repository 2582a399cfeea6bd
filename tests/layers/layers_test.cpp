// The house as it stands obeys its rules, and the checks find every way of breaking them.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/text.h"
#include "tests/layers/check.h"
#include "tests/layers/tree.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::layers {
namespace {

std::filesystem::path root() { return LOCKSTEP_SOURCE_DIR; }
std::string text_of(const std::string& name) {
  std::ifstream in(root() / "tests/layers" / name);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}
std::string list(const Lines& lines) { return join(lines, "\n"); }
testing::AssertionResult all_well(const Lines& violations) {
  if (violations.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << violations.size() << " violations:\n" << list(violations);
}

TEST(House, arrows) { EXPECT_TRUE(all_well(wrong_arrows(root(), text_of("layers.txt")))); }
TEST(House, every_file_says_its_purpose) { EXPECT_TRUE(all_well(without_purpose(root()))); }
TEST(House, no_file_is_too_long) { EXPECT_TRUE(all_well(too_long(root(), text_of("long_files.txt")))); }
TEST(House, no_function_is_too_long) { EXPECT_TRUE(all_well(long_functions(root()))); }
TEST(House, no_line_is_too_wide) { EXPECT_TRUE(all_well(too_wide(root()))); }
TEST(House, no_includes_go_in_a_circle) {
  EXPECT_TRUE(all_well(include_circles(root(), text_of("circles.txt"))));
}
TEST(House, every_source_is_built) { EXPECT_TRUE(all_well(not_built(root()))); }
TEST(House, strangers_bytes_are_read_within_bounds) {
  EXPECT_TRUE(all_well(unbounded_readers(root(), text_of("unbounded.txt"))));
}
TEST(House, every_folder_has_a_name) { EXPECT_TRUE(all_well(nameless_folders(root()))); }
TEST(House, every_type_has_a_name_of_its_own) { EXPECT_TRUE(all_well(types_defined_twice(root()))); }
TEST(House, every_wing_has_its_namespace) {
  EXPECT_TRUE(all_well(wrong_namespaces(root(), text_of("namespaces.txt"))));
}
TEST(House, no_sentence_is_too_long) { EXPECT_TRUE(all_well(long_sentences(root()))); }
TEST(House, was_found) {  // the checks above pass on an empty tree too
  EXPECT_TRUE(std::filesystem::exists(root() / "core/base/error.h"));
  EXPECT_FALSE(wrong_arrows(root(), "tests -> core\n").empty());
}

// A small tree in which all is well.
struct Tree : ScratchFolder {
  Tree() {
    write("CMakeLists.txt", "add_subdirectory(core)\n");
    write("core/CMakeLists.txt", "lockstep_room(core_base SOURCES base/text.cpp LIBS x)\n");
    write("core/base/text.h", "// Text for everybody.\n#pragma once\n#include <string>\n");
    write("core/base/text.cpp", "// Text for everybody, the code.\n#include \"core/base/text.h\"\n");
    write("core/ops/op.h", "// The table of ops.\n#include \"core/base/text.h\"\n");
    write("compiler/pass.h", "// What a pass is.\n#include \"core/ops/op.h\"\n");
    write("compiler/pipeline.h",
          "// All of the passes.\n#include \"compiler/pass.h\"\n#include \"compiler/lower/lower.h\"\n");
    write("compiler/lower/lower.h", "// A single pass here.\n#include \"compiler/pass.h\"\n");
    write("distributed/group.h", "// Groups over threads.\n#  include   \"core/ops/op.h\"  // spaced out\n");
    write("lockstep.h", "// All of it.\n#include \"compiler/pipeline.h\"\n");
    write("examples/e.h", "// A user's program.\n#include <lockstep.h>\n");
  }
  Lines arrows() const {
    return wrong_arrows(path(""),
                        "# comment\n"
                        "core/base ->\n"
                        "core/ops -> core/base\n"
                        "compiler/. -> core compiler\n"
                        "compiler/lower -> core compiler/pass.h  # data headers\n"
                        "distributed -> core\n"
                        "lockstep.h -> core compiler\n"
                        "examples -> lockstep.h\n");
  }
};

TEST(Checks, a_good_tree_has_no_violation) {
  Tree tree;
  EXPECT_EQ(list(tree.arrows()), "");
  EXPECT_EQ(list(without_purpose(tree.path(""))), "");
  EXPECT_EQ(list(too_long(tree.path(""), "# none\n")), "");
  EXPECT_EQ(list(long_functions(tree.path(""))), "");
  EXPECT_EQ(list(include_circles(tree.path(""), "# none\n")), "");
  EXPECT_EQ(list(not_built(tree.path(""))), "");
  EXPECT_EQ(list(nameless_folders(tree.path(""))), "");
}

TEST(Checks, arrow_to_the_right) {
  Tree tree;
  tree.write("core/base/text.h", "// Text for everybody.\n\n#include \"core/ops/op.h\"\n");
  EXPECT_EQ(tree.arrows(),
            (Lines{"core/base/text.h:3: includes \"core/ops/op.h\"; core/base may include itself only"}));
}

TEST(Checks, arrow_between_wings_and_to_the_porch) {
  Tree tree;
  tree.write("distributed/group.h",
             "// Groups over threads.\n#include \"compiler/pass.h\"\n#include \"lockstep.h\"\n");
  EXPECT_EQ(tree.arrows(),
            (Lines{"distributed/group.h:2: includes \"compiler/pass.h\"; distributed may include core",
                   "distributed/group.h:3: includes \"lockstep.h\"; distributed may include core"}));
}

TEST(Checks, arrow_from_a_room_to_what_knows_them_all) {
  Tree tree;
  tree.write("compiler/lower/lower.h", "// A single pass here.\n#include \"compiler/pipeline.h\"\n");
  EXPECT_EQ(tree.arrows(), (Lines{"compiler/lower/lower.h:2: includes \"compiler/pipeline.h\"; "
                                  "compiler/lower may include core, compiler/pass.h"}));
}

TEST(Checks, include_not_spelled_from_the_root) {
  Tree tree;
  tree.write("core/base/text.cpp",
             "// Text for everybody, the code.\n#include \"text.h\"\n#include \"../ops/op.h\"\n#include "
             "<core/base/text.h>\n#include "
             "\"core/base/../base/text.h\"\n"
             "#include \"core/base/gone.h\"\n");
  Lines found = tree.arrows();
  ASSERT_EQ(found.size(), 5u) << list(found);
  EXPECT_EQ(found[0], "core/base/text.cpp:2: includes \"text.h\"; no such header when spelled from the root");
  EXPECT_EQ(found[2], "core/base/text.cpp:4: includes <core/base/text.h>; our headers stand in quotes");
}

TEST(Checks, folder_that_is_no_room) {
  Tree tree;
  tree.write("compiler/magic/m.h", "// A room nobody planned.\n");
  EXPECT_EQ(
      tree.arrows(),
      (Lines{"compiler/magic/m.h: is in no room of layers.txt; put it into one, or give its folder a line"}));
}

TEST(Checks, table_that_cannot_be_read) {
  Tree tree;
  EXPECT_THROW(wrong_arrows(tree.path(""), "core/base core/ops\n"), std::runtime_error);
  EXPECT_THROW(wrong_arrows(tree.path(""), "core ->\ncore -> core/ops\n"), std::runtime_error);
}

TEST(Checks, file_without_a_purpose) {
  Tree tree;
  tree.write("core/base/a.h", "#pragma once\n// A purpose, but too late.\n");
  tree.write("core/base/b.h", "// b.h\n");
  tree.write("core/base/c.h", "");
  EXPECT_EQ(without_purpose(tree.path("")).size(), 3u);
}

TEST(Checks, long_file_and_stale_or_groundless_permission) {
  Tree tree;
  std::string lines = "// A long file of many lines.\n";
  for (int i = 1; i < 400; ++i) lines += "\n";
  tree.write("core/base/just.h", lines);
  tree.write("core/base/long.h", lines + "int last;");
  EXPECT_EQ(
      too_long(tree.path(""), ""),
      (Lines{
          "core/base/long.h: has 401 lines; split it at 400, or list it in long_files.txt with a reason"}));
  EXPECT_EQ(list(too_long(tree.path(""), "core/base/long.h: a table\n")), "");
  EXPECT_EQ(too_long(tree.path(""), "core/base/long.h:\n"),
            (Lines{"long_files.txt: \"core/base/long.h:\" gives no reason"}));
  EXPECT_EQ(
      too_long(tree.path(""), "core/base/long.h: a table\ncore/base/just.h: a table\ncore/gone.h: a table\n"),
      (Lines{"long_files.txt: core/base/just.h has 400 lines; take it off the list",
             "long_files.txt: core/gone.h does not exist"}));
}

TEST(Checks, function_of_too_many_lines_or_branches) {
  Tree tree;
  auto times = [](int count, const std::string& text) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  auto found = [&](int lines, int cyclomatic) {
    const std::string text =
        str("// Some functions.\n#define M(x) \\\n  {x\nnamespace lockstep {\nconstexpr int kTable[] = {\n",
            times(70, "1,\n"), "};\nclass C {\n", times(70, "int m();\n"), "int wordy(int x) {\n",
            times(lines - 2, "++x;\n"), "}\nint deep(int x) { return \"?\" && ",
            times(cyclomatic - 2, "x && "), "x; }\n};\n}\n");
    tree.write("core/base/text.cpp", text);
    tree.write("tests/a.cpp", text);  // a test may
    return long_functions(tree.path(""));
  };
  EXPECT_EQ(list(found(60, 30)), "");
  EXPECT_EQ(found(61, 31),
            (Lines{"core/base/text.cpp:148: a function of 61 lines and the cyclomatic number 1; split it by "
                   "meaning at 60 lines and 30",
                   "core/base/text.cpp:209: a function of 1 lines and the cyclomatic number 31; split it by "
                   "meaning at 60 lines and 30"}));
}

TEST(Checks, wide_line) {
  Tree tree;
  std::string umlauts;
  for (int i = 0; i < 120; ++i) umlauts += "\xc3\xbc";
  tree.write("core/base/a.h", "// A purpose.\n" + umlauts + "\n");
  tree.write("python/lockstep/b.py", umlauts + "\nx = 1\n\n" + umlauts + "x\n");
  tree.write("core/base/b.md", umlauts + umlauts);
  EXPECT_EQ(too_wide(tree.path("")), Lines{"python/lockstep/b.py:4: has 121 columns; wrap it at 120"});
}

TEST(Checks, reader_without_a_bound_and_stale_or_groundless_permission) {
  Tree tree;
  tree.write("core/base/text.cpp",
             "// Text for everybody, the code.\n#include \"core/base/text.h\"\n"
             "// std::stoi in words\nint mystrtol(int); int a = mystrtol(1), b = std::stoi(\"std::stod\");\n"
             "std::ifstream file;\n");
  tree.write("tests/a.cpp", "// A test may.\nstd::regex x;\n");
  const Lines found = unbounded_readers(tree.path(""), "");
  ASSERT_EQ(found.size(), 2u) << list(found);
  EXPECT_TRUE(found[0].starts_with("core/base/text.cpp:4: std::stoi throws, or stops at what is no number"))
      << found[0];
  EXPECT_TRUE(found[1].starts_with("core/base/text.cpp:5: std::ifstream waits for a FIFO")) << found[1];
  EXPECT_EQ(list(unbounded_readers(tree.path(""),
                                   "core/base/text.cpp stoi: ours\ncore/base/text.cpp ifstream: ours\n")),
            "");
  EXPECT_EQ(list(unbounded_readers(tree.path(""),
                                   "core/base/text.cpp stoi:\ncore/base/text.cpp ifstream: ours\n"
                                   "core/gone.cpp regex: ours\n")),
            "core/base/text.cpp stoi: may stay for no reason; write it behind a colon\n"
            "core/gone.cpp regex: is not there any more; take the line out");
}

TEST(Checks, circle_of_includes_and_stale_or_groundless_permission) {
  Tree tree;
  tree.write("core/ops/a.h", "// The first of two.\n#include \"core/base/text.h\"\n");
  tree.write("core/ops/a.cpp",
             "// Knows the second.\n#include \"core/ops/a.h\"\n#include \"core/ops/b.h\"\n");
  tree.write("core/ops/b.h", "// Knows the first.\n#include \"core/ops/a.h\"\n");
  tree.write("core/ops/c.h", "// Knows both of them.\n#include \"core/ops/b.h\"\n");
  EXPECT_EQ(include_circles(tree.path(""), ""),
            (Lines{"core/ops/a core/ops/b: include one another in a circle; put what both sides need into a "
                   "file of its own, or list them in circles.txt with a reason"}));
  EXPECT_EQ(list(include_circles(tree.path(""), "core/ops/a core/ops/b: a pair\n")), "");
  EXPECT_EQ(include_circles(tree.path(""), "core/ops/a core/ops/b:\n"),
            (Lines{"circles.txt: \"core/ops/a core/ops/b:\" gives no reason"}));
  tree.write("core/ops/a.cpp", "// Knows the second no more.\n#include \"core/ops/a.h\"\n");
  EXPECT_EQ(include_circles(tree.path(""), "core/ops/a core/ops/b: a pair\n"),
            (Lines{"circles.txt: core/ops/a core/ops/b: is no circle any more; take it off the list"}));
}

TEST(Checks, source_that_nobody_builds) {
  Tree tree;
  tree.write("core/base/lost.cpp", "// A source nobody builds.\n");
  tree.write("core/CMakeLists.txt", "lockstep_room(core_base SOURCES base/text.cpp)  # not base/lost.cpp\n");
  EXPECT_EQ(
      not_built(tree.path("")),
      (Lines{"core/base/lost.cpp: no CMakeLists.txt names it; add it to its room's or test's sources"}));
  tree.write("CMakeLists.txt", "add_library(x \"${CMAKE_SOURCE_DIR}/core/base/lost.cpp\")\n");
  EXPECT_EQ(list(not_built(tree.path(""))), "");
  tree.write("CMakeLists.txt", "file(GLOB ALL CONFIGURE_DEPENDS core/base/*.cpp)\n");
  EXPECT_EQ(list(not_built(tree.path(""))), "");
}

TEST(Checks, folder_without_a_name) {
  Tree tree;
  tree.write("core/base/utils/x.h", "// Anything and everything else.\n");
  EXPECT_EQ(nameless_folders(tree.path("")),
            (Lines{"core/base/utils: says nothing; a helper lives in the room whose word it uses"}));
}

TEST(Checks, sentence_of_too_many_words) {
  Tree tree;
  std::string words;
  for (int i = 0; i < 34; ++i) words += i % 9 ? "word " : "word\n";  // lines of one sentence
  std::string flat = words + words;
  std::replace(flat.begin(), flat.end(), '\n', ' ');
  const std::string well = words + "`a span of code`.", tail = words + "a [link to a page](b.md), too.\n";
  tree.write("README.md", str("# A title\n\n", well, " ", well, "\n- ", well, "\n- (", well, ") ", well,
                              "\n\n| ", flat, "|\n\n```\n", words, words, "\n```\n"));
  tree.write("docs/faults.md", words + tail);
  EXPECT_EQ(list(long_sentences(tree.path(""))), "");
  tree.write("docs/deep/b.md", str("Short. ", tail, "\n1. ", words, words, "\n"));
  EXPECT_EQ(
      long_sentences(tree.path("")),
      (Lines{"docs/deep/b.md:1: a sentence of 40 words (\"word word word ...\"); say it in sentences of "
             "at most 35",
             "docs/deep/b.md:7: a sentence of 68 words (\"word word word ...\"); say it in sentences of "
             "at most 35"}));
}

TEST(Checks, type_of_two_files) {
  Tree tree;
  tree.write("core/ops/op.h",
             "// The table of ops.\nnamespace lockstep {\nstruct Row {\n  struct Cell {};\n};\n}\n");
  tree.write(
      "launcher/plan/row.cpp",
      "// Rows of a plan.\nnamespace lockstep::plan {\nstruct Cell {};\nclass Row;\n"
      "enum class Row { a };  // struct Row {\n}\nnamespace lockstep { namespace { struct Row {}; } }\n");
  EXPECT_EQ(types_defined_twice(tree.path("")),
            (Lines{"launcher/plan/row.cpp:5: type Row is defined at core/ops/op.h:3 too; one name, one type: "
                   "rename one of them"}));
}

TEST(Checks, namespace_of_another_room) {
  Tree tree;
  auto found = [&] {
    return wrong_namespaces(
        tree.path(""),
        "core -> lockstep\ncompiler -> lockstep::compiler\nlauncher -> lockstep::launcher\n"
        "compiler/lower -> lockstep::compiler library\nlockstep.h -> lockstep\n");
  };
  EXPECT_EQ(list(found()), "");
  tree.write("core/ops/op.h",
             "// Rows of a table.\nnamespace lockstep::ops {}\nnamespace lockstep { int a; }\n");
  tree.write("compiler/pass.h",
             "// What a pass is.\nnamespace lockstep::compiler { namespace cpu { int a; } }\n");
  tree.write("compiler/lower/lower.h", "// Needs a library.\nnamespace library { class Json; }\n");
  tree.write("launcher/main.cpp", "// Only a program here.\nint main() { return 0; }\n");
  EXPECT_EQ(list(found()), "");
  tree.write("core/ops/op.h",
             "// Rows of a table.\n#define A \\\n  int\nnamespace lockstep::compiler { A a; }\n");
  tree.write("compiler/pass.h", "// What a pass is.\nnamespace lockstep { struct Pass {}; }\n");
  tree.write("compiler/lower/x.h", "// One of another's.\nnamespace lockstep::launcher { int a; }\n");
  tree.write("launcher/plan.h", "// A plan of nobody's.\n#define B(x) \\\n  x\nstruct Plan {};\n");
  tree.write("launcher/row.h",
             "// Near, but another's.\nnamespace lockstep::launchers { int a; }\nnamespace library {}\n");
  EXPECT_EQ(
      found(),
      (Lines{"compiler/lower/x.h:2: opens namespace lockstep::launcher; names of compiler/lower stand in "
             "lockstep::compiler",
             "compiler/pass.h:2: opens namespace lockstep; names of compiler stand in lockstep::compiler",
             "core/ops/op.h:4: opens namespace lockstep::compiler; names of core stand in lockstep",
             "launcher/plan.h: opens no namespace; names of launcher stand in lockstep::launcher",
             "launcher/row.h:2: opens namespace lockstep::launchers; names of launcher stand in "
             "lockstep::launcher",
             "launcher/row.h:3: opens namespace library; names of launcher stand in lockstep::launcher"}));
  EXPECT_THROW(wrong_namespaces(tree.path(""), "core ->\n"), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::layers
