#include "dtc-rt/Metrics.h"

#include "dtc-io/Json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>
#include <utility>

namespace dtc::rt {
namespace {

using Json = nlohmann::ordered_json;

template <typename T> Json orNull(const std::optional<T> &value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string format(const char *pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

std::string duration(double seconds) {
  int64_t whole = std::llround(seconds);
  char text[64];
  if (whole >= 3600)
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", static_cast<long long>(whole / 3600),
                  static_cast<long long>(whole / 60 % 60), static_cast<long long>(whole % 60));
  else
    std::snprintf(text, sizeof(text), "%lld:%02lld", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  return text;
}

std::string mebibytes(uint64_t bytes) {
  return format("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// "1234 tokens/s", or samples where there are no tokens.
std::string rate(const MetricsSetup &setup, double seconds) {
  double perSecond = static_cast<double>(setup.globalBatch) / seconds;
  if (setup.sequence)
    return format("%.0f tokens/s", perSecond * static_cast<double>(*setup.sequence));
  return format("%.1f samples/s", perSecond);
}

/// Whether a line of a log is of one of the first steps.
bool isStepUpTo(int64_t last, std::string_view line) {
  std::string why;
  std::optional<Json> json = io::parseJson<Json>(line, why);
  if (!json || !json->is_object())
    return false;
  auto step = json->find("step");
  return step != json->end() && step->is_number_integer() && *step <= last;
}

} // namespace

std::string logLine(const StepMetrics &metrics, const MetricsSetup &setup) {
  double samples = static_cast<double>(setup.globalBatch) / metrics.seconds;
  Json line;
  line["step"] = metrics.step;
  line["loss"] = orNull(metrics.loss);
  if (metrics.evalLoss)
    line["eval_loss"] = *metrics.evalLoss;
  line["lr"] = metrics.lr;
  line["grad_norm"] = orNull(metrics.gradNorm);
  line["nonfinite_grads"] =
      metrics.nonFinite ? Json(std::llround(*metrics.nonFinite)) : Json(nullptr);
  if (metrics.lossScale)
    line["loss_scale"] = *metrics.lossScale;
  if (metrics.skippedSteps)
    line["skipped_steps"] = std::llround(*metrics.skippedSteps);
  if (metrics.droppedTokens)
    line["dropped_tokens"] = std::llround(*metrics.droppedTokens);
  line["step_time_s"] = metrics.seconds;
  line["samples_per_s"] = samples;
  line["tokens_per_s"] =
      setup.sequence ? Json(samples * static_cast<double>(*setup.sequence)) : Json(nullptr);
  line["peak_memory_bytes"] = setup.arenaBytes;
  if (setup.overhead) {
    line["context_bytes"] = setup.overhead->context;
    line["communicator_bytes"] = setup.overhead->communicators;
  }
  line["predicted_step_time_s"] = orNull(setup.predictedStepTime);
  return line.dump();
}

MetricsReporter::MetricsReporter(const MetricsSetup &setup)
    : setup(setup), terminal(::isatty(STDERR_FILENO) == 1), started(Clock::now()) {}

Result<MetricsReporter> MetricsReporter::create(const MetricsSetup &setup,
                                                const std::string &logPath) {
  MetricsReporter reporter(setup);
  if (logPath.empty())
    return reporter;
  auto isBefore = [&setup](std::string_view line) { return isStepUpTo(setup.stepsBefore, line); };
  Result<LogFile> log =
      setup.stepsBefore > 0 ? LogFile::create(logPath, isBefore) : LogFile::create(logPath);
  if (!log)
    return log.status();
  reporter.log.emplace(std::move(*log));
  return reporter;
}

void MetricsReporter::report(const StepMetrics &metrics) {
  if (times.empty())
    first = metrics;
  last = metrics;
  times.push_back(metrics.seconds);
  if (log)
    appendToLog(metrics);
  showProgress(metrics);
}

void MetricsReporter::appendToLog(const StepMetrics &metrics) {
  if (Status status = log->append(logLine(metrics, setup)); !status.isOk())
    sayLogFailed(status, metrics.step);
}

void MetricsReporter::sayLogFailed(const Status &status, int64_t step) {
  if (std::exchange(saidLogFailed, true))
    return;
  endProgressLine();
  std::fprintf(stderr,
               "dtc-run: warning: %s; training goes on, from step %lld on the log lacks "
               "lines\n",
               status.message().c_str(), static_cast<long long>(step));
}

void MetricsReporter::closeLog() {
  if (!log || setup.stepsBefore == 0)
    return;
  if (Status status = log->begin(); !status.isOk())
    sayLogFailed(status, setup.stepsBefore);
}

void MetricsReporter::discardEmptyLog() const {
  if (log)
    log->removeIfEmpty();
}

void MetricsReporter::showProgress(const StepMetrics &metrics) {
  Clock::time_point now = Clock::now();
  // A terminal's line may change often; a log file gets a line now and then.
  auto pause = std::chrono::milliseconds(terminal ? 100 : 2000);
  bool edge = times.size() == 1 || metrics.step == setup.lastStep || metrics.evalLoss;
  if (!edge && now - shown < pause)
    return;
  shown = now;
  double elapsed = std::chrono::duration<double>(now - started).count();
  double mean = elapsed / static_cast<double>(times.size());
  std::string text = "step " + std::to_string(metrics.step) + "/" + std::to_string(setup.lastStep);
  if (metrics.loss)
    text += "  loss " + format("%.4f", *metrics.loss);
  if (metrics.evalLoss)
    text += "  eval loss " + format("%.4f", *metrics.evalLoss);
  text += "  " + rate(setup, metrics.seconds) + "  ETA " +
          duration(mean * static_cast<double>(setup.lastStep - metrics.step));
  if (terminal)
    std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
  else
    std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
  lineOpen = terminal;
}

void MetricsReporter::endProgressLine() {
  if (lineOpen)
    std::fprintf(stderr, "\n");
  lineOpen = false;
}

/// "812.3 us", "1.662 ms", "16.95 s": four digits, in the unit in which they are read.
static std::string timeText(double seconds) {
  if (seconds >= 1)
    return format(seconds >= 1000 ? "%.0f s" : "%.4g s", seconds);
  return seconds >= 1e-3 ? format("%.4g ms", seconds * 1e3) : format("%.4g us", seconds * 1e6);
}

std::string MetricsReporter::finish() {
  endProgressLine();
  if (times.empty())
    return {};
  double typical = median(times);
  std::string text = std::to_string(times.size()) + (times.size() == 1 ? " step" : " steps");
  if (first.loss && last.loss)
    text += ", loss " + format("%.4f", *first.loss) + " -> " + format("%.4f", *last.loss);
  text += ", " + timeText(typical) + " a step (median)" + ", " + rate(setup, typical) + ", " +
          mebibytes(setup.arenaBytes) + " a rank";
  if (setup.hostBytes > 0)
    text += ", " + mebibytes(setup.hostBytes) + " on its host";
  if (setup.overhead) {
    text += ", beside it " + mebibytes(setup.overhead->context) + " of the context";
    if (setup.overhead->communicators > 0)
      text += " and " + mebibytes(setup.overhead->communicators) + " of communicators";
  }
  return text;
}

} // namespace dtc::rt
