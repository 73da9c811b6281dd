// What a run says of its steps: the log (JSON lines), progress, the summary.
#pragma once

#include "dtc-rt/DeviceOverhead.h"
#include "dtc-rt/Files/LogFile.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtc::rt {

struct StepMetrics {
  int64_t step = 0;
  std::optional<double> loss, gradNorm;
  std::optional<double> nonFinite; ///< elements of the gradients
  double lr = 0, seconds = 0;
  std::optional<double> evalLoss = std::nullopt; ///< after the step's update
  /// Where the loss is scaled: the scale of the next step, and steps so far without an update.
  std::optional<double> lossScale = std::nullopt, skippedSteps = std::nullopt;
  /// Choices of tokens whose expert had no slot left; where a program drops these.
  std::optional<double> droppedTokens = std::nullopt;
};

/// What doesn't change from step to step.
struct MetricsSetup {
  int64_t globalBatch = 1;
  std::optional<int64_t> sequence;
  uint64_t arenaBytes = 0; ///< of the rank that has most
  uint64_t hostBytes = 0;  ///< beside them in its host's memory, likewise
  std::optional<DeviceOverhead> overhead = std::nullopt; ///< rank 0's, once it is known
  std::optional<double> predictedStepTime;
  int64_t stepsBefore = 0; ///< of the run that this one goes on with; the log keeps their lines
  int64_t lastStep = 1;
};

/// One JSON object, as `--log` has it: numbers are written so that reading
/// them gives the same double.
std::string logLine(const StepMetrics &metrics, const MetricsSetup &setup);

class MetricsReporter {
public:
  /// `logPath` may be empty.
  static Result<MetricsReporter> create(const MetricsSetup &setup, const std::string &logPath);

  /// Before the first step is reported.
  void setOverhead(const std::optional<DeviceOverhead> &overhead) { setup.overhead = overhead; }
  /// A line that can't be logged doesn't end a run: it is said, once.
  void report(const StepMetrics &metrics);
  /// Ends the progress line; the summary, empty without a step.
  std::string finish();
  /// After a run without an error, which may have had no steps left: cuts the log to the lines that
  /// are kept.
  void closeLog();
  /// For a process that ends without destructors.
  void discardEmptyLog() const;

private:
  using Clock = std::chrono::steady_clock;
  explicit MetricsReporter(const MetricsSetup &setup);
  void appendToLog(const StepMetrics &metrics);
  void sayLogFailed(const Status &status, int64_t step);
  void showProgress(const StepMetrics &metrics);
  void endProgressLine();

  MetricsSetup setup;
  std::optional<LogFile> log;
  bool terminal = false, lineOpen = false, saidLogFailed = false;
  Clock::time_point started, shown;
  std::vector<double> times;
  StepMetrics first, last;
};

} // namespace dtc::rt
