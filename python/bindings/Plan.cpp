#include "Module.h"

#include "Calls.h"

#include "dtc-c/Plan.h"

#include <mutex>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <utility>

namespace dtc::python {
namespace {

/// A plan of the C API. Its calls, from whatever threads, take turns.
class Plan {
public:
  explicit Plan(const std::vector<std::string> &flags) {
    Warnings warnings;
    callUnlocked([&] {
      Strings strings(flags);
      return dtcPlanCreate(strings.data(), strings.size(), Warnings::handle, &warnings, &handle);
    });
    warnings.raise();
  }
  ~Plan() { dtcPlanDestroy(handle); }
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  template <auto call> nb::str text() {
    return textUnlocked([&](DtcText **text) {
      std::lock_guard turn(mutex);
      return call(handle, text);
    });
  }

  std::pair<nb::str, nb::str> explain(const std::optional<std::string> &subject) {
    DtcText *text = nullptr, *json = nullptr;
    callUnlocked([&] {
      std::lock_guard turn(mutex);
      return dtcPlanExplain(handle, subject ? subject->c_str() : nullptr, &text, &json);
    });
    return {toStr(text), toStr(json)};
  }

  nb::str compare(const Plan &other) {
    return textUnlocked([&](DtcText **text) {
      if (this == &other) {
        std::lock_guard turn(mutex);
        return dtcPlanCompare(handle, handle, text);
      }
      std::scoped_lock turns(mutex, other.mutex);
      return dtcPlanCompare(handle, other.handle, text);
    });
  }

private:
  DtcPlan *handle = nullptr;
  mutable std::mutex mutex;
};

} // namespace

void definePlan(nb::module_ &module) {
  nb::class_<Plan>(module, "Plan", "A model with its plan.")
      .def(nb::init<const std::vector<std::string> &>(), nb::arg("flags"),
           "Plans as `dtc plan FLAGS...`, the model first.")
      .def("table", &Plan::text<dtcPlanTable>, "What `dtc plan` prints.")
      .def("json", &Plan::text<dtcPlanJson>, "What `dtc plan --json` prints.")
      .def("yaml", &Plan::text<dtcPlanYaml>, "What `dtc plan --save-plan` writes.")
      .def("page", &Plan::text<dtcPlanPage>, "What `dtc plan --report` writes.")
      .def("trace", &Plan::text<dtcPlanTrace>, "What `dtc plan --trace` writes.")
      .def("explain", &Plan::explain, nb::arg("subject") = nb::none(),
           "Why the plan, or a setting, tensor or node of it, is as it is: text and JSON.")
      .def("compare", &Plan::compare, nb::arg("other"), "Two plans of one model side by side.");
}

} // namespace dtc::python
