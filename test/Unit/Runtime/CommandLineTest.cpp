#include "TestArtifact.h"

#include "dtc-rt/CommandLine.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace dtc::rt;
using namespace dtc::rt::test;

namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome call(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "dtc-run");
  std::vector<char *> argv;
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  int code = runCommand(static_cast<int>(argv.size()), argv.data());
  std::string out = testing::internal::GetCapturedStdout();
  return {code, out, testing::internal::GetCapturedStderr()};
}

void expectUsage(const Outcome &outcome, const std::string &word) {
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("dtc-run: error: ")) << outcome.err;
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  EXPECT_TRUE(outcome.out.empty());
}

} // namespace

TEST(CommandLine, Help) {
  for (const char *flag : {"-h", "--help"}) {
    Outcome outcome = call({flag});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_NE(outcome.out.find("--save-weights"), std::string::npos);
  }
  EXPECT_EQ(call({"--version"}).out.substr(0, 8), "dtc-run ");
}

TEST(CommandLine, UnknownFlagsNameTheNearest) {
  expectUsage(call({"a.dtc", "--dta", "x"}), "--data): --dta");
  expectUsage(call({"a.dtc", "--save-wights=x", "--data", "y"}), "--save-weights): --save-wights");
  expectUsage(call({"a.dtc", "b.dtc", "--data", "y"}), "b.dtc");
}

TEST(CommandLine, MissingAndWrongValues) {
  expectUsage(call({}), "artifact");
  expectUsage(call({"a.dtc", "--data", "x", "--steps", "0"}), "--steps");
  expectUsage(call({"a.dtc", "--data", "x", "--steps", "many"}), "--steps");
  expectUsage(call({"a.dtc", "--data", "x", "--seed", "-1"}), "--seed");
  for (const char *wrong : {"-1", "nan", "soon", "1e9"})
    expectUsage(call({"a.dtc", "--data", "x", "--timeout", wrong}),
                "--timeout: expected seconds from 0.001 to 10000000, got '" + std::string(wrong));
  expectUsage(call({"a.dtc", "--data"}), "--data: expected a value\n");
  expectUsage(call({"a.dtc", "--data", "x", "--steps", "1", "--steps", "2"}),
              "--steps: given more than once: 1, 2\n");
  expectUsage(call({"a.dtc", "--data", "x", "--resume=perhaps"}),
              "--resume: expected no value, got 'perhaps'\n");
}

TEST(CommandLine, NumbersAreDecimalAndWhole) {
  RunOptions options;
  ASSERT_TRUE(
      readArguments({"a.dtc", "--seed", "18446744073709551615", "--steps", "010"}, options).isOk());
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.steps, 10);
  for (const char *wrong : {"18446744073709551616", "1.5", "0x10", " 1", "1e3", ""})
    expectUsage(call({"a.dtc", "--data", "x", std::string("--seed=") + wrong}), "--seed");
}

TEST(CommandLine, UnknownFlagsAreRefused) {
  expectUsage(call({"a.dtc", "--data", "x", "--tensorboard", "y"}), "unknown flag");
}

TEST(CommandLine, CheckpointsHaveAFolder) {
  expectUsage(call({"a.dtc", "--data", "x", "--resume"}), "--checkpoint-dir is missing");
  expectUsage(call({"a.dtc", "--data", "x", "--checkpoint_every=2"}), "--checkpoint-every");
  expectUsage(call({"a.dtc", "--data", "x", "--checkpoint-dir", "c", "--checkpoint-every", "0"}),
              "--checkpoint-every");
}

TEST(CommandLine, UnderscoresAndEquals) {
  TemporaryFolder folder;
  writeFile(folder / "my_model.dtc", "not a zip");
  // Parsed: the complaint is about the file, whose name keeps its underscore.
  Outcome outcome = call({folder / "my_model.dtc", "--no_shuffle", "--save_weights=a_b",
                          "--data=" + (folder / "x_y"), "--seed=3"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("my_model.dtc"), std::string::npos) << outcome.err;
}

TEST(CommandLine, PartOfALaunchersVariablesIsWrong) {
  ::setenv("WORLD_SIZE", "4", 1);
  expectUsage(call({"a.dtc", "--data", "x"}), "RANK is missing");
  ::unsetenv("WORLD_SIZE");
  EXPECT_EQ(call({"/none/a.dtc", "--data", "x"}).code, 3);
}
