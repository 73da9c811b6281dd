#include "dtc-c/Commands.h"

#include "Error.h"

#include "dtc-rt/CommandLine.h"
#include "dtc/Driver/Driver.h"
#include "dtc/Driver/WriteText.h"
#include "dtc/Plan/Plan/Cluster.h"

#include <sstream>

using namespace dtc;

DtcError *dtcCommand(const char *const *arguments, size_t numArguments, DtcWarningHandler handler,
                     void *context, DtcText **text) {
  auto command = [&] {
    std::ostringstream out;
    driver::Failure failure = driver::run({arguments, arguments + numArguments}, out);
    if (!failure)
      *text = capi::textOf(out.str());
    return failure;
  };
  return capi::reported(command, handler, context);
}

DtcError *dtcClusterYaml(const char *nameOrFile, DtcText **text) {
  return capi::reported([&]() -> driver::Failure {
    auto cluster = plan::loadCluster(nameOrFile);
    if (!cluster)
      return driver::fail(cluster.error());
    *text = capi::textOf(plan::toYaml(*cluster));
    return std::nullopt;
  });
}

DtcError *dtcClusterNames(DtcText **text) {
  return capi::guarded([&]() -> DtcError * {
    std::string lines;
    for (const std::string &name : plan::builtinClusters())
      lines += name + "\n";
    *text = capi::textOf(lines);
    return nullptr;
  });
}

DtcError *dtcImportedOperators(DtcText **text) {
  return capi::guarded([&]() -> DtcError * {
    *text = capi::textOf(driver::importedOperators());
    return nullptr;
  });
}

DtcError *dtcWriteText(const char *path, const char *text) {
  return capi::reported([&] { return driver::writeText(path, text); });
}

int dtcMain(int numArguments, char **arguments) { return driver::run(numArguments, arguments); }

int dtcRunMain(int numArguments, char **arguments) {
  return rt::runCommand(numArguments, arguments);
}
