#include "dtc/Report/Estimate.h"

#include "dtc/Report/Words.h"

#include <algorithm>
#include <sstream>

namespace dtc::report {

using plan::SizedPlan;

static std::string padded(std::string text, size_t width) {
  text.append(text.size() < width ? width - text.size() : 1, ' ');
  return text;
}

static constexpr size_t kFigure = 12;

static const char *memoryHeader(const SizedPlan &fit) {
  return fit.cacheBytes > 0
             ? "parameters  data        activations keys+values reserved    total"
             : "parameters  gradients   optimizer   activations reserved    total";
}

static std::string memoryColumns(const SizedPlan &fit) {
  const plan::MemoryUse &memory = fit.predicted.memory;
  auto figure = [](int64_t bytes) { return padded(formatBytes(double(bytes)), kFigure); };
  std::string text = figure(memory.parameters);
  if (fit.cacheBytes > 0)
    text += figure(memory.data) + figure(memory.activations) + figure(fit.cacheBytes);
  else
    text += figure(memory.gradients) + figure(memory.optimizer) +
            figure(memory.activations + memory.data);
  return text + figure(memory.reserved) + formatBytes(double(fit.total()));
}

/// What a step of microbatches adds to the degrees says nothing here.
static std::string waysText(plan::Degrees degrees) {
  degrees.numMicrobatches = 1;
  return degreesText(degrees);
}

static size_t widestPlan(const std::vector<const SizedPlan *> &fits) {
  size_t width = 4;
  for (const SizedPlan *fit : fits)
    width = std::max(width, waysText(fit->degrees).size());
  return width + 2;
}

static void printDevices(std::ostream &out, const JobNeed &job) {
  std::vector<const SizedPlan *> fits;
  size_t name = 6;
  for (const DeviceNeed &need : job.devices) {
    name = std::max(name, need.device.size());
    if (need.fit)
      fits.push_back(&*need.fit);
  }
  size_t width = widestPlan(fits);
  out << "  " << padded("device", name + 2) << padded("memory", kFigure) << padded("count", 8)
      << padded("plan", width) << (fits.empty() ? "" : memoryHeader(*fits.front())) << "\n";
  for (const DeviceNeed &need : job.devices) {
    out << "  " << padded(need.device, name + 2) << padded(formatBytes(need.memoryBytes), kFigure);
    if (need.fit)
      out << padded(std::to_string(need.fit->degrees.devices()), 8)
          << padded(waysText(need.fit->degrees), width) << memoryColumns(*need.fit) << "\n";
    else
      out << padded("-", 8) << need.reason << "\n";
  }
}

static void printConfigurations(std::ostream &out, const JobNeed &job) {
  if (job.configurations.empty())
    return;
  std::vector<const SizedPlan *> fits;
  for (const SizedPlan &fit : job.configurations)
    fits.push_back(&fit);
  size_t width = widestPlan(fits);
  out << "  other ways on " << job.configurations.front().degrees.devices() << " x "
      << job.configuredOn << "\n"
      << "    " << padded("plan", width) << padded(memoryHeader(*fits.front()), 6 * kFigure)
      << "fits\n";
  for (const SizedPlan &fit : job.configurations) {
    double missing = double(fit.total()) - fit.predicted.memoryCapacity;
    out << "    " << padded(waysText(fit.degrees), width)
        << padded(memoryColumns(fit), 6 * kFigure)
        << (fit.fits() ? "yes" : "no, " + formatBytes(missing) + " short") << "\n";
  }
}

std::string estimateText(const Estimate &estimate) {
  std::ostringstream out;
  out << estimate.model << ": " << estimate.parameters << " parameters";
  if (estimate.tokensPerSample > 0)
    out << ", " << estimate.tokensPerSample << " tokens a sample";
  out << "\n"
      << (estimate.given ? "What is possible on " + std::to_string(estimate.given) + " devices"
                         : std::string("The fewest devices that hold it"))
      << ", and what each of them then holds."
      << (estimate.given ? ""
                         : " Tried are powers of two, multiples of 8 in a node, and whole nodes.")
      << "\n";
  for (const JobNeed &job : estimate.jobs) {
    out << "\n" << job.name << ": " << job.assumptions << ".\n";
    printDevices(out, job);
    printConfigurations(out, job);
  }
  return out.str();
}

} // namespace dtc::report
