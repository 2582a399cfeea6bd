// The page's style sheet.
#include "launcher/report/page.h"

namespace lockstep::launcher {

const char* const kPageStyle = R"css(:root {
  --ground: #f7f7f5; --panel: #ffffff; --ink: #1d2125; --quiet: #5f6871; --line: #e3e5e7; --faint: #eef0f1;
  --c0: #2e6bd0; --c1: #d9822b; --c2: #2f8f62; --c3: #8a63c9; --c4: #c2475c; --c5: #4a9fb5; --c6: #9a8b3c; --c7: #8b949e;
  --c8: #a0603d; --c9: #c46fb0;
  --bad: #c0392b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #131619; --panel: #1a1e22; --ink: #e4e7ea; --quiet: #98a2ab; --line: #2b3137; --faint: #22272c;
    --c0: #6ea1f2; --c1: #e9a45c; --c2: #63c096; --c3: #b096e6; --c4: #e27d8e; --c5: #79c3d6; --c6: #cdbd6c; --c7: #77818b;
    --c8: #c98a66; --c9: #dd9bce;
    --bad: #ef7d70;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
main { max-width: 1180px; margin: 0 auto; padding: 40px 28px 72px; }
h1 { font-size: 26px; line-height: 1.2; font-weight: 650; margin: 0; letter-spacing: -0.01em; overflow-wrap: anywhere; }
header > p { margin: 6px 0 0; color: var(--quiet); }
h2 { font-size: 17px; font-weight: 650; margin: 0 0 4px; }
section { margin-top: 44px; }
.lead { margin: 0 0 14px; color: var(--quiet); max-width: 76ch; }
h2 + .grid, h2 + .events { margin-top: 12px; }
dl, dd, dt, figure, ul, ol { margin: 0; padding: 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); margin-top: 24px;
  background: var(--panel); border: 1px solid var(--line); border-radius: 10px; overflow: hidden; }
.fact { padding: 13px 16px 12px; min-width: 0; box-shadow: 1px 1px 0 0 var(--line); }
.fact dt { color: var(--quiet); font-size: 13px; }
.fact dd { font-size: 20px; font-weight: 600; line-height: 1.35; overflow-wrap: anywhere; }
.fact p { margin: 0; color: var(--quiet); font-size: 13px; overflow-wrap: anywhere; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; align-items: stretch; }
.grid + .grid { margin-top: 16px; }
figure { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; min-width: 0; }
figcaption { display: flex; justify-content: space-between; gap: 12px; font-weight: 600; margin-bottom: 10px; }
.chart { padding-bottom: 8px; }
.chart figcaption { margin-bottom: 0; }
.chart figcaption > small { white-space: nowrap; }
.chart figcaption small { font-weight: 400; color: var(--quiet); font-size: 13px; }
.legend { display: flex; flex-wrap: wrap; gap: 0 16px; min-height: 21px; font-size: 13px; color: var(--quiet); }
.legend b { color: var(--ink); font-weight: 600; }
.legend i { display: inline-block; width: 10px; height: 3px; border-radius: 2px; margin-right: 6px; vertical-align: middle; background: currentColor; }
.legend i.dot { width: 7px; height: 7px; border-radius: 50%; }
.chart svg { display: block; width: 100%; touch-action: pan-y; margin-top: 4px; }
.chart text { font-size: 12px; fill: var(--quiet); }
.chart .gridline { stroke: var(--faint); }
.chart .axis { stroke: var(--line); }
.chart .mark { stroke: var(--quiet); stroke-dasharray: 2 3; opacity: 0.7; }
.chart .mark.bad { stroke: var(--bad); }
.chart .cursor { stroke: var(--quiet); opacity: 0.6; }
.bar b { font-weight: 600; }
.whole { display: flex; gap: 2px; height: 18px; border-radius: 4px; overflow: hidden; background: var(--faint); }
.whole i { display: block; min-width: 1px; }
.bar ul { list-style: none; margin-top: 12px; font-size: 14px; }
.bar li { display: grid; grid-template-columns: 10px minmax(0, 1fr) auto 52px; gap: 0 10px; align-items: baseline; padding: 3px 0; }
.bar li i { width: 10px; height: 10px; border-radius: 2px; }
.bar small { color: var(--quiet); margin-left: 8px; white-space: nowrap; }
.figure, .share { text-align: right; white-space: nowrap; }
.share { color: var(--quiet); }
.c0 { background: var(--c0); } .c1 { background: var(--c1); } .c2 { background: var(--c2); } .c3 { background: var(--c3); }
.c4 { background: var(--c4); } .c5 { background: var(--c5); } .c6 { background: var(--c6); } .c7 { background: var(--c7); }
.c8 { background: var(--c8); } .c9 { background: var(--c9); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: right; padding: 5px 0 5px 16px; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th { color: var(--quiet); font-weight: 400; font-size: 13px; border-bottom-color: var(--line); }
tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.words th, .words td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.words td:first-child { color: var(--quiet); width: 30%; }
.events { list-style: none; background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 6px 16px; font-size: 14px; }
.events li { display: grid; grid-template-columns: 88px minmax(0, 1fr) auto; gap: 0 14px; padding: 7px 0; border-bottom: 1px solid var(--faint); }
.events li:last-child { border-bottom: 0; }
.events .step, .events time { color: var(--quiet); white-space: nowrap; }
.events .what { overflow-wrap: anywhere; }
.events .bad .what { color: var(--bad); }
details { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 10px 16px; }
summary { cursor: pointer; font-weight: 600; }
pre { font: 12.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-x: auto; margin: 10px 0 4px; }
@media (max-width: 600px) {
  main { padding: 24px 16px 48px; }
  section { margin-top: 34px; }
  .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .fact { padding: 11px 12px 10px; }
  .fact dd { font-size: 17px; }
  table { font-size: 13px; }
  th, td { padding-left: 10px; }
  th:first-child, td:first-child { white-space: normal; }
  .events li { grid-template-columns: minmax(0, 1fr) auto; }
  .events .what { grid-column: 1 / -1; grid-row: 2; }
}
@media print { body { background: none; } .grid { break-inside: avoid; } }
)css";

}  // namespace lockstep::launcher
