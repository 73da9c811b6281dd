#include "RunProfile.h"

#include "dtc-io/InputFile.h"
#include "dtc-io/Json.h"
#include "dtc/Report/Words.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>
#include <vector>

namespace dtc::driver {
namespace {

using nlohmann::ordered_json;

struct Span {
  double begin = 0, end = 0; ///< microseconds
  double length() const { return end - begin; }
};

/// What one rank did.
struct RankSpans {
  std::vector<Span> steps, computing, communicating;
  std::map<std::string, std::vector<Span>> kinds;

  /// All but the first, which prepares much; a single one counts.
  std::vector<Span> countedSteps() const {
    return {steps.begin() + (steps.size() > 1), steps.end()};
  }
};

bool communicates(const std::string &kind) {
  static constexpr const char *kKinds[] = {
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "send", "receive"};
  return std::ranges::find(kKinds, kind) != std::end(kKinds);
}

double overlapOf(const Span &a, const Span &b) {
  return std::max(0.0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

double totalOf(const std::vector<Span> &spans) {
  double total = 0;
  for (const Span &span : spans)
    total += span.length();
  return total;
}

/// Where both lists have something. Spans of a queue come one after another.
std::vector<Span> intersection(std::vector<Span> a, std::vector<Span> b) {
  auto byBegin = [](const Span &x, const Span &y) { return x.begin < y.begin; };
  std::ranges::sort(a, byBegin);
  std::ranges::sort(b, byBegin);
  std::vector<Span> result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (overlapOf(a[i], b[j]) > 0)
      result.push_back({std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)});
    a[i].end < b[j].end ? ++i : ++j;
  }
  return result;
}

class Summary {
public:
  /// False where an event is none of dtc-run's.
  bool add(const ordered_json &event) {
    if (!event.is_object() || !event.contains("ph") || !event["ph"].is_string())
      return false;
    if (event["ph"] != "X")
      return true;
    for (const char *key : {"pid", "ts", "dur"})
      if (!event.contains(key) || !event[key].is_number())
        return false;
    if (!event["pid"].is_number_integer())
      return false;
    if (!event.contains("cat") || !event["cat"].is_string())
      return false;
    addSlice(event["pid"].get<int64_t>(), event["cat"].get<std::string>(),
             {event["ts"].get<double>(), event["ts"].get<double>() + event["dur"].get<double>()});
    return true;
  }

  bool hasSteps() const {
    return !ranks.empty() &&
           std::ranges::all_of(ranks, [](const auto &rank) { return !rank.second.steps.empty(); });
  }

  ordered_json take() const {
    double step = 0, computing = 0, communicating = 0, overlapped = 0;
    size_t steps = 0;
    for (const auto &[number, rank] : ranks) {
      const std::vector<Span> counted = rank.countedSteps();
      std::vector<Span> computed = intersection(rank.computing, counted);
      std::vector<Span> communicated = intersection(rank.communicating, counted);
      steps += counted.size();
      step += totalOf(counted);
      computing += totalOf(computed);
      communicating += totalOf(communicated);
      overlapped += totalOf(intersection(computed, communicated));
    }
    double each = 1e-6 / static_cast<double>(steps), exposed = communicating - overlapped;
    return {{"steps", ranks.begin()->second.steps.size()},
            {"step_time_s", step * each},
            {"computing_s", computing * each},
            {"exposed_communication_s", exposed * each},
            {"overlapped_communication_s", overlapped * each},
            {"waiting_s", std::max(0.0, step - computing - exposed) * each},
            {"kinds", kindsJson(steps)}};
  }

private:
  void addSlice(int64_t number, const std::string &kind, const Span &span) {
    RankSpans &rank = ranks[number];
    if (kind == "step")
      return rank.steps.push_back(span);
    (communicates(kind) ? rank.communicating : rank.computing).push_back(span);
    rank.kinds[kind].push_back(span);
  }

  /// Calls and seconds of a step and rank. A call is of the step in which its middle lies: a GPU's
  /// times are a little off.
  ordered_json kindsJson(size_t steps) const {
    std::map<std::string, std::pair<int64_t, double>> totals;
    for (const auto &[number, rank] : ranks) {
      const double begin = rank.countedSteps().front().begin;
      for (const auto &[name, spans] : rank.kinds)
        for (const Span &span : spans)
          if (span.begin + span.end >= 2 * begin) {
            ++totals[name].first;
            totals[name].second += span.length();
          }
    }
    ordered_json result = ordered_json::object();
    const auto all = static_cast<double>(steps);
    for (const auto &[name, total] : totals)
      result[name] = {{"calls", static_cast<double>(total.first) / all},
                      {"seconds", total.second * 1e-6 / all}};
    return result;
  }

  std::map<int64_t, RankSpans> ranks;
};

rt::Status refused(const std::string &path, const std::string &why) {
  return {ErrorCategory::InputRefused, path + ": " + why};
}

} // namespace

rt::Result<ordered_json> summarizeProfile(const std::string &path) {
  std::string why;
  auto file = io::MappedFile::open(path, why);
  if (!file)
    return refused(path, why);
  std::span<const char> bytes = file->bytes();
  auto root = io::parseJson<ordered_json>({bytes.data(), bytes.size()}, why);
  if (!root)
    return refused(path, why);
  if (!root->is_object() || !root->contains("traceEvents") || !(*root)["traceEvents"].is_array())
    return refused(path, "is not a profile of dtc-run: it has no list traceEvents");
  Summary summary;
  for (const ordered_json &event : (*root)["traceEvents"])
    if (!summary.add(event))
      return refused(path, "has an event that dtc-run doesn't write");
  if (!summary.hasSteps())
    return refused(path, "has no steps");
  return summary.take();
}

std::string comparisonText(const ordered_json &predicted, const ordered_json &measured) {
  std::ostringstream text;
  auto row = [&](const char *name, const char *key) {
    auto cell = [&](const ordered_json &facts) {
      bool known = facts.contains(key) && facts[key].is_number();
      return known ? report::formatSeconds(facts[key].get<double>()) : std::string("-");
    };
    text << std::left << std::setw(28) << name << std::setw(14) << cell(predicted) << cell(measured)
         << "\n";
  };
  text << std::left << std::setw(28) << "a step and rank" << std::setw(14) << "predicted"
       << "measured\n";
  row("step", "step_time_s");
  row("computing", "computing_s");
  row("exposed communication", "exposed_communication_s");
  row("overlapped communication", "overlapped_communication_s");
  row("waiting", "waiting_s");
  for (const auto &[name, kind] : measured.at("kinds").items())
    text << "  " << std::left << std::setw(26) << name << std::setw(14) << ""
         << report::formatSeconds(kind["seconds"].get<double>()) << "  x " << kind["calls"] << "\n";
  return text.str();
}

} // namespace dtc::driver
