#include "core/accesses/program.hpp"
