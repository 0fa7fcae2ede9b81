// The lab's QEMU plugin: feeds every access of a guest, with its physical address, to the caches of
// a machine, while a phase is on.
//
// Two stages, between which QEMU drops its translations (qemu_plugin_reset), so that booting and
// ageing run at the emulator's own speed:
//   waiting    doorbells alone
//   counting   every access; what may change translations empties L1
// All that runs on the guest's processors counts: its kernel, and other processes if there are any.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hooks/pagelens_lab.h"
#include "tracer/decode.hpp"
#include "tracer/doorbell.hpp"
#include "tracer/meminfo.hpp"
#include "tracer/qemu_plugin_api.h"
#include "tracer/system/frames.hpp"
#include "tracer/system/lab.hpp"
#include "tracer/system/translation_change.hpp"

extern "C" {
// QEMU's own, beside the plugin interface: reads guest memory by virtual address; 0 if it is there.
int cpu_memory_rw_debug(void* cpu, std::uint64_t address, void* buffer, std::size_t size,
                        bool write);
void qemu_plugin_disable_mem_helpers(void* cpu);
[[gnu::visibility("default")]] extern int qemu_plugin_version;
int qemu_plugin_version = PAGELENS_QEMU_PLUGIN_VERSION;
[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info,
                                                       int argc, char** argv);
}

namespace pagelens {
namespace {

qemu_plugin_id_t plugin_id;
Lab* lab = nullptr;  // never deleted; one thread runs all processors (-accel tcg,thread=single)
VirtualL1* first_levels = nullptr;  // the lab's, for the callback of every access
std::vector<GuestFrames> frames;    // of each processor
bool counting = false;
std::set<void*> processors;  // QEMU's, that rang a doorbell or translated

void register_callbacks(qemu_plugin_id_t id);

// QEMU before 8.0 may keep a pointer to the callbacks of an instruction that left its block
// half-way, by a page fault say, and follows it after the translations are gone
// (docs/decisions/tracer.md).
void drop_stale_callbacks(qemu_plugin_id_t) {
    for (void* cpu : processors) qemu_plugin_disable_mem_helpers(cpu);
}

void go_to(bool count) {
    if (counting == count) return;
    counting = count;
    qemu_plugin_reset(plugin_id, [](qemu_plugin_id_t id) {
        drop_stale_callbacks(id);
        register_callbacks(id);
    });
}

// --- accesses -----------------------------------------------------------------------------------

[[gnu::noinline]] void pass(unsigned cpu, qemu_plugin_meminfo_t info, std::uint64_t address) {
    if (lab->paused) return;
    lab->caches.access(cpu, address, size_of(info), is_store(info),
                       [&] { return lab->used(address, frames[cpu].of(info, address)); });
}

void on_access(unsigned cpu, qemu_plugin_meminfo_t info, std::uint64_t address, void*) {
    if (!first_levels[cpu].hides(address, line_bytes - size_of(info), is_store(info))) [[unlikely]]
        pass(cpu, info, address);
}

// The callback of an instruction that makes one access, of at most `most` bytes.
template <bool store, unsigned most>
void on_certain_access(unsigned cpu, qemu_plugin_meminfo_t info, std::uint64_t address, void*) {
    if (!first_levels[cpu].hides(address, line_bytes - most, store)) [[unlikely]]
        pass(cpu, info, address);
}

void on_stream_store(unsigned cpu, qemu_plugin_meminfo_t info, std::uint64_t address, void*) {
    if (lab->paused) return;
    const auto frame = [&] { return lab->used(address, frames[cpu].of(info, address)); };
    lab->caches.stream_store(cpu, address, frame);
}

template <bool store>
qemu_plugin_vcpu_mem_cb_t certain_access_callback(unsigned most) {
    switch (most) {
        case 1:
            return on_certain_access<store, 1>;
        case 4:
            return on_certain_access<store, 4>;
        default:
            return on_certain_access<store, 8>;
    }
}

qemu_plugin_vcpu_mem_cb_t access_callback(const Instruction& instruction) {
    if (instruction.non_temporal_store) return on_stream_store;
    if (!instruction.one_access) return on_access;
    return instruction.store ? certain_access_callback<true>(instruction.size)
                             : certain_access_callback<false>(instruction.size);
}

void on_translation_change(unsigned cpu, void*) {
    lab->caches.flush(cpu);
    frames[cpu].forget();
}

// --- doorbells ----------------------------------------------------------------------------------

bool read_guest(std::uint64_t address, void* buffer, std::size_t size) {
    return cpu_memory_rw_debug(current_cpu, address, buffer, size, false) == 0;
}

std::string name_of(const pagelens_record& record) {
    std::string name(std::min<std::uint64_t>(record.size, max_region_name), '\0');
    return read_guest(record.address, name.data(), name.size()) ? name : "?";
}

void on_doorbell(unsigned cpu, qemu_plugin_meminfo_t info, std::uint64_t address, void*) {
    processors.insert(current_cpu);
    pagelens_record record;
    if (!read_guest(address, &record, sizeof record)) return;
    switch (record.kind) {
        case PAGELENS_LAB_BEGIN:
            lab->begin(name_of(record));
            go_to(true);
            break;
        case PAGELENS_LAB_END:
            lab->end();
            go_to(false);
            break;
        case PAGELENS_LAB_PAUSE:
            lab->pause();
            break;
        case PAGELENS_LAB_RESUME:
            lab->resume();
            break;
        case PAGELENS_LAB_DATA: {
            std::vector<char> bytes(record.size);
            if (read_guest(record.address, bytes.data(), bytes.size())) lab->keep(bytes);
            break;
        }
        case PAGELENS_LAB_ADDRESS:
            lab->report_address(address, frames[cpu].of(info, address));
            break;
        case PAGELENS_REGION_BEGIN:
            lab->begin_region(name_of(record));
            break;
        case PAGELENS_REGION_END:
            lab->end_region(name_of(record));
            break;
        default:
            break;
    }
}

// --- translation --------------------------------------------------------------------------------

void on_memory(qemu_plugin_insn* instruction, qemu_plugin_vcpu_mem_cb_t callback) {
    qemu_plugin_register_vcpu_mem_cb(instruction, callback, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, nullptr);
}

void on_translation(qemu_plugin_id_t, qemu_plugin_tb* block) {
    if (current_cpu != nullptr) processors.insert(current_cpu);
    const std::size_t size = qemu_plugin_tb_n_insns(block);
    if (counting) {
        qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64,
                                                 &lab->instructions, size);
    }
    for (std::size_t i = 0; i < size; ++i) {
        qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
        const std::span bytes(static_cast<const std::uint8_t*>(qemu_plugin_insn_data(instruction)),
                              qemu_plugin_insn_size(instruction));
        if (is_doorbell(bytes.data(), bytes.size())) {
            on_memory(instruction, on_doorbell);
        } else if (counting) {
            on_memory(instruction, access_callback(decode(bytes)));
            if (changes_translation(bytes)) {
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_translation_change,
                                                       QEMU_PLUGIN_CB_NO_REGS, nullptr);
            }
        }
    }
}

void register_callbacks(qemu_plugin_id_t id) {
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_flush_cb(id, drop_stale_callbacks);
}

int install(qemu_plugin_id_t id, const qemu_info_t* info, int argc, char** argv) try {
    constexpr int version = PAGELENS_QEMU_PLUGIN_VERSION;
    if (version < info->version.min || version > info->version.cur || !info->system_emulation ||
        std::string(info->target_name) != "x86_64") {
        std::fprintf(stderr, "pagelens: the lab needs qemu-system-x86_64 7.2 to 8.2\n");
        return 1;
    }
    const LabOptions options = parse_lab_options(argc, argv);
    lab = new Lab(options);
    first_levels = lab->caches.first_levels();
    frames.resize(options.machine.cores);
    plugin_id = id;
    register_callbacks(id);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "pagelens: lab: %s\n", error.what());
    return 1;
}

}  // namespace
}  // namespace pagelens

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc, char** argv) {
    return pagelens::install(id, info, argc, argv);
}
