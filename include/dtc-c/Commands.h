/* The commands of dtc as calls, which return what a command prints. Only dtcMain and dtcRunMain
 * print it themselves.
 *
 *   const char *arguments[] = {"estimate", "gpt2.onnx", "--precision=bf16"};
 *   DtcText *text;
 *   DtcError *error = dtcCommand(arguments, 3, NULL, NULL, &text);
 *   if (!error) {
 *     puts(dtcTextData(text));
 *     dtcTextDestroy(text);
 *   }
 *
 * Texts are the caller's to destroy. */
#ifndef DTC_C_COMMANDS_H
#define DTC_C_COMMANDS_H

#include "dtc-c/Error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs a command and returns what it prints to stdout. Warnings go to the handler, which may be
 * NULL. */
DTC_API DtcError *dtcCommand(const char *const *arguments, size_t numArguments,
                             DtcWarningHandler handler, void *context, DtcText **text);

/* A cluster, named ("dgx-h100") or in a YAML file, as YAML that leaves nothing to a default. */
DTC_API DtcError *dtcClusterYaml(const char *nameOrFile, DtcText **text);
/* The names of built-in clusters and devices, one a line. */
DTC_API DtcError *dtcClusterNames(DtcText **text);

/* The ATen operators that the importer of PyTorch programs knows, with commas between:
 * "aten.add,aten.mul". */
DTC_API DtcError *dtcImportedOperators(DtcText **text);

/* Writes a text to a file, as commands write theirs: complete or not at all. */
DTC_API DtcError *dtcWriteText(const char *path, const char *text);

/* The command lines `dtc` and `dtc-run`, which print and return the exit code. The first argument
 * is the program's name. */
DTC_API int dtcMain(int numArguments, char **arguments);
DTC_API int dtcRunMain(int numArguments, char **arguments);

#ifdef __cplusplus
}
#endif
#endif
