#include "tracer/control_callbacks.hpp"

#include <array>
#include <cstdio>
#include <mutex>
#include <string>

#include "tracer/access_callbacks.hpp"
#include "tracer/doorbell.hpp"
#include "tracer/guest_memory.hpp"
#include "tracer/meminfo.hpp"
#include "tracer/status.hpp"

namespace pagelens {
namespace {

void expect(const char* fault) {
    if (fault == nullptr) return;
    give_up(std::string("this QEMU does not report what the tracer needs (") + fault +
            "); use QEMU 7.2, as Debian 12 has it in qemu-user");
}

// Tracing is on while a thread is in the region of --region.
void enter_or_leave(const pagelens_record& record) {
    static std::mutex mutex;  // the stage follows the count
    static unsigned inside = 0;
    const std::lock_guard lock(mutex);
    if (record.kind == PAGELENS_REGION_BEGIN) {
        if (inside++ == 0) go_to(Stage::waiting, Stage::tracing);
    } else if (inside > 0 && --inside == 0) {
        go_to(Stage::tracing, Stage::waiting);
    }
}

}  // namespace

void on_call(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
    Vcpu& vcpu = tracer->vcpu(index);
    if (vcpu.thread == nullptr) return;
    if (is_store_alone(info)) {
        vcpu.thread->stack.call(as_number(data), address);
        if (!vcpu.thread->stack_known) tracer->know_stack(vcpu, address);
    }
    if (stage == Stage::tracing) uncertain_access(vcpu, address, info);
}

void on_return(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void*) {
    Vcpu& vcpu = tracer->vcpu(index);
    if (vcpu.thread == nullptr) return;
    if (is_load_alone(info)) vcpu.thread->stack.ret(address);
    if (stage == Stage::tracing) uncertain_access(vcpu, address, info);
}

void on_tested_call_begins(unsigned, void*) { expect(self_test->call_begins()); }

void on_tested_call(unsigned index, qemu_plugin_meminfo_t info, std::uint64_t address, void* data) {
    if (!self_test->passed()) expect(self_test->accessed(info, address, as_number(data)));
    on_call(index, info, address, data);
}

void on_doorbell(unsigned index, qemu_plugin_meminfo_t, std::uint64_t address, void*) {
    const pagelens_record record = read_record(guest_base, address);
    tracer->doorbell(tracer->vcpu(index), record);
    const bool marker = record.kind == PAGELENS_REGION_BEGIN || record.kind == PAGELENS_REGION_END;
    if (marker && !options.region.empty() && region_name(guest_base, record) == options.region) {
        enter_or_leave(record);
    }
}

void on_begin_function(unsigned, void*) {
    go_to(Stage::waiting, options.skip > 0 ? Stage::skipping : Stage::tracing);
}

// The bytes are read anew: QEMU stops reading an instruction where it ceases to know it.
void on_avx512(unsigned, void* address) {
    std::array<std::byte, 15> bytes;  // the longest instruction
    const std::size_t count = read_guest(guest_base, as_number(address), bytes);
    char text[64];
    int length = std::snprintf(text, sizeof text, "avx512 %lx ", as_number(address));
    for (std::size_t i = 0; i < count; ++i) {
        length += std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length),
                                "%02x", static_cast<unsigned>(bytes[i]));
    }
    report(options.status, text);
}

void on_skipped_access(unsigned, qemu_plugin_meminfo_t, std::uint64_t, void*) {
    static std::atomic<std::uint64_t> skipped{0};
    if (skipped.fetch_add(1, std::memory_order_relaxed) + 1 == options.skip) {
        go_to(Stage::skipping, Stage::tracing);
    }
}

}  // namespace pagelens
