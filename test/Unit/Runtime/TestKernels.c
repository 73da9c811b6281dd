/* What the compiler's code generation would make: see KernelFunction in PackageFormat.h. */
#include <stdint.h>
#include <unistd.h>

/* out[i] = a[i] + b[i] */
void add(char *const *args, int64_t begin, int64_t end, char *scratch) {
  (void)scratch;
  const float *a = (const float *)args[0], *b = (const float *)args[1];
  float *out = (float *)args[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = a[i] + b[i];
}

/* Never returns where its argument (int64) is 1. */
void hang(char *const *args, int64_t begin, int64_t end, char *scratch) {
  (void)begin, (void)end, (void)scratch;
  while (*(const volatile int64_t *)args[0] == 1)
    usleep(10000);
}

/* Counts its iterations per thread in scratch, then adds 1 to out[i] for each: every
   element becomes 1 if and only if each iteration is done once. */
void count(char *const *args, int64_t begin, int64_t end, char *scratch) {
  *(int64_t *)scratch += end - begin;
  for (int64_t i = begin; i < end; ++i)
    ((float *)args[0])[i] += 1.0f;
}

/* Mean squared error of pred[n] against target[n] over n_global elements, and its
   gradient: args pred, target, n_global (int64), loss (1), gradient. One iteration. */
void mse(char *const *args, int64_t begin, int64_t end, char *scratch) {
  (void)scratch;
  const float *pred = (const float *)args[0], *target = (const float *)args[1];
  float *loss = (float *)args[2], *gradient = (float *)args[3];
  for (int64_t i = begin; i < end; ++i) {
    float difference = pred[i] - target[i];
    if (i == 0)
      *loss = 0;
    *loss += difference * difference / 8.0f;
    gradient[i] = 2.0f * difference / 8.0f;
  }
}

/* weight[i] -= lr * gradient[i]; args lr (f64), gradient, weight. */
void sgd(char *const *args, int64_t begin, int64_t end, char *scratch) {
  (void)scratch;
  double lr = *(const double *)args[0];
  const float *gradient = (const float *)args[1];
  float *weight = (float *)args[2];
  for (int64_t i = begin; i < end; ++i)
    weight[i] -= (float)(lr * gradient[i]);
}
