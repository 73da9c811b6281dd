/* A driver of long ago: it can be loaded, but lacks most functions. */
int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}
int cuDriverGetVersion(int *version) {
  *version = 5000;
  return 0;
}
