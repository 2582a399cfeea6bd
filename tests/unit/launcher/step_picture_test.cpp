// The picture of a step: well-formed, with a bar for each bucket and no two words on top of each other.
#include "launcher/plan/step_picture.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "core/base/error.h"
#include "launcher/plan/predict.h"
#include "launcher/plan/svg.h"

namespace lockstep {

using namespace compiler;
using namespace launcher;

namespace {

RunConfig small(int64_t global, const std::string& mesh = "") {
  return parse_config(
      str(R"({"name": "small", "model": {"kind": "gpt", "vocab": 32, "context": 8, "width": 16, "depth": 3, "heads": 2},
    "data": {"paths": ["a.txt"], "kind": "tokens"}, "batch": {"global": )",
          global, R"(, "micro": 2}, "train": {"device": "cpu"}, "compile": {"bucket_bytes": 4096})",
          mesh.empty() ? "" : str(R"(, "mesh": )", mesh), "}"),
      "small.json");
}

struct Drawn {
  PaperRun run;
  Timeline timeline;
  int backward;
  Drawn(const RunConfig& config, int64_t nproc)
      : run(config, nproc, cpu_target()),
        timeline(timeline_of(run.step.program,
                             {run.words, run.step.seats,
                              roofline_of_rank(roofline_named("cpu"), run.words, run.step), "fp32"})),
        backward(first_backward_call(run.step.plan, body())) {}
  const ProgramBlock& body() const { return run.step.program.blocks[kBodyBlock]; }
  std::string picture(const PictureWords& words = {"title", "below"}) const {
    return step_picture(run.step.program, timeline, backward, words);
  }
};

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// "" for well-formed XML of elements, attributes in quotes and the three entities; else what is wrong.
std::string malformed(const std::string& text) {
  static const std::regex token(
      R"re(<\?xml [^<>]*\?>|<([a-z]+)((?: [a-z0-9:A-Z-]+="[^"<]*")*)(/?)>|</([a-z]+)>|[^<]+)re");
  static const std::regex entity("&(?!amp;|lt;|gt;|quot;)");
  std::vector<std::string> open;
  size_t at = 0;
  for (std::sregex_iterator t(text.begin(), text.end(), token), end; t != end; ++t) {
    if (static_cast<size_t>(t->position()) != at) break;
    at += static_cast<size_t>(t->length());
    if (std::regex_search(t->str(), entity)) return "a bare & in " + t->str();
    if ((*t)[1].matched && (*t)[3].length() == 0) open.push_back((*t)[1]);
    if (!(*t)[4].matched) continue;
    if (open.empty() || open.back() != (*t)[4]) return "an end that is no end: " + t->str();
    open.pop_back();
  }
  if (at != text.size()) return "no markup: " + text.substr(at, 60);
  return open.empty() ? "" : open.back() + " is not closed";
}

// Words that share a line do not touch.
void expect_readable(const std::string& picture) {
  static const std::regex words(
      R"re(<text x="([0-9.-]+)" y="([0-9.-]+)" font-size="([0-9.]+)" text-anchor="([a-z]+)"[^>]*>([^<]*)<)re");
  std::map<std::string, std::vector<std::tuple<double, double, std::string>>> lines;
  for (std::sregex_iterator t(picture.begin(), picture.end(), words), end; t != end; ++t) {
    const double width = Svg::width_of((*t)[5].str(), std::stod((*t)[3])), x = std::stod((*t)[1]);
    const double from = (*t)[4] == "start" ? x : (*t)[4] == "middle" ? x - width / 2 : x - width;
    EXPECT_GE(from, 0) << (*t)[5];
    EXPECT_LE(from + width, 1600) << (*t)[5];
    lines[(*t)[2]].emplace_back(from, from + width, (*t)[5]);
  }
  EXPECT_GT(lines.size(), 6u);
  for (auto& [y, on] : lines) {
    std::sort(on.begin(), on.end());
    for (size_t i = 1; i < on.size(); ++i)
      EXPECT_GE(std::get<0>(on[i]), std::get<1>(on[i - 1]))
          << std::get<2>(on[i - 1]) << " meets " << std::get<2>(on[i]) << " at " << y;
  }
}

TEST(StepPicture, HasABarForEachBucketAndEachGather) {
  const Drawn drawn(small(24), 4);
  const std::string picture = drawn.picture();
  EXPECT_EQ(malformed(picture), "");
  expect_readable(picture);
  const size_t buckets = drawn.run.step.plan.phases.buckets.size();
  ASSERT_GE(buckets, 3u);
  for (size_t b = 0; b < buckets; ++b)
    EXPECT_GE(
        count(picture, str("<title>exchange ", b, ", lane_exchange along dp_replicate, micro-batch 2: ")), 1)
        << b;
  EXPECT_GE(count(picture, "<title>gather 0, all_gather along dp_replicate: "), 1);
  for (int j = 0; j < 3; ++j) {
    EXPECT_GE(count(picture, str("<title>forward, micro-batch ", j, ": ")), 1) << j;
    EXPECT_GE(count(picture, str("<title>backward, micro-batch ", j, ": ")), 1) << j;
  }
  EXPECT_GE(count(picture, "<title>stands still for count along dp_replicate: "), 1);
  for (const char* words : {">compute<", ">dp_replicate<", ">micro-batches<", ">forward<", ">ms<",
                            ">stands still (exposed communication)<", ">gradients (lane_exchange)<"})
    EXPECT_GE(count(picture, words), 1) << words;
  EXPECT_EQ(count(picture, "<script"), 0);
  EXPECT_EQ(picture, drawn.picture()) << "the same bytes for the same step";
}

TEST(StepPicture, OfEveryKindOfMeshIsReadable) {
  for (const auto& [global, ranks, mesh] : std::vector<std::tuple<int64_t, int64_t, std::string>>{
           {2, 1, ""},
           {512, 2, ""},
           {24, 4, R"({"shape": [4], "dim_names": ["dp_shard"], "gather": "micro_batch"})"},
           {48, 4, R"({"shape": [4], "dim_names": ["dp_shard"], "gather": "layers"})"},
           {24, 4, R"({"shape": [2, 2], "dim_names": ["dp_replicate", "tp"]})"},
           {24, 8, R"({"shape": [2, 4], "dim_names": ["dp_replicate", "dp_shard"], "ranks_per_node": 4})"}}) {
    const std::string picture = Drawn(small(global, mesh), ranks).picture();
    EXPECT_EQ(malformed(picture), "") << mesh;
    expect_readable(picture);
    EXPECT_LT(picture.size(), size_t{2} << 20) << mesh;
    for (const char* dim : {"dp_shard", "tp", "inside hosts", "across hosts"})
      EXPECT_EQ(count(picture, str(">", dim, "<")) > 0,
                mesh.find(dim) != std::string::npos ||
                    (std::string_view(dim).ends_with("hosts") && mesh.find("per_node") != std::string::npos))
          << dim << " of " << mesh;
  }
}

TEST(StepPicture, WordsAreEscaped) {
  const std::string picture = Drawn(small(24), 2).picture({"a<b> & \"c\"\x01", std::string(5000, 'x')});
  EXPECT_EQ(malformed(picture), "");
  EXPECT_GE(count(picture, ">a&lt;b&gt; &amp; &quot;c&quot;\\x01<"), 2) << picture.substr(0, 600);
  expect_readable(picture);
}

// A third of what the contractions of a micro-batch compute is forward.
TEST(StepPicture, TheBackwardBeginsBehindTheLoss) {
  const Drawn drawn(small(24), 1);
  double before = 0;
  for (int c = 0; c < drawn.backward; ++c)
    if (const auto& call = drawn.body().calls[c]; call.family == "contraction" || call.family == "attention")
      before += call.flops;
  EXPECT_NEAR(before / drawn.body().flops(), 1.0 / 3, 0.05);
}

}  // namespace
}  // namespace lockstep
