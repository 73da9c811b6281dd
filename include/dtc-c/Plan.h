/* Planning: a model with the plan that dtc chose for it. The plan is made once, and each call below
 * returns one view of it as text. For test/models/gpt2.onnx,
 *
 *   const char *flags[] = {"gpt2.onnx", "--gpus=8", "--cluster=dgx-h100"};
 *   DtcPlan *plan;
 *   DtcText *why, *json;
 *   DtcError *error = dtcPlanCreate(flags, 3, NULL, NULL, &plan);
 *   if (!error)
 *     error = dtcPlanExplain(plan, "tp", &why, &json);
 *
 * has a plan on the mesh dp=4 tp=2, and says why tp is 2. */
#ifndef DTC_C_PLAN_H
#define DTC_C_PLAN_H

#include "dtc-c/Error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DtcPlan DtcPlan;

/* Plans as `dtc plan FLAGS...`, the model first: {"gpt2.onnx", "--gpus=64"}. The handler may be
 * NULL. */
DTC_API DtcError *dtcPlanCreate(const char *const *flags, size_t numFlags,
                                DtcWarningHandler handler, void *context, DtcPlan **plan);
DTC_API void dtcPlanDestroy(DtcPlan *plan);

/* The table that `dtc plan` prints, and what it prints with --json. */
DTC_API DtcError *dtcPlanTable(const DtcPlan *plan, DtcText **text);
DTC_API DtcError *dtcPlanJson(const DtcPlan *plan, DtcText **text);
/* What --save-plan, --report and --trace write. */
DTC_API DtcError *dtcPlanYaml(const DtcPlan *plan, DtcText **text);
DTC_API DtcError *dtcPlanPage(const DtcPlan *plan, DtcText **text);
DTC_API DtcError *dtcPlanTrace(const DtcPlan *plan, DtcText **text);
/* Why the plan is as it is; with a subject, why a setting ("tp"), a tensor or a node is. The
 * subject may be NULL. */
DTC_API DtcError *dtcPlanExplain(DtcPlan *plan, const char *subject, DtcText **text,
                                 DtcText **json);
/* Two plans of one model side by side. */
DTC_API DtcError *dtcPlanCompare(const DtcPlan *a, const DtcPlan *b, DtcText **text);

#ifdef __cplusplus
}
#endif
#endif
