#include "dtc/Report/Report.h"

#include "Sections.h"
#include "Style.h"

namespace dtc::report {

void openSection(Html &html, const std::string &id, const std::string &title,
                 const std::string &about) {
  html.open("section", {{"id", id}, {"aria-labelledby", id + "-heading"}});
  html.element("h2", {{"id", id + "-heading"}}, title);
  html.element("p", {{"class", "about"}}, about);
}

void openWide(Html &html, const std::string &label) {
  // Scrollable by keyboard where it is wider than the page.
  html.open("div",
            {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", label}});
}

void openTable(Html &html, const std::string &label, const std::vector<Column> &columns) {
  openWide(html, label);
  html.open("table").open("thead").open("tr");
  for (const Column &column : columns)
    if (!*column.title)
      html.element("td", "");
    else
      html.element("th", {{"scope", "col"}, {"class", column.isNumber ? "number" : "text"}},
                   column.title);
  html.close().close().open("tbody");
}

static void writeNavigation(Html &html, const Page &page) {
  struct Link {
    const char *to, *text;
    bool shown = true;
  };
  html.open("nav", {{"aria-label", "Parts of this page"}}).open("ul");
  for (const Link &link :
       {Link{"#plan", "The plan"}, Link{"#cluster", "Cluster"}, Link{"#model", "Model"},
        Link{"#timetable", "Timetable"}, Link{"#time", "Time"}, Link{"#memory", "Memory"},
        Link{"#collectives", "Communication"}, Link{"#alternatives", "Alternatives"},
        Link{"#explanation", "Why", page.explanation != nullptr},
        Link{"#glossary", "Terms"}})
    if (link.shown)
      html.open("li").element("a", {{"href", link.to}}, link.text).close();
  html.close().close();
}

static void writeHead(Html &html, const Page &page, const Digest &digest) {
  std::string style = styleSheet();
  html.open("head").leaf("meta", {{"charset", "utf-8"}});
  html.leaf("meta", {{"http-equiv", "Content-Security-Policy"},
                     {"content", "default-src 'none'; style-src 'sha256-" + digest(style) +
                                     "'; base-uri 'none'; form-action 'none'"}});
  html.leaf("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  html.leaf("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  html.leaf("meta", {{"name", "referrer"}, {"content", "no-referrer"}});
  html.element("title", modelName(page).substr(0, 200) + ": dtc plan report");
  html.style(style).close();
}

void writeGlossary(Html &html, const Page &page) {
  static constexpr std::pair<const char *, const char *> terms[] = {
      {"Step", "One update of the weights from one global batch of samples."},
      {"Rank", "One of the devices, counted from 0."},
      {"Mesh",
       "The devices of a stage arranged in a grid whose axes are the degrees dp, tp and so on."},
      {"Sharding", "How a tensor is cut over the axes of the mesh."},
      {"Microbatch", "The samples that go through the model at once on one copy of it."},
      {"Activations", "Results of the forward pass that the backward pass needs again."},
      {"Bubble", "Time in which a rank has nothing to do because others aren't ready."},
      {"Exposed communication", "Communication during which nothing is computed."},
      {"MFU",
       "Model flops utilization: arithmetic of the model's matrix products, forward and backward "
       "and nothing twice, over what the devices could do at their peak rate."},
      {"TFLOP/s", "10^12 additions or multiplications a second."},
      {"GiB", "2^30 bytes."},
  };
  openSection(html, "glossary", "Terms", "The words of this page, in short.");
  html.open("dl", {{"class", "choices"}});
  for (auto [term, text] : terms)
    html.open("div").element("dt", term).element("dd", text).close();
  html.close().close();
}

plan::Result<std::string> reportPage(const PlanFacts &facts, const Digest &digest,
                                     const plan::Explanation *explanation) {
  simulate::Timeline timeline =
      plan::simulateStep(facts.problem, facts.search.plan, facts.cluster, facts.workspace);
  if (!timeline.error.empty())
    return plan::Error{"--report: " + timeline.error, ErrorCategory::Usage};
  Page page{facts, timeline, explanation};
  Html html;
  html.open("html", {{"lang", "en"}});
  writeHead(html, page, digest);
  html.open("body");
  writeSummary(html, page);
  writeNavigation(html, page);
  html.open("main");
  for (auto *section : {writeChoices, writeCluster, writeParameters, writeLayer, writeStages,
                        writeTimetable, writeTime, writeMemory, writeCollectives, writeAlternatives,
                        writeExplanation, writeGlossary})
    section(html, page);
  return html.take();
}

} // namespace dtc::report
