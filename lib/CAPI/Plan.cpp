#include "dtc-c/Plan.h"

#include "Error.h"

#include "dtc/Driver/Driver.h"
#include "dtc/Driver/PlannedModel.h"

using namespace dtc;
using dtc::capi::reported;

struct DtcPlan {
  std::unique_ptr<driver::PlannedModel> model;
};

DtcError *dtcPlanCreate(const char *const *flags, size_t numFlags, DtcWarningHandler handler,
                        void *context, DtcPlan **plan) {
  auto create = [&]() -> driver::Failure {
    auto options = driver::readPlanFlags({flags, flags + numFlags});
    if (!options)
      return options.category();
    auto model = driver::PlannedModel::create(std::move(*options));
    if (!model)
      return model.category();
    for (const std::string &warning : (*model)->warnings())
      driver::printWarning(warning);
    *plan = new DtcPlan{std::move(*model)};
    return std::nullopt;
  };
  return reported(create, handler, context);
}

void dtcPlanDestroy(DtcPlan *plan) { delete plan; }

DtcError *dtcPlanTable(const DtcPlan *plan, DtcText **text) {
  return reported([&] { return capi::store(plan->model->text(), text); });
}

DtcError *dtcPlanJson(const DtcPlan *plan, DtcText **text) {
  return reported([&] { return capi::store(plan->model->json(), text); });
}

DtcError *dtcPlanYaml(const DtcPlan *plan, DtcText **text) {
  return reported([&] { return capi::store(plan->model->yaml(), text); });
}

DtcError *dtcPlanPage(const DtcPlan *plan, DtcText **text) {
  return reported([&] { return capi::store(plan->model->page(), text); });
}

DtcError *dtcPlanTrace(const DtcPlan *plan, DtcText **text) {
  return reported([&] { return capi::store(plan->model->trace(), text); });
}

DtcError *dtcPlanExplain(DtcPlan *plan, const char *subject, DtcText **text, DtcText **json) {
  return reported([&]() -> driver::Failure {
    auto explanation = plan->model->explain(subject ? subject : "");
    if (!explanation)
      return explanation.category();
    *text = capi::textOf(std::move(explanation->text));
    *json = capi::textOf(std::move(explanation->json));
    return std::nullopt;
  });
}

DtcError *dtcPlanCompare(const DtcPlan *a, const DtcPlan *b, DtcText **text) {
  return reported([&] { return capi::store(a->model->compare(*b->model), text); });
}
