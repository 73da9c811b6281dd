#include "Request.h"

#include "ExitCodes.h"
#include "OwnCluster.h"

#include "dtc-rt/OutputConflicts.h"
#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/PlanFile.h"
#include "dtc/Plan/Plan/TextFile.h"

#include <algorithm>

namespace dtc::driver {

using plan::Error;
using plan::Result;

bool isPlanFile(const std::string &plan) {
  return plan.ends_with(".yaml") || plan.ends_with(".yml");
}

/// What a plan file's degrees say is pinned, the batch and its microbatches too.
static Result<plan::Spec> specOfPlanFile(Request &request) {
  const Options &options = request.options;
  Result<std::string> text = plan::readText(options.plan, "plan");
  if (!text)
    return text.error();
  request.planText = std::move(*text);
  auto degrees = plan::degreesFromYaml(request.planText, options.plan);
  if (!degrees)
    return degrees.error();
  plan::Spec spec = plan::pinned(*degrees, {});
  if (!plan::fill(spec, options.devices) || degrees->devices() != options.devices)
    return Error{options.plan + ": made for another number of devices than " +
                     std::to_string(options.devices),
                 plan::ErrorCategory::Usage};
  // No factor is above kMostDegree, so no product of three of them overflows.
  int64_t calls = degrees->microBatch * degrees->numMicrobatches;
  if (calls > plan::kMostDegree / (degrees->dp * degrees->ep))
    return Error{options.plan + ": its batch is out of range"};
  if (!request.globalBatch)
    request.globalBatch = degrees->dp * degrees->ep * calls;
  auto isAlone = plan::hasDegreesAlone(request.planText, options.plan);
  if (!isAlone)
    return isAlone.error();
  if (*isAlone)
    request.planText.clear(); // a SPEC, then
  return spec;
}

/// Nothing that a command reads may be written by it.
static rt::Status checkFiles(const Options &options) {
  rt::NamedFile inputs[] = {{"the model", options.model},
                            {"--weights", options.weights},
                            {"--cluster", options.cluster},
                            {"--plan", isPlanFile(options.plan) ? options.plan : ""}};
  rt::NamedFile outputs[] = {{"-o", options.output},
                             {"--save-plan", options.savePlan},
                             {"--report", options.report},
                             {"--trace", options.trace}};
  return rt::checkOutputConflicts(inputs, outputs);
}

/// Who names no cluster and compiles for this processor has it measured.
static Outcome<plan::Cluster> clusterOf(const Options &options) {
  if (options.target == Target::CPU && !options.given.contains("--cluster"))
    return ownCluster(!options.onlyPlan && options.until >= Phase::Plan);
  auto cluster = plan::loadCluster(options.cluster);
  if (!cluster)
    return fail(cluster.error());
  return std::move(*cluster);
}

Outcome<Request> readRequest(const Options &options) {
  if (rt::Status status = checkFiles(options); !status.isOk())
    return fail(errorOf(status));
  Request request{options, {}, {}, {}, {}, options.globalBatch};
  auto cluster = clusterOf(options);
  if (!cluster)
    return cluster.code();
  request.cluster = *cluster;
  // The artifact fixes the threads of a rank: fewer than there are cores for are planned for.
  if (cluster->sharedMemory)
    request.cluster.cores = std::min(cluster->cores, options.threadsPerRank * options.devices);
  auto parsed = isPlanFile(options.plan) ? specOfPlanFile(request) : plan::parseSpec(options.plan);
  if (!parsed)
    return fail(parsed.error());
  auto filled = plan::fill(*parsed, options.devices);
  if (!filled)
    return fail(filled.error());
  if (options.microBatch && filled->microBatch && *options.microBatch != *filled->microBatch)
    return fail({"--micro-batch " + std::to_string(*options.microBatch) +
                     " contradicts micro_batch=" + std::to_string(*filled->microBatch) +
                     " in --plan",
                 plan::ErrorCategory::Usage});
  request.given = *parsed;
  request.spec = *filled;
  if (options.microBatch)
    request.given.microBatch = request.spec.microBatch = options.microBatch;
  return request;
}

Result<BatchChoice> chooseBatch(const Request &request, int64_t fileBatch, int64_t dataParallel) {
  BatchChoice choice{request.globalBatch.value_or(std::max<int64_t>(fileBatch, 1) * dataParallel),
                     1};
  if (!request.spec.microBatch)
    return choice;
  int64_t microBatch = *request.spec.microBatch, perCall = dataParallel * microBatch;
  if (choice.globalBatch % perCall)
    return Error{"the global batch " + std::to_string(choice.globalBatch) +
                     " is not a multiple of " + std::to_string(dataParallel) +
                     " data-parallel ranks times micro batch " + std::to_string(microBatch),
                 plan::ErrorCategory::Usage};
  choice.numMicrobatches = choice.globalBatch / perCall;
  return choice;
}

} // namespace dtc::driver
