// What other choices would cost, and what pins do: the answer of `--explain`.
#include "Figures.h"
#include "Sections.h"

#include "dtc/Report/Explanation.h"
#include "dtc/Report/Failure.h"
#include "dtc/Report/Words.h"

#include <algorithm>

namespace dtc::report {

using plan::Change;
using plan::Explanation;

static void writeChange(Html &html, const Change &change, const Explanation &explanation,
                        double slowest) {
  html.open("tr").open("th", {{"scope", "row"}}).element("code", change.setting).close();
  if (change.rival) {
    html.element("td", {{"class", "number"}}, formatSeconds(change.rival->stepSeconds));
    html.open("td");
    smallBar(html, explanation.predicted.stepSeconds + change.rival->difference.seconds, slowest,
             change.rival->fits() ? "t3" : "t2");
    html.close().element("td", lossText(*change.rival, explanation));
  } else {
    html.element("td", {{"class", "number"}}, "\u2013").element("td", "");
    html.element("td", "not possible: " + failureText(*change.refusal));
  }
  html.close();
}

static void writeChanges(Html &html, const Explanation &explanation) {
  if (explanation.changes.empty())
    return;
  double slowest = explanation.predicted.stepSeconds;
  for (const Change &change : explanation.changes)
    if (change.rival)
      slowest =
          std::max(slowest, explanation.predicted.stepSeconds + change.rival->difference.seconds);
  html.element("h3", "One choice taken otherwise, the rest kept");
  openTable(html, "One choice taken otherwise",
            {{"Choice"}, {"Step time", true}, {""}, {"Against the chosen plan"}});
  for (const Change &change : explanation.changes)
    writeChange(html, change, explanation, slowest);
  html.close().close().close();
}

void writeExplanation(Html &html, const Page &page) {
  if (!page.explanation)
    return;
  openSection(html, "explanation", "Why this plan",
              "The search, run again with one thing different: what every choice that was left "
              "open is worth, and what is fixed by hand costs.");
  writeChanges(html, *page.explanation);
  if (!page.explanation->pins.empty()) {
    html.element("h3", "What is fixed by hand").open("ul");
    for (const plan::PinPrice &pin : page.explanation->pins)
      html.element("li", pinText(pin, *page.explanation));
    if (page.explanation->unpinned)
      html.element("li", "Without any pin " + degreesText(page.explanation->unpinned->degrees) +
                             " would be " +
                             lossText(*page.explanation->unpinned, *page.explanation) + ".");
    html.close();
  }
  html.close();
}

} // namespace dtc::report
