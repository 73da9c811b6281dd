#include "dtc/Sharding/Rule.h"
