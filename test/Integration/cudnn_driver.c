/* What cuDNN's planner asks of CUDA's driver and runtime where there is no GPU: kernels load, and nothing runs. Without
   cuInit, CUDA's runtime finds no driver, which the planner can do without. */
#include <stddef.h>

#define SUCCEEDS(name) int name(void) { return 0; }
#define GIVES_HANDLE(name) int name(void **made) { *made = (void *)0x10; return 0; }

SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuTensorMapEncodeIm2col)
SUCCEEDS(cuTensorMapEncodeTiled)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuCtxPushCurrent)
SUCCEEDS(cuLinkCreate)
SUCCEEDS(cuLinkAddData)
SUCCEEDS(cuLinkComplete)
SUCCEEDS(cuLinkDestroy)
SUCCEEDS(cuLaunchKernel)
SUCCEEDS(cuLaunchKernelEx)
SUCCEEDS(cuLaunchCooperativeKernel)
GIVES_HANDLE(cuModuleGetFunction)
GIVES_HANDLE(cuModuleLoadData)
GIVES_HANDLE(cuLibraryLoadData)
GIVES_HANDLE(cuLibraryLoadFromFile)
GIVES_HANDLE(cuLibraryGetKernel)
GIVES_HANDLE(cuLibraryGetModule)
GIVES_HANDLE(cuKernelGetFunction)
GIVES_HANDLE(cuCtxGetCurrent)
GIVES_HANDLE(cuCtxPopCurrent)

int cuGetErrorString(int error, const char **text) { *text = "error"; return 0; }
int cuGetErrorName(int error, const char **text) { *text = "error"; return 0; }
int cuStreamGetCtx(void *stream, void **context) { *context = (void *)0x10; return 0; }
int cuCtxGetLimit(size_t *value, int limit) { *value = 1024; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 0; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 1; return 0; }
int cuKernelGetName(const char **name, void *kernel) { *name = "kernel"; return 0; }
int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) { *value = attribute == 0 ? 1024 : 0; return 0; }
int cuOccupancyMaxPotentialClusterSize(int *size, void *function, void *configuration) { *size = 8; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
