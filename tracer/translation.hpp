// Chooses the callbacks of a block's instructions, when QEMU translates it.
#pragma once

#include "tracer/qemu_plugin_api.h"

namespace pagelens {

// Adds what the present stage needs. The tracer exists.
void add_callbacks(qemu_plugin_tb* block);

}  // namespace pagelens
