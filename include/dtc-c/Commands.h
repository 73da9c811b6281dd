/* The commands of dtc for a process that goes on. */
#ifndef DTC_C_COMMANDS_H
#define DTC_C_COMMANDS_H

#include "dtc-c/Error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a command prints: {"estimate", "gpt2.onnx", "--json"}. The handler may be NULL. */
DTC_API DtcError *dtcCommand(const char *const *arguments, size_t numArguments,
                             DtcWarningHandler handler, void *context, DtcText **text);

/* A cluster, built in or a YAML file, as a YAML file that says all of it. */
DTC_API DtcError *dtcClusterYaml(const char *nameOrFile, DtcText **text);
/* The names of built-in clusters and devices, one a line. */
DTC_API DtcError *dtcClusterNames(DtcText **text);

/* The operators of PyTorch that are read, with commas between: "aten.add,aten.mul". */
DTC_API DtcError *dtcImportedOperators(DtcText **text);

/* The command lines `dtc` and `dtc-run`, which print and return the exit code. The first argument
 * is the program's name. */
DTC_API int dtcMain(int numArguments, char **arguments);
DTC_API int dtcRunMain(int numArguments, char **arguments);

#ifdef __cplusplus
}
#endif
#endif
