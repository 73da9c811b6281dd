#include "dtc/Dialect/Graph/Graph.h"
