// The headers that unit tests of plans share.
#pragma once
#include "PlanPch.h"
#include <gtest/gtest.h>
