// The parts of the page, in the order in which they stand on it.
#pragma once

#include "Html.h"

#include "dtc/Plan/Explain/Explain.h"
#include "dtc/Report/PlanFacts.h"
#include "dtc/Simulate/Simulate.h"

namespace dtc::report {

/// What all parts draw on.
struct Page {
  const PlanFacts &facts;
  const simulate::Timeline &timeline; ///< with a trace
  const plan::Explanation *explanation = nullptr;
  const plan::Plan &plan() const { return facts.search.plan; }
  const plan::Degrees &degrees() const { return plan().degrees; }
  const plan::Prediction &predicted() const { return facts.search.predicted; }
};

void writeSummary(Html &html, const Page &page);
void writeChoices(Html &html, const Page &page);
void writeCluster(Html &html, const Page &page);
void writeParameters(Html &html, const Page &page);
void writeLayer(Html &html, const Page &page);
void writeStages(Html &html, const Page &page);
void writeTimetable(Html &html, const Page &page);
void writeTime(Html &html, const Page &page);
void writeMemory(Html &html, const Page &page);
void writeCollectives(Html &html, const Page &page);
void writeAlternatives(Html &html, const Page &page);
void writeExplanation(Html &html, const Page &page);
void writeGlossary(Html &html, const Page &page);

/// Opens a `<section>` with its heading and what it is about; to be closed.
void openSection(Html &html, const std::string &id, const std::string &title,
                 const std::string &about);
/// Opens a `<figure>` or a table that may be wider than the page; to be closed twice.
void openWide(Html &html, const std::string &label);
struct Column {
  const char *title; ///< "": none
  bool isNumber = false;
};
/// A table with its heading row; `<table>`, `<tbody>` and what `openWide` opened
/// are to be closed.
void openTable(Html &html, const std::string &label, const std::vector<Column> &columns);

/// The model file without its folder.
std::string modelName(const Page &page);

/// "stages 0, 2", "layers 0-3, 8-11" of a rank of the pipeline; empty where there
/// are no layers.
std::string stagesOfRank(const Page &page, int64_t rank);
std::string layersOfRank(const Page &page, int64_t rank);

} // namespace dtc::report
