// replay-artifacts MOST FILE...: replays the programs of artifacts, and of each kind of fault up
// to MOST that are planted into them. Prints a line of JSON for each; exit code 1 where a right
// program is refused or a fault isn't found.
#include "Mutants.h"

#include "dtc-rt/Program/Package.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <iostream>

using namespace dtc;
using Json = nlohmann::ordered_json;

namespace {

struct Programs {
  std::vector<std::unique_ptr<rt::fbs::ProgramT>> programs;
  std::vector<replay::Role> roles;
};

rt::Result<Programs> load(const std::string &path) {
  rt::Result<rt::Package> package = rt::Package::open(path);
  if (!package)
    return package.status();
  Programs result;
  for (const rt::RoleInfo &role : package->manifest().roles) {
    rt::Result<std::span<const char>> bytes = package->read(role.program);
    if (!bytes)
      return bytes.status();
    result.programs.emplace_back(rt::fbs::GetProgram(bytes->data())->UnPack());
    result.roles.push_back({result.programs.back().get(), {role.ranks.begin(), role.ranks.end()}});
  }
  return result;
}

bool examine(const std::string &path, size_t most) {
  rt::Result<Programs> programs = load(path);
  if (!programs) {
    std::cerr << programs.status().message() << "\n";
    return false;
  }
  auto start = std::chrono::steady_clock::now();
  std::string wrong = replay::replayPrograms(programs->roles);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::vector<std::string> missed;
  Json line = {{"violation", wrong}, {"seconds", seconds.count()}, {"planted", Json::object()}};
  if (wrong.empty())
    for (const auto &[kind, count] : replay::test::replayMutants(programs->roles, most, missed))
      line["planted"][kind] = count.planted;
  line["missed"] = missed;
  std::cout << line.dump() << std::endl;
  return wrong.empty() && missed.empty();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: replay-artifacts MOST FILE...\n");
    return 2;
  }
  bool good = true;
  for (int i = 2; i < argc; ++i)
    good &= examine(argv[i], std::stoul(argv[1]));
  return good ? 0 : 1;
}
