// What `plan` foretells of collectives on tp beside products.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "launcher/plan/report.h"

namespace lockstep {

using namespace compiler;
using namespace launcher;

namespace {

// Three layers as wide as those of a model of 70 B parameters: gathers and exchanges of `tp` were all
// exposed.
TEST(PlanReport, OnTpWhatTravelsStandsBesideProducts) {
  RunConfig config = parse_config(
      R"({"name": "wide", "model": {"kind": "llama", "vocab": 1000, "context": 8192, "width": 8192, "depth": 3,
                                    "heads": 64, "kv_heads": 8, "hidden": 28672},
          "data": {"paths": ["a.txt"], "kind": "tokens"}, "batch": {"global": 1, "micro": 1},
          "mesh": {"shape": [8], "dim_names": ["tp"]}, "train": {"device": "cuda", "precision": "bf16"}})",
      "wide.json");
  const Roofline h200 = roofline_named("h200");
  auto planned = [&](int64_t pieces, const char* skipped) {
    config.compile.tp_pieces = pieces;
    config.compile.skip_passes.clear();
    if (*skipped) config.compile.skip_passes.push_back(skipped);
    return make_report(config, PaperRun(config, 8, cpu_target()), &h200);
  };
  const PlanReport as_traced = planned(1, "fill_waits"), whole = planned(1, ""), two = planned(2, ""),
                   chosen = planned(0, "");
  EXPECT_LT(whole.prediction.exposed_s, 0.75 * as_traced.prediction.exposed_s) << "of forward alone";
  EXPECT_LT(two.prediction.exposed_s, 0.8 * whole.prediction.exposed_s);
  EXPECT_LT(two.prediction.step_s, whole.prediction.step_s);
  EXPECT_EQ(whole.tp_pieces, 1);
  EXPECT_EQ(chosen.tp_pieces, 2);
  EXPECT_EQ(chosen.certificate, two.certificate) << "it is the same program, chosen or given";
  EXPECT_NE(chosen.certificate, whole.certificate);
  EXPECT_NE(
      plan_text(chosen).find("  products on tp            forward in 2 pieces: one travels while another"),
      std::string::npos);
  config.train.device = "cpu";
  EXPECT_EQ(planned(0, "").tp_pieces, 1) << "not on a CPU, unless it is asked for";
}

}  // namespace
}  // namespace lockstep
