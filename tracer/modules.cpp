#include "tracer/modules.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "hooks/runtime_libraries.h"
#include "tracer/elf_image.hpp"
#include "tracer/mappings.hpp"

namespace pagelens {

ModuleRole role_of(const std::string& path) {
    const std::string_view whole = path;
    const std::string_view name = whole.substr(whole.rfind('/') + 1);  // npos + 1 is 0
    if (name.starts_with("libpagelens_hooks.") || name.starts_with("libpagelens_compiled"))
        return ModuleRole::hooks;
    if (is_runtime_library(path.c_str())) return ModuleRole::runtime;
    return ModuleRole::program;
}

Modules::Modules(std::uint64_t guest_base, Define define, std::string maps)
    : guest_base_(guest_base), define_(std::move(define)), maps_(std::move(maps)) {}

void Modules::changed(std::uint64_t begin, std::uint64_t end) {
    const std::lock_guard lock(mutex_);
    stale_ = true;
    for (Module& module : modules_) {
        const ModuleDefinition& d = module.definition;
        if (!module.live || end <= d.start || d.start + d.size <= begin) continue;
        module.live = false;  // read_maps revives it if it is still there
        generation_.fetch_add(1, std::memory_order_relaxed);
    }
}

std::optional<Modules::Found> Modules::find(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    Module* module = live_module_at(address);
    if (module == nullptr && stale_) {
        read_maps();
        stale_ = false;
        module = live_module_at(address);
    }
    if (module == nullptr) return std::nullopt;
    if (!module->number) {
        module->number = defined_++;
        define_(module->definition);
    }
    return Found{*module->number, module->role};
}

Modules::Module* Modules::live_module_at(std::uint64_t address) {
    const auto found = std::find_if(modules_.begin(), modules_.end(), [&](const Module& m) {
        return m.live && address - m.definition.start < m.definition.size;  // unsigned: both bounds
    });
    return found == modules_.end() ? nullptr : &*found;
}

void Modules::read_maps() {
    std::map<std::string, std::optional<ElfImage>> images;  // of this reading
    for (Module& module : modules_) module.live = false;
    for (const FileMapping& mapping : read_mappings(maps_)) {
        if (mapping.begin < guest_base_) continue;
        const auto [entry, is_new] = images.try_emplace(mapping.path);
        if (is_new) entry->second = read_elf(mapping.path);
        const auto& image = entry->second;
        // A file's lowest mapping is its first segment. What follows within its span is part of
        // it, also where it shows the same page of the file (small files' data).
        if (!image || mapping.offset != image->file_offset) continue;
        const std::uint64_t start = mapping.begin - guest_base_;
        const Module* around = live_module_at(start);
        if (around != nullptr && around->definition.path == mapping.path) continue;

        const std::uint64_t base = start - image->begin;
        ModuleDefinition definition{mapping.path, image->build_id,           base,
                                    start,        image->end - image->begin, {}};
        for (const auto& [begin, end] : image->file_backed)
            definition.file_backed.push_back({base + begin, end - begin});
        const auto known = std::find_if(modules_.begin(), modules_.end(), [&](const Module& m) {
            return m.definition.path == definition.path && m.definition.base == base &&
                   m.definition.build_id == definition.build_id;
        });
        if (known != modules_.end())
            known->live = true;
        else
            modules_.push_back({std::move(definition), role_of(mapping.path), true, std::nullopt});
    }
}

}  // namespace pagelens
