// The headers that unit tests of plain C++ share.
#pragma once
#include "PlainPch.h"
#include <gtest/gtest.h>
