// Which callbacks the instructions of a block get, when QEMU translates it.
#pragma once

#include "tracer/qemu_plugin_api.h"

namespace pagelens {

// As the present stage asks. The tracer exists.
void add_callbacks(qemu_plugin_tb* block);

}  // namespace pagelens
