/* Running: an artifact of `dtc compile` whose ranks are threads of this process, and wait between
 * steps. A step is one update by one global batch:
 *
 *   DtcProgram *program;
 *   DtcStep step;
 *   DtcError *error = dtcProgramOpen("gpt2.dtc", 0, &program);
 *   if (!error)
 *     error = dtcProgramSetData(program, "gpt2.data.safetensors", 0);
 *   while (!error && dtcProgramStepsDone(program) < 2)
 *     if (!(error = dtcProgramStepOnData(program, &step)))
 *       printf("step %d, loss %.4f\n", (int)step.step, step.loss);
 *
 * With the README's artifact and test/models/gpt2.data.safetensors it prints the losses 9.1341
 * and 9.0781. dtcProgramStep takes the batch from memory instead: a DtcTensor for each
 * dtcProgramInput, by its name. */
#ifndef DTC_C_PROGRAM_H
#define DTC_C_PROGRAM_H

#include "dtc-c/Error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DtcProgram DtcProgram;

/* A row-major tensor of `rank` dimensions. The type is written as in safetensors: "F32", "BF16",
 * "I64". */
typedef struct DtcTensor {
  const char *name, *dtype;
  const int64_t *shape;
  size_t rank;
  void *data; /* null where only the type is asked for */
} DtcTensor;

typedef struct DtcStep {
  int64_t step; /* counted from 1 */
  double loss;
  double gradNorm; /* NaN where it isn't computed */
  double lr, seconds; /* the learning rate, and how long the step took */
  /* Of fp16: the scale of the next step's loss, and steps so far without an update; else NaN. */
  double lossScale, skippedSteps;
} DtcStep;

/* Starts the ranks and loads the weights; those without data are drawn by the seed. */
DTC_API DtcError *dtcProgramOpen(const char *artifact, uint64_t seed, DtcProgram **program);
/* Ends the ranks. */
DTC_API void dtcProgramDestroy(DtcProgram *program);

DTC_API int64_t dtcProgramStepsDone(const DtcProgram *program);
DTC_API int64_t dtcProgramWorldSize(const DtcProgram *program);
DTC_API int64_t dtcProgramGlobalBatch(const DtcProgram *program);
/* What a batch is made of, in the shapes of a global batch. NULL beyond the last. */
DTC_API const DtcTensor *dtcProgramInput(const DtcProgram *program, size_t index);
/* What is computed where there is no loss (--loss none), of a global batch. NULL beyond the last.
 */
DTC_API const DtcTensor *dtcProgramOutput(const DtcProgram *program, size_t index);
/* The parameters and buffers of the model file, aliases of tied weights after them. */
DTC_API const DtcTensor *dtcProgramParameter(const DtcProgram *program, size_t index);
/* Which parameter has the data of this one: its own index, or of an alias another one's. */
DTC_API size_t dtcProgramParameterOwner(const DtcProgram *program, size_t index);

/* One step of a global batch, which is only read: a tensor for each input. */
DTC_API DtcError *dtcProgramStep(DtcProgram *program, const DtcTensor *batch, size_t numTensors,
                                 DtcStep *result);
/* The file that steps without a batch take their samples of, as `dtc-run --data` does. */
DTC_API DtcError *dtcProgramSetData(DtcProgram *program, const char *path, int shuffle);
DTC_API int64_t dtcProgramNumSamples(const DtcProgram *program);
DTC_API DtcError *dtcProgramStepOnData(DtcProgram *program, DtcStep *result);

/* Copies the outputs of a global batch to a place for each. */
DTC_API DtcError *dtcProgramForward(DtcProgram *program, const DtcTensor *batch, size_t numTensors,
                                    void *const *places, size_t numPlaces);

/* The mean loss of the weights as they are, on the whole global batches of a file, or on one. */
DTC_API DtcError *dtcProgramEvaluate(DtcProgram *program, const char *path, double *loss);
DTC_API DtcError *dtcProgramEvaluateBatch(DtcProgram *program, const DtcTensor *batch,
                                          size_t numTensors, double *loss);

/* Copies the weights to a place for each parameter that isn't an alias. */
DTC_API DtcError *dtcProgramReadWeights(DtcProgram *program, void *const *places, size_t numPlaces);
/* As `dtc-run --save-weights`: a safetensors file. */
DTC_API DtcError *dtcProgramSaveWeights(DtcProgram *program, const char *path);
/* Copies the artifact as it was opened, with the weights from before all steps. */
DTC_API DtcError *dtcProgramSaveArtifact(DtcProgram *program, const char *path);

#ifdef __cplusplus
}
#endif
#endif
