"""Which machine file serves as what in the tests: no other file of the tests names a machine.

Who renames or drops a machine changes this file alone. Where a test holds published figures of a machine,
that machine has a role of its own.
"""

# A memory-side cache, or memory of two kinds.
CACHE_MODE = "cori-knl-cache"  # in front of all memory; direct-mapped
HYBRID_MODE = "cori-knl-hybrid"  # half of the fast memory is a cache
FLAT_MODE = "cori-knl-flat"  # fast memory is memory of its own
CACHE_BEHIND_L3 = "xeon-max-cache"
FLAT_BEHIND_L3 = "xeon-max-flat"
CACHED_OPTANE = "optane-memory-mode"  # its bandwidths are ranges
SLOW_SOCKET = "sandy-bridge-two-socket"  # the other socket's memory is the slow one
GPU = "gpu-host"
PUBLISHED_KNL = "stampede2-knl"  # conflicts of its caches are published

# One socket with one memory, by its caches.
SNOOP_FILTER = "skx-8160"
BIMODAL_L3 = "skx-8160-bimodal"
INCLUSIVE_L3 = "westmere-ep"  # some of its values are assumed
SLICED_L3 = "sandy-bridge-ep"
EXCLUSIVE_L3 = "istanbul"
VICTIM_L3 = "rome-7352-2s-nps4"
HASHED_L3 = "icx-8380"
CHIPLETS = "genoa-9654"  # an L3 for each group of cores
LARGE_L2 = "spr-8490h"
NO_L3 = "red-storm-xt4"  # the map of its DRAM is published
NO_L3_SWIZZLED = "red-storm-xt4-swizzle"
NO_L3_DDR = "red-storm-xt3"
ODD_L1 = "interlagos"  # new traces do not serve it
L1_OF_FOUR_WAYS = "graviton4-2s"  # has pages of 64 KiB, too

# One socket, by its cores.
PLAIN = "cori-haswell"  # nothing that a test of files would trip over
AVX2 = "cori-haswell"
AVX512 = "skx-6148"
PIPELINE = "spr-8480"  # what its core does at a time is published

# One socket, by the slices of its L3: conflicts of snoop filters are published.
SLICES_14, SLICES_16, SLICES_18 = "skx-6132", "skx-6142", "skx-6150"
SLICES_22, SLICES_28 = "skx-6152", "skx-8180"

# Several NUMA nodes.
TWO_SOCKETS = "skx-6140-2s"  # this and the next two: with published matrices
TWO_SOCKETS_LATER = "clx-6240-2s"
TWO_SOCKETS_ICE_LAKE = "icx-8360y-2s"
TWO_SOCKETS_OF_CHIPLETS = "genoa-9654-2s"
TWO_LARGE_SOCKETS = "gnr-6980p-2s"
TWO_NODES_A_SOCKET = "clx-8269cy-2s-snc2"
FOUR_NODES_A_SOCKET = "spr-8468-2s-snc4"
ONE_NODE_A_SOCKET, NPS4 = "milan-7763-2s", "milan-7763-2s-nps4"  # two settings of a machine
CXL_NODE = "genoa-9224-2s-cxl"  # one node has memory alone
TWO_TIERS = "spr-8468-cxl"  # one node with cores, and one of slower memory
PAGES_OF_64K = "grace-superchip"

# TLBs that are described without a machine.
TLB_OF_THREE_SIZES = "istanbul"
TLB_OF_MANY_WAYS = "interlagos"
TLB_WITHOUT_HUGE_L2 = "sandy-bridge-ep"
TLB_OF_DIRECTORIES = "xeon-phi-se10p"
