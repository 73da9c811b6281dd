// Problems of sharding with the solver's answers, for tests that solve them by other means. Also
// searches with strategies left out, for measuring what these gain. It prints one JSON object a
// line.
//
//   dtc-plan-test random FIRST COUNT forward|training|folded [TABLE_LIMIT]
//   dtc-plan-test file PROBLEM.json SPEC CLUSTER [TABLE_LIMIT]
//   dtc-plan-test search PROBLEM.json SPEC CLUSTER DEVICES GLOBAL_BATCH [WITHOUT...]
//
// WITHOUT: candidates, smaller-shardings, offloaded, unequal-meshes, zero-groups, some-blocks
// (all are recomputed or none), a schedule, or advice on what would fit.
#include "Allocator.h"
#include "RandomProblem.h"
#include "ShardingStatement.h"

#include "dtc/Report/Failure.h"
#include "dtc/Schedule/Descriptor.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::schedule::allSchedules;
using dtc::schedule::scheduleFromName;

/// Links on which bytes decide, links on which latency does, and a GPU's node.
static Cluster clusterOf(unsigned seed) {
  Cluster cluster = *loadCluster("dgx-h100");
  if (seed % 4 == 3)
    return cluster;
  cluster.device.launchSeconds = 0;
  cluster.device.architecture = Architecture::None; // one rate for all sizes
  cluster.device.multiprocessors = 0;
  cluster.device.achieved[DType::F32] = 1e10;
  const LinkLevel levels[] = {
      {"link", 0, 1e8, 1e-7}, {"link", 0, 1e10, 1e-8}, {"link", 0, 1e10, 1e-5}};
  cluster.levels = {levels[seed % 4]};
  return cluster;
}

/// Meshes of one axis to four: tp in two where heads ask for it.
static StatementCase randomCase(unsigned seed, const std::string &kind) {
  StatementCase result;
  RandomOptions options;
  options.training = kind != "forward";
  result.folded = kind == "folded";
  options.ops = 2 + static_cast<int>(seed % 4);
  options.blocks = (result.folded ? 8 : 1) + static_cast<int>(seed / 4 % 3);
  result.problem = randomProblem(seed, options);
  result.cluster = clusterOf(seed / 3);
  result.degrees.tp = int64_t{2} << (seed % 3);
  result.degrees.dp = 1 + static_cast<int64_t>(seed / 2 % 2);
  result.degrees.cp = seed % 5 == 4 ? 2 : 1;
  result.degrees.microBatch = result.problem.batch / result.degrees.dp;
  result.degrees.numMicrobatches = result.problem.numMicrobatches;
  return result;
}

static int fail(const std::string &message) {
  std::cerr << "dtc-plan-test: error: " << message << "\n";
  return 1;
}

static int printRandom(unsigned first, unsigned count, const std::string &kind, int64_t limit) {
  for (unsigned seed = first; seed < first + count; ++seed) {
    StatementCase given = randomCase(seed, kind);
    if (std::string error = check(given.problem); !error.empty())
      return fail("seed " + std::to_string(seed) + ": " + error);
    given.options.tableLimit = limit;
    nlohmann::json line = stateSharding(given);
    line["seed"] = seed;
    std::cout << line << "\n";
  }
  return 0;
}

static Result<Problem> readProblem(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return problemFromJson(text.str(), path);
}

static int printFile(const std::string &path, const std::string &degrees,
                     const std::string &cluster, int64_t limit) {
  Result<Problem> problem = readProblem(path);
  if (!problem)
    return fail(problem.error().message);
  auto spec = parseSpec(degrees);
  auto on = loadCluster(cluster);
  if (!spec || !on)
    return fail(spec ? on.error().message : spec.error().message);
  StatementCase given{*problem, *on, {}, {}};
  given.degrees.tp = spec->tp.value_or(1);
  given.degrees.dp = spec->dp.value_or(1);
  given.degrees.cp = spec->cp.value_or(1);
  given.degrees.microBatch = std::max<int64_t>(1, problem->batch / given.degrees.dp);
  given.degrees.numMicrobatches = problem->numMicrobatches;
  given.options.tableLimit = limit;
  std::cout << stateSharding(given) << "\n";
  return 0;
}

static void leaveOutSchedule(ScheduleKind kind, SearchOptions &options) {
  std::vector<ScheduleKind> &kept = options.abilities.schedules;
  if (kept.empty())
    kept.assign(allSchedules().begin(), allSchedules().end());
  std::erase(kept, kind);
}

static bool leaveOut(const std::string &name, SearchOptions &options) {
  static const std::map<std::string, SearchStrategy> names = {
      {"candidates", SearchStrategy::Candidates},
      {"smaller-shardings", SearchStrategy::SmallerShardings},
      {"offloaded", SearchStrategy::Offloaded}};
  auto found = names.find(name);
  if (found != names.end())
    options.without.insert(found->second);
  else if (name == "unequal-meshes")
    options.unequalMeshes = false;
  else if (name == "advice")
    options.adviseOtherwise = false;
  else if (name == "zero-groups")
    options.abilities.groupsZero = false;
  else if (name == "some-blocks")
    options.abilities.mixesBlocks = false;
  else if (auto schedule = scheduleFromName(name))
    leaveOutSchedule(*schedule, options);
  else
    return false;
  return true;
}

/// `words`: the arguments after the command.
static int printSearch(const std::vector<std::string> &words) {
  Result<Problem> problem = readProblem(words[0]);
  auto spec = parseSpec(words[1]);
  auto on = loadCluster(words[2]);
  if (!problem || !spec || !on)
    return fail(!problem ? problem.error().message
                         : spec ? on.error().message : spec.error().message);
  SearchOptions options;
  options.spec = *spec;
  options.executable = false;
  options.devices = std::stoll(words[3]);
  problem->numMicrobatches = std::stoll(words[4]) / std::max<int64_t>(1, problem->batch);
  for (size_t i = 5; i < words.size(); ++i)
    if (!leaveOut(words[i], options))
      return fail("no such strategy: " + words[i]);
  auto start = std::chrono::steady_clock::now();
  SearchOutcome found = search(*problem, *on, options);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  nlohmann::json line = {{"planning_s", seconds.count()}};
  if (found) {
    line["step_s"] = found->predicted.stepSeconds;
    line["plan"] = summary(found->plan.degrees);
    line["fits"] = found->predicted.fits(); // what is pinned in full may not
  } else {
    line["error"] = dtc::report::failureText(found.error());
  }
  std::cout << line << "\n";
  return 0;
}

int main(int argc, char **argv) {
  setUpAllocator();
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 6 && words[0] == "search")
    return printSearch({words.begin() + 1, words.end()});
  bool isFile = !words.empty() && words[0] == "file";
  if (words.size() < 4 || words.size() > 5 || (words[0] != "random" && !isFile))
    return fail("see the head of dtc-plan-test.cpp for its arguments");
  int64_t limit = words.size() == 5 ? std::stoll(words[4]) : SolverOptions{}.tableLimit;
  if (isFile)
    return printFile(words[1], words[2], words[3], limit);
  return printRandom(static_cast<unsigned>(std::stoul(words[1])),
                     static_cast<unsigned>(std::stoul(words[2])), words[3], limit);
}
