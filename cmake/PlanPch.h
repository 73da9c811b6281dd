// The headers of the search for plans, which take longer to parse than most of its files.
#pragma once
#include "PlainPch.h"
#include "dtc/Plan/Search/ShardCosts.h"
