#include "dtc/Driver/Driver.h"

int main(int argc, char **argv) { return dtc::driver::run(argc, argv); }
