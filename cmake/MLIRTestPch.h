// The headers that unit tests of the compiler share.
#pragma once
#include "Pch.h"
#include <gtest/gtest.h>
