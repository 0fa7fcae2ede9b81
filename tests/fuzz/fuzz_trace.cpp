// The trace reader, the survey and the compiler on any bytes: an error or a result, never more.
//
// Checksums and compression would keep nearly every mutated file out, so the first byte chooses:
// even, the rest is a file as it is; odd, the rest is payloads (a byte of chunk type, one of
// thread, two of length, the bytes) that are put into whole chunks of a valid file.
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/accesses/compile.hpp"
#include "core/accesses/crc32c.hpp"
#include "core/accesses/survey.hpp"
#include "core/accesses/survey_and_compile.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/accesses/trace_reader.hpp"

using namespace pagelens;

namespace {

using Bytes = std::vector<std::uint8_t>;

void append_chunk(Bytes& file, std::uint32_t type, std::uint32_t thread,
                  std::span<const std::uint8_t> payload) {
    Bytes chunk(sizeof(ChunkFrame) + ZSTD_compressBound(payload.size()));
    static ZSTD_CCtx* const context = ZSTD_createCCtx();
    const std::size_t size =
        ZSTD_compressCCtx(context, chunk.data() + sizeof(ChunkFrame),
                          chunk.size() - sizeof(ChunkFrame), payload.data(), payload.size(), 1);
    chunk.resize(sizeof(ChunkFrame) + size);
    ChunkFrame frame{0,
                     type,
                     thread,
                     static_cast<std::uint32_t>(payload.size()),
                     static_cast<std::uint32_t>(size),
                     0,
                     0};
    std::memcpy(chunk.data(), &frame, sizeof frame);
    frame.crc = crc32c(0, std::span(chunk).subspan(sizeof frame.crc));
    std::memcpy(chunk.data(), &frame, sizeof frame);
    file.insert(file.end(), chunk.begin(), chunk.end());
}

Bytes file_of_payloads(std::span<const std::uint8_t> input) {
    Bytes file(trace_magic.begin(), trace_magic.end());
    file.insert(file.end(), {trace_version, 0, 0, 0});
    append_chunk(file, static_cast<std::uint32_t>(ChunkType::header), 0, {});
    while (input.size() >= 4) {
        const std::size_t stated = input[2] + 256u * input[3];
        const std::size_t length = std::min(stated, input.size() - 4);
        append_chunk(file, input[0] % 6, input[1] % 5, input.subspan(4, length));
        input = input.subspan(4 + length);
    }
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::span<const std::uint8_t> input(data + 1, size - 1);
    const Bytes file =
        data[0] % 2 == 0 ? Bytes(input.begin(), input.end()) : file_of_payloads(input);

    const int descriptor = ::memfd_create("trace", MFD_CLOEXEC);
    if (descriptor < 0 || ::write(descriptor, file.data(), file.size()) < 0) return 0;
    try {
        const TraceReader reader("/proc/self/fd/" + std::to_string(descriptor));
        survey(reader);
        CompileOptions sampled{{{{64, 8}, 1}}, 12};
        sampled.interval_instructions = 1000;
        sampled.sample = {LineSets{input.size()} << 32 | input.size() | 1, 8};
        survey_and_compile(reader, 100, sampled);
        const auto program = compile(reader, {{{{64, 8}, 1}, {{256, 2}, 2}}, 21});
        const auto cursor = program->open();
        for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next())
            for (const Op& op : ops) {
                if (op.kind() == OpKind::phase) continue;
                const std::uint64_t pages = op.kind() == OpKind::unmap ? op.lines : 1;
                if (op.page + pages > program->pages().size() || op.object >= program->objects() ||
                    op.thread >= program->threads())
                    __builtin_trap();
            }
    } catch (const TraceError&) {
    } catch (const std::invalid_argument&) {  // the header's family does not fit the L1 above
    } catch (const std::length_error&) {
    }
    ::close(descriptor);
    return 0;
}
