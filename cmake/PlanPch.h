// The headers of the search for plans, which take longer to parse than most files that include them.
#pragma once
#include "PlainPch.h"
#include "dtc/Plan/Search/ShardCosts.h"
