// The extension module dtc._dtc: the C API as Python sees it. What users call is in python/dtc.
#include "Module.h"

#include "Calls.h"

#include "dtc-c/Commands.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace dtc::python {

static nb::str command(const std::vector<std::string> &arguments) {
  Warnings warnings;
  nb::str text = textUnlocked([&](DtcText **result) {
    Strings strings(arguments);
    return dtcCommand(strings.data(), strings.size(), Warnings::handle, &warnings, result);
  });
  warnings.raise();
  return text;
}

/// Runs a command line, which takes its arguments as `main` does.
static int runMain(int (*main)(int, char **), std::vector<std::string> arguments) {
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  nb::gil_scoped_release unlocked;
  return main(int(pointers.size()), pointers.data());
}

} // namespace dtc::python

NB_MODULE(_dtc, module) {
  using namespace dtc::python;
  // A call that Control-C left goes on, and may hold what it makes when the process ends.
  nb::set_leak_warnings(false);
  module.doc() = "The compiler and the runtime of dtc, over their C API (include/dtc-c).";
  module.def("command", &command, nb::arg("arguments"),
             "What a command of dtc prints. The arguments begin with the command's name.");
  module.def(
      "cluster_yaml",
      [](const std::string &name) {
        return textUnlocked([&](DtcText **text) { return dtcClusterYaml(name.c_str(), text); });
      },
      nb::arg("name"), "A cluster, built in or a YAML file, as a YAML file that says all of it.");
  module.def(
      "cluster_names", [] { return textUnlocked(dtcClusterNames); },
      "The names of built-in clusters and devices, one a line.");
  module.def(
      "imported_operators", [] { return textUnlocked(dtcImportedOperators); },
      "The operators of PyTorch that are read, with commas between.");
  module.def(
      "write_text",
      [](const std::string &path, const std::string &text) {
        callUnlocked([&] { return dtcWriteText(path.c_str(), text.c_str()); });
      },
      nb::arg("path"), nb::arg("text"), "Writes a file, complete or not at all.");
  module.def(
      "main", [](const std::vector<std::string> &arguments) { return runMain(dtcMain, arguments); },
      nb::arg("arguments"), "The command line dtc: prints, and returns the exit code.");
  module.def(
      "run_main",
      [](const std::vector<std::string> &arguments) { return runMain(dtcRunMain, arguments); },
      nb::arg("arguments"), "The command line dtc-run: prints, and returns the exit code.");
  definePlan(module);
  defineProgram(module);
}
