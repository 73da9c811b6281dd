// What launchers say in variables of the environment.
#include "dtc-rt/Processes/Launch.h"

#include <gtest/gtest.h>

#include <map>

using dtc::ErrorCategory;
using namespace dtc::rt;

namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<Launch>> read(const Variables &variables) {
  return readLaunch([&](const char *name) -> const char * {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Launch launchOf(const Variables &variables) {
  Result<std::optional<Launch>> launch = read(variables);
  EXPECT_TRUE(launch) << launch.status().message();
  EXPECT_TRUE(launch && *launch);
  return launch && *launch ? **launch : Launch();
}

void expectWrong(const Variables &variables, const std::string &word) {
  Result<std::optional<Launch>> launch = read(variables);
  ASSERT_FALSE(launch);
  EXPECT_EQ(launch.status().category(), ErrorCategory::Usage);
  EXPECT_NE(launch.status().message().find(word), std::string::npos) << launch.status().message();
}

Variables with(Variables variables, const std::string &name, const std::string &value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string &name) {
  variables.erase(name);
  return variables;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "job1"}};
const Variables kHydra = {
    {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},  {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_LOCALID", "1"}, {"SLURM_STEP_NUM_NODES", "1"},
                          {"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "0"}};

} // namespace

TEST(Launch, NothingWithoutALauncher) {
  Result<std::optional<Launch>> launch = read({});
  ASSERT_TRUE(launch);
  EXPECT_FALSE(*launch);
}

TEST(Launch, OfOneProcessIsNone) {
  Result<std::optional<Launch>> launch = read({{"OMPI_COMM_WORLD_RANK", "0"},
                                               {"OMPI_COMM_WORLD_SIZE", "1"},
                                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  ASSERT_TRUE(launch);
  EXPECT_FALSE(*launch);
}

TEST(Launch, Torchrun) {
  Launch launch = launchOf(kTorchrun);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.worldSize, 4);
  EXPECT_EQ(launch.localRank, 1);
  EXPECT_EQ(launch.localWorldSize, 2);
  EXPECT_EQ(launch.address, "node0");
  EXPECT_EQ(launch.port, 29500);
}

TEST(Launch, TorchrunsAgentKeepsItsPort) {
  EXPECT_EQ(launchOf(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True")).port, 29501);
}

TEST(Launch, OneMachineMeetsAtItsLoopback) {
  EXPECT_EQ(launchOf(with(kTorchrun, "LOCAL_WORLD_SIZE", "4")).address, "127.0.0.1");
  EXPECT_EQ(launchOf(kOpenMpi).address, "127.0.0.1");
}

TEST(Launch, TorchrunsVariablesComeAllOrNone) {
  for (const char *name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
    expectWrong(without(kTorchrun, name), std::string(name) + " is missing");
  expectWrong({{"MASTER_ADDR", "node0"}}, "RANK is missing");
}

TEST(Launch, WhatCannotBeIsWrong) {
  expectWrong(with(kTorchrun, "RANK", "4"), "RANK is not a number from 0 to 3 (WORLD_SIZE=4): 4");
  expectWrong(with(kTorchrun, "LOCAL_RANK", "2"),
              "LOCAL_RANK is not a number from 0 to 1 (LOCAL_WORLD_SIZE=2): 2");
  expectWrong(with(kTorchrun, "LOCAL_WORLD_SIZE", "5"), "LOCAL_WORLD_SIZE is not a number");
  expectWrong(with(kTorchrun, "WORLD_SIZE", "four"), "WORLD_SIZE is not a number");
  expectWrong(with(kTorchrun, "MASTER_PORT", "70000"), "MASTER_PORT is not a number");
}

TEST(Launch, OpenMpiMpiexecAndSlurm) {
  Launch mpi = launchOf(kOpenMpi), hydra = launchOf(kHydra), slurm = launchOf(kSlurm);
  EXPECT_EQ(mpi.rank, 1);
  EXPECT_EQ(hydra.worldSize, 2);
  EXPECT_EQ(slurm.rank, 5);
  EXPECT_EQ(slurm.localRank, 1);
  // Ranks of a job compute the same port and token, and other jobs others.
  EXPECT_EQ(launchOf(with(kOpenMpi, "OMPI_COMM_WORLD_RANK", "1")).port, mpi.port);
  Launch other = launchOf(with(kOpenMpi, "PMIX_NAMESPACE", "job2"));
  EXPECT_NE(other.token, mpi.token);
  EXPECT_NE(other.port, mpi.port);
}

TEST(Launch, SeveralMachinesNeedAnAddress) {
  Variables two = with(kOpenMpi, "OMPI_COMM_WORLD_SIZE", "4");
  expectWrong(two, "MASTER_ADDR is missing");
  expectWrong(with(two, "MASTER_ADDR", "node0"), "MASTER_PORT is missing");
  Launch launch = launchOf(with(with(two, "MASTER_ADDR", "node0"), "MASTER_PORT", "1234"));
  EXPECT_EQ(launch.address, "node0");
  EXPECT_EQ(launch.port, 1234);
  expectWrong(with(kSlurm, "SLURM_STEP_NUM_NODES", "2"), "MASTER_ADDR is missing");
}

TEST(Launch, PartsOfALauncherAreWrong) {
  expectWrong(without(kOpenMpi, "OMPI_COMM_WORLD_RANK"), "OMPI_COMM_WORLD_RANK is missing");
  expectWrong(without(kHydra, "PMI_SIZE"), "PMI_SIZE is missing");
  expectWrong(without(kSlurm, "SLURM_PROCID"), "SLURM_PROCID is missing");
  expectWrong(without(kSlurm, "SLURM_LOCALID"), "SLURM_LOCALID is missing");
}

TEST(Launch, TheInnerLauncherCounts) {
  Variables both = kTorchrun;
  both.insert(kSlurm.begin(), kSlurm.end());
  EXPECT_EQ(launchOf(both).rank, 3);
  both = kOpenMpi;
  both.insert(kSlurm.begin(), kSlurm.end());
  EXPECT_EQ(launchOf(both).rank, 1);
}

TEST(Launch, TwoThatContradictEachOtherAreWrong) {
  Variables both = kOpenMpi;
  both.insert(kHydra.begin(), kHydra.end());
  expectWrong(both, "OMPI_COMM_WORLD_RANK and PMI_RANK contradict each other: 1, 0");
}

TEST(Launch, ABatchScriptIsNoTask) {
  Result<std::optional<Launch>> launch = read({{"SLURM_PROCID", "0"},
                                               {"SLURM_JOB_ID", "17"},
                                               {"SLURM_NTASKS", "8"},
                                               {"SLURM_LOCALID", "0"}});
  ASSERT_TRUE(launch);
  EXPECT_FALSE(*launch);
}

TEST(Launch, AGivenTokenIsTheToken) {
  EXPECT_EQ(launchOf(with(kTorchrun, "DTC_JOB_TOKEN", "secret")).token, "secret");
}
