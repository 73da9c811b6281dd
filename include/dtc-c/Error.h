/* What calls of the C API have in common: errors, diagnostics and texts.
 *
 * A call returns NULL, or an error, which its caller destroys:
 *
 *   DtcPlan *plan;
 *   DtcError *error = dtcPlanCreate(flags, 2, NULL, NULL, &plan);
 *   if (error) {
 *     fprintf(stderr, "%s\n", dtcErrorText(error));
 *     dtcErrorDestroy(error);
 *   }
 *
 * Calls on different objects may run side by side on several threads. An object takes one call at a
 * time. Strings are UTF-8. */
#ifndef DTC_C_ERROR_H
#define DTC_C_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DTC_API __attribute__((visibility("default")))

/* The exit code that the command line has for the error (docs/Commands.md). */
typedef enum DtcCategory {
  DTC_FAILED = 1,
  DTC_USAGE = 2,
  DTC_INPUT_REFUSED = 3,
  DTC_NO_FIT = 4,
  DTC_RANK_LOST = 5,
  DTC_NOT_FINITE = 6
} DtcCategory;

typedef struct DtcError DtcError;
DTC_API DtcCategory dtcErrorCategory(const DtcError *error);
/* Of DTC_INPUT_REFUSED: not 0 where the input is sound, but has what dtc doesn't take yet. */
DTC_API int dtcErrorIsUnsupported(const DtcError *error);
/* As the command line says it: a line for each error and for what notes it has. */
DTC_API const char *dtcErrorText(const DtcError *error);
DTC_API void dtcErrorDestroy(DtcError *error);

typedef struct DtcText DtcText;
/* Ends with a 0 byte. */
DTC_API const char *dtcTextData(const DtcText *text);
DTC_API size_t dtcTextSize(const DtcText *text);
DTC_API void dtcTextDestroy(DtcText *text);

/* Takes a warning, of one line, while the call that causes it runs. */
typedef void (*DtcWarningHandler)(const char *text, void *context);

#ifdef __cplusplus
}
#endif
#endif
