#include "Style.h"

namespace dtc::report {

// Text on coloured cells keeps a contrast of at least 4.5. Fills lie between 0.88 and 0.72 in
// lightness under dark text, between 0.38 and 0.51 under light text.
static constexpr const char *kSheet = R"css(
:root{--page:#fcfcfa;--ink:#1d2125;--soft:#565d66;--line:#d8dbdf;--panel:#fff;--empty:#eceef0;
--accent:#20639b;--warn:#8f2115;--warnback:#fdecea;--mark:#fff6d6;--l0:.9;--ls:-.026;--c:.085;
--k0:#3f7fbf;--k1:#e39a3b;--k2:#4fa57a;--k3:#7d8791;--k4:#b9bfc6;--k5:#c0707f;--k6:#9a7bb8;
--t0:#2f7d57;--t1:#8cc5a4;--t2:#d5643f;--t3:#b9bfc6;--t4:#c9b458;--t5:#9a7bb8}
@media screen and (prefers-color-scheme:dark){:root{--page:#14171a;--ink:#e6e8ea;--soft:#a3abb4;--line:#363c43;
--panel:#1b1f23;--empty:#2a2f35;--accent:#6fb1ea;--warn:#ffb4a8;--warnback:#44201b;--mark:#3a3417;
--l0:.38;--ls:.018;--c:.08;--k0:#4a8fd3;--k1:#d58a2a;--k2:#47a177;--k3:#7f8a95;--k4:#59626b;
--k5:#b8606f;--k6:#9d80bd;--t0:#3c9b6d;--t1:#2c5e47;--t2:#d9683f;--t3:#59626b;--t4:#8f7d2c;--t5:#9d80bd}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:1180px;padding:1.5rem 1.25rem 4rem;background:var(--page);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
h1{font-size:1.7rem;line-height:1.2;margin:.1rem 0 .5rem;overflow-wrap:anywhere}
h1 code{font:inherit}
h2{font-size:1.3rem;margin:0 0 .3rem}
h3{font-size:1rem;margin:1.4rem 0 .3rem}
p{margin:.3rem 0 .7rem;max-width:75ch}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;overflow-wrap:anywhere}
section{margin-top:2.2rem;padding-top:1.4rem;border-top:1px solid var(--line)}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.kicker{color:var(--soft);font-size:.8rem;letter-spacing:.08em;text-transform:uppercase;margin:0}
.lead{font-size:1.08rem}
.degrees{font-weight:600;background:var(--empty);border-radius:6px;padding:.45rem .7rem;display:inline-block}
.about,.note,.tile .note{color:var(--soft)}
.note{font-size:.88rem}
.warning{background:var(--warnback);color:var(--warn);padding:.6rem .9rem;border-radius:6px;font-weight:600}
nav ul,.legend,.nodes,.devices{list-style:none;margin:0;padding:0}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin-top:1rem}
p:has(.degrees){max-width:none}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:.7rem;margin:1rem 0}
.tile{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem}
.tile dt{color:var(--soft);font-size:.85rem}
.tile dd{margin:0;font-size:1.3rem;font-weight:600;line-height:1.3}
.tile .note{display:block;font-size:.8rem;font-weight:400}
.choices{margin:.4rem 0}
.choices div{display:grid;grid-template-columns:minmax(8.5rem,13rem) 1fr;gap:0 1rem;padding:.35rem 0;border-bottom:1px solid var(--line)}
.choices dt{font-weight:600}
.choices dd{margin:0}
.wide{overflow-x:auto;margin:.5rem 0}
.wide>svg{display:block;min-width:760px;width:100%;height:auto}
svg text{fill:var(--soft);font-size:11px;font-variant-numeric:tabular-nums}
svg .mid,.mid text{text-anchor:middle}
svg .end{text-anchor:end}
svg g.mid text{fill:var(--ink)}
.empty{fill:var(--empty)}
.grid{stroke:var(--line);stroke-width:1}
.limit{stroke:var(--warn);stroke-width:1.5;stroke-dasharray:6 4}
.limit-swatch{fill:none;stroke:var(--warn);stroke-width:2;stroke-dasharray:4 2}
.accent{fill:var(--accent)}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.32rem .7rem .32rem 0;border-bottom:1px solid var(--line);vertical-align:top;font-weight:400}
tbody th{min-width:9rem}
thead th,thead td{color:var(--soft);font-size:.8rem;vertical-align:bottom}
.number,thead .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.group,.total th,.total td{font-weight:600}
.group{padding-top:.9rem}
.chosen{background:var(--mark)}
.bad{color:var(--warn)}
.small{width:120px;height:10px;display:block;margin-top:.45em}
.bar{width:100%;height:30px;display:block;border-radius:4px}
.dim{white-space:nowrap}
.split b,.pending{font-weight:600;color:var(--accent)}
.shape{font-variant-numeric:tabular-nums}
.exchange td{background:var(--mark)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;font-size:.88rem;margin:.5rem 0}
.legend svg,td>svg:not(.small){vertical-align:-2px;margin-right:.4em}
.nodes{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:.7rem;margin:.6rem 0}
.node{border:1px solid var(--line);border-radius:8px;background:var(--panel);padding:.5rem .7rem .7rem}
.node p{margin:0 0 .3rem}
.devices{display:grid;grid-template-columns:repeat(4,1fr);gap:4px}
.device,.more{border-radius:4px;font-size:.78rem;padding:.35rem .2rem;text-align:center;min-height:2.1rem}
.device{background:oklch(calc(var(--l0) + var(--ls)*var(--s)) var(--c) var(--h))}
.idle{background:var(--empty)}
.call{stroke:none;fill:oklch(calc(var(--l0) + var(--ls)*var(--s)) .1 var(--h))}
.cf{--h:250}.cb{--h:65}.cw{--h:155}.cu{--h:310}.call.cc{fill:var(--t2)}
.multiples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:1rem}
.small-multiple{margin:0;max-width:620px}
.small-multiple svg{width:100%;height:auto;display:block}
figcaption{font-size:.88rem;margin-bottom:.2rem}
.ranks{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr));gap:.3rem 1.2rem}
.ranks div{display:grid;grid-template-columns:4rem 1fr;align-items:center;font-size:.85rem}
.ranks .bar{height:14px}
@media (max-width:520px){.small{width:56px}body{padding:1rem .8rem 3rem}.choices div{grid-template-columns:1fr}h1{font-size:1.35rem}
.multiples text{font-size:15px}}
@media print{:root{--page:#fff}body{max-width:none;padding:0;font-size:11pt}nav{display:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}.wide{overflow:visible}.wide>svg{min-width:0}
.multiples{grid-template-columns:1fr 1fr}.node,.tile,figure,tr,.wide>svg{break-inside:avoid}h2,h3{break-after:avoid}table{font-size:8pt}}
)css";

/// Hues of pipeline ranks, and shades of parts of a layer or chunks of a rank.
static std::string scales() {
  constexpr int kHues = 16, kShades = 8;
  std::string css;
  for (int i = 0; i < kHues; ++i)
    css += ".h" + std::to_string(i) + "{--h:" + std::to_string((250 + i * 360 / kHues) % 360) + "}";
  for (int i = 0; i < kShades; ++i)
    css += ".s" + std::to_string(i) + "{--s:" + std::to_string(i) + "}";
  for (int i = 0; i < 7; ++i)
    css += ".k" + std::to_string(i) + "{fill:var(--k" + std::to_string(i) + ")}";
  for (int i = 0; i < 6; ++i)
    css += ".t" + std::to_string(i) + "{fill:var(--t" + std::to_string(i) + ")}";
  return css;
}

std::string styleSheet() { return kSheet + scales() + "\n"; }

} // namespace dtc::report
