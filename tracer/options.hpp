// The options of the plugin: `-plugin libpagelens_tracer.so,key=value,...`
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pagelens {

struct Options {
    std::string plugin;          // this library, to run children under
    std::string qemu;            // likewise
    std::string hooks;           // interposer to preload into children; empty: none
    std::string output;          // the trace; %p is the process id
    std::string child_output;    // traces of other processes and programs; empty: they have none
    std::string status;          // file that the driver reads afterwards: a line a fact
    std::uint64_t skip = 0;      // accesses before tracing begins
    std::uint64_t accesses = 0;  // accesses after which tracing stops; 0: never
    std::string region;          // only what happens in the region of this name, if given
    std::string function_file;   // tracing begins at this address of this file, if given
    std::uint64_t function_address = 0;
    std::uint64_t wide_reads = 0;  // 1: this QEMU reads too much (Instruction::half_read)
    std::uint64_t any_tlb = 0;     // 1: page uses are hidden only where every TLB hits
    // DynamoRIO: executions after which a block gets code of its own (DrainCode); 0: it never does.
    // Making the code takes about as long as it saves in so many executions.
    std::uint64_t code_after = 1024;
    std::uint64_t loops = 1;    // DynamoRIO: 0: a loop is recorded as other blocks are
    std::string bound;          // TraceHeader::bound
    std::string rank;           // TraceHeader::rank
    std::string chosen;         // TraceHeader::chosen
    std::uint64_t starter = 0;  // compiled: the parent of the program that `output` is for
    std::uint64_t program = 1;  // which one of its process: exec keeps the process id
};

// Throws std::invalid_argument naming the argument.
Options parse_options(int argc, const char* const* argv);

// The options as QEMU's -plugin takes them, for a child: commas are doubled.
std::string plugin_argument(const Options& options);
// Reads such a text. `file=` is QEMU's own. Throws std::invalid_argument.
Options parse_options(std::string_view text);

// NAME with every %p replaced by the process id, and from the process's second program on also by
// its number: 123, 123-2, ...
std::string with_process_id(std::string name, std::uint64_t program);

}  // namespace pagelens
