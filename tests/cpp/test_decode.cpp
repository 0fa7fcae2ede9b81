// What the tracer reads from an instruction's bytes. The bytes are those that GNU as gives.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tracer/decode.hpp"

using namespace pagelens;

namespace {

struct Case {
    const char* text;
    std::vector<std::uint8_t> bytes;
};

Instruction decoded(const Case& c) { return decode(c.bytes); }

}  // namespace

TEST_CASE("instructions that make exactly one access") {
    const Case cases[] = {
        {"mov (%rdi),%rax", {0x48, 0x8b, 0x07}},
        {"mov %eax,(%rdi)", {0x89, 0x07}},
        {"movl $1,(%rdi)", {0xc7, 0x07, 1, 0, 0, 0}},
        {"add (%rdi),%rax", {0x48, 0x03, 0x07}},
        {"cmp %rax,(%rdi)", {0x48, 0x39, 0x07}},
        {"cmpb $3,(%rdi)", {0x80, 0x3f, 3}},
        {"testb $1,(%rdi)", {0xf6, 0x07, 1}},
        {"divl (%rdi)", {0xf7, 0x37}},
        {"movslq (%rdi),%rax", {0x48, 0x63, 0x07}},
        {"imul $3,(%rdi),%eax", {0x6b, 0x07, 3}},
        {"imul (%rdi),%rax", {0x48, 0x0f, 0xaf, 0x07}},
        {"movzbl (%rdi),%eax", {0x0f, 0xb6, 0x07}},
        {"cmove (%rdi),%rax", {0x48, 0x0f, 0x44, 0x07}},
        {"movsd (%rdi),%xmm0", {0xf2, 0x0f, 0x10, 0x07}},
        {"movss %xmm0,(%rdi)", {0xf3, 0x0f, 0x11, 0x07}},
        {"mulsd (%rdi),%xmm0", {0xf2, 0x0f, 0x59, 0x07}},
        {"cvtsi2sd (%rdi),%xmm0", {0xf2, 0x0f, 0x2a, 0x07}},
        {"vaddsd (%rdi),%xmm0,%xmm0", {0xc5, 0xfb, 0x58, 0x07}},
        {"vmovss (%r8),%xmm0", {0xc4, 0xc1, 0x7a, 0x10, 0x00}},
        {"push %rbp", {0x55}},
        {"pop %r12", {0x41, 0x5c}},
        {"ret", {0xc3}},
        {"mov %fs:0x28,%rax", {0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(decoded(c).one_access);
        CHECK(!decoded(c).no_access);
        CHECK(!decoded(c).non_temporal_store);
        CHECK(!decoded(c).avx512);
    }
}

TEST_CASE("what the one access of an instruction is, and its bytes at most") {
    const struct {
        Case instruction;
        bool store;
        unsigned size;
    } cases[] = {
        {{"mov (%rdi),%rax", {0x48, 0x8b, 0x07}}, false, 8},
        {{"mov (%rdi),%eax", {0x8b, 0x07}}, false, 4},
        {{"mov (%r8),%r8d", {0x45, 0x8b, 0x00}}, false, 4},
        {{"mov (%rdi),%ax", {0x66, 0x8b, 0x07}}, false, 4},
        {{"mov (%rdi),%al", {0x8a, 0x07}}, false, 1},
        {{"mov %rax,(%rdi)", {0x48, 0x89, 0x07}}, true, 8},
        {{"mov %al,(%rdi)", {0x88, 0x07}}, true, 1},
        {{"movq $1,(%rdi)", {0x48, 0xc7, 0x07, 1, 0, 0, 0}}, true, 8},
        {{"movb $1,(%rdi)", {0xc6, 0x07, 1}}, true, 1},
        {{"cmpb $3,(%rdi)", {0x80, 0x3f, 3}}, false, 1},
        {{"cmpq $3,(%rdi)", {0x48, 0x83, 0x3f, 3}}, false, 8},
        {{"testl $1,(%rdi)", {0xf7, 0x07, 1, 0, 0, 0}}, false, 4},
        {{"movslq (%rdi),%rax", {0x48, 0x63, 0x07}}, false, 4},
        {{"imul $3,(%rdi),%eax", {0x6b, 0x07, 3}}, false, 4},
        {{"imul (%rdi),%rax", {0x48, 0x0f, 0xaf, 0x07}}, false, 8},
        {{"movzbl (%rdi),%eax", {0x0f, 0xb6, 0x07}}, false, 1},
        {{"movsbq (%rdi),%rax", {0x48, 0x0f, 0xbe, 0x07}}, false, 1},
        {{"movzwl (%rdi),%eax", {0x0f, 0xb7, 0x07}}, false, 4},
        {{"movzwq (%rdi),%rax", {0x48, 0x0f, 0xb7, 0x07}}, false, 4},
        {{"imul (%rdi),%eax", {0x0f, 0xaf, 0x07}}, false, 4},
        {{"cmove (%rdi),%rax", {0x48, 0x0f, 0x44, 0x07}}, false, 8},
        {{"push %rbp", {0x55}}, true, 8},
        {{"pop %rbp", {0x5d}}, false, 8},
        {{"movsd (%rdi),%xmm0", {0xf2, 0x0f, 0x10, 0x07}}, false, 8},
        {{"movsd %xmm0,(%rdi)", {0xf2, 0x0f, 0x11, 0x07}}, true, 8},
        {{"vmovsd %xmm0,(%rdi)", {0xc5, 0xfb, 0x11, 0x07}}, true, 8},
        {{"vmovsd (%rdi),%xmm0", {0xc5, 0xfb, 0x10, 0x07}}, false, 8},
        {{"movss %xmm0,(%rdi)", {0xf3, 0x0f, 0x11, 0x07}}, true, 4},
        {{"addss (%rdi),%xmm0", {0xf3, 0x0f, 0x58, 0x07}}, false, 4},
        {{"vaddss (%rdi),%xmm0,%xmm0", {0xc5, 0xfa, 0x58, 0x07}}, false, 4},
        {{"cvtss2sd (%rdi),%xmm0", {0xf3, 0x0f, 0x5a, 0x07}}, false, 4},
        {{"cvtsd2ss (%rdi),%xmm0", {0xf2, 0x0f, 0x5a, 0x07}}, false, 8},
        {{"cvtsi2sdl (%rdi),%xmm0", {0xf2, 0x0f, 0x2a, 0x07}}, false, 4},
        {{"cvtsi2ssq (%rdi),%xmm0", {0xf3, 0x48, 0x0f, 0x2a, 0x07}}, false, 8},
        {{"vcvtsi2sdl (%rdi),%xmm0,%xmm0", {0xc5, 0xfb, 0x2a, 0x07}}, false, 4},
        {{"vcvtsi2sdq (%rdi),%xmm0,%xmm0", {0xc4, 0xe1, 0xfb, 0x2a, 0x07}}, false, 8},
    };
    for (const auto& c : cases) {
        CAPTURE(c.instruction.text);
        CHECK(decoded(c.instruction).one_access);
        CHECK(decoded(c.instruction).store == c.store);
        CHECK(decoded(c.instruction).size == c.size);
    }
}

TEST_CASE("instructions of which QEMU 7.2 reads twice as much as they ask for") {
    const struct {
        Case instruction;
        bool half_read;
    } cases[] = {
        {{"vfmadd231sd (%rdi),%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0xb9, 0x07}}, true},
        {{"vfnmadd213ss (%rdi),%xmm1,%xmm0", {0xc4, 0xe2, 0x71, 0xad, 0x07}}, true},
        {{"vfmsub132sd (%rdi),%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0x9b, 0x07}}, true},
        {{"vfmadd231sd %xmm2,%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0xb9, 0xc2}}, false},
        {{"vfmadd231pd (%rdi),%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0xb8, 0x07}}, false},
        {{"vfmaddsub231pd (%rdi),%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0xb6, 0x07}}, false},
        {{"vaddsd (%rdi),%xmm0,%xmm0", {0xc5, 0xfb, 0x58, 0x07}}, false},
        {{"cvtdq2pd (%rdi),%xmm0", {0xf3, 0x0f, 0xe6, 0x07}}, true},
        {{"vcvtdq2pd (%rdi),%xmm0", {0xc5, 0xfa, 0xe6, 0x07}}, true},
        {{"vcvtdq2pd (%rdi),%ymm0", {0xc5, 0xfe, 0xe6, 0x07}}, false},
        {{"cvtpd2dq (%rdi),%xmm0", {0xf2, 0x0f, 0xe6, 0x07}}, false},
        {{"cvtdq2pd %xmm1,%xmm0", {0xf3, 0x0f, 0xe6, 0xc1}}, false},
    };
    for (const auto& c : cases) {
        CAPTURE(c.instruction.text);
        CHECK(decoded(c.instruction).half_read == c.half_read);
    }
}

TEST_CASE("instructions that make none, several, or an unknown number of accesses") {
    const Case cases[] = {
        {"mov %rdi,%rax", {0x48, 0x89, 0xf8}},
        {"lea (%rdi),%rax", {0x48, 0x8d, 0x07}},
        {"add %rax,(%rdi)", {0x48, 0x01, 0x07}},   // reads and writes
        {"notl (%rdi)", {0xf7, 0x17}},             // likewise
        {"negl (%rdi)", {0xf7, 0x1f}},             // likewise
        {"addl $1,(%rdi)", {0x83, 0x07, 1}},       // likewise
        {"xchg %rax,(%rdi)", {0x48, 0x87, 0x07}},  // likewise
        {"movaps (%rdi),%xmm0", {0x0f, 0x28, 0x07}},
        {"movups (%rdi),%xmm0", {0x0f, 0x10, 0x07}},  // 16 bytes: two callbacks
        {"mulpd (%rdi),%xmm0", {0x66, 0x0f, 0x59, 0x07}},
        {"vmovupd (%rdi),%ymm0", {0xc5, 0xfd, 0x10, 0x07}},
        {"vfmadd231pd (%rdi),%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0xb8, 0x07}},
        {"vfmaddsub231pd (%rdi),%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0xb6, 0x07}},
        {"vfmadd231sd (%rdi),%xmm1,%xmm0", {0xc4, 0xe2, 0xf1, 0xb9, 0x07}},  // other map
        {"movsd %xmm1,%xmm0", {0xf2, 0x0f, 0x10, 0xc1}},
        {"nopl (%rax)", {0x0f, 0x1f, 0x00}},
        {"prefetcht0 (%rdi)", {0x0f, 0x18, 0x0f}},
        {"rep stos", {0xf3, 0x48, 0xab}},
        {"nop", {0x90}},
        {"nothing", {}},
        {"a lone prefix", {0x66}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(!decoded(c).one_access);
        CHECK(!decoded(c).non_temporal_store);
        CHECK(!decoded(c).avx512);
    }
}

TEST_CASE("non-temporal stores") {
    const Case stores[] = {
        {"movnti %rax,(%rdi)", {0x48, 0x0f, 0xc3, 0x07}},
        {"movntps %xmm0,(%rdi)", {0x0f, 0x2b, 0x07}},
        {"movntpd %xmm0,(%rdi)", {0x66, 0x0f, 0x2b, 0x07}},
        {"movntdq %xmm0,(%rdi)", {0x66, 0x0f, 0xe7, 0x07}},
        {"movntq %mm0,(%rdi)", {0x0f, 0xe7, 0x07}},
        {"movntdq %xmm8,(%r8)", {0x66, 0x45, 0x0f, 0xe7, 0x00}},
        {"vmovntpd %ymm0,(%rdi)", {0xc5, 0xfd, 0x2b, 0x07}},
        {"vmovntps %ymm0,(%r8)", {0xc4, 0xc1, 0x7c, 0x2b, 0x00}},
        {"vmovntdq %ymm0,(%rdi)", {0xc5, 0xfd, 0xe7, 0x07}},
    };
    for (const Case& c : stores) {
        CAPTURE(c.text);
        CHECK(decoded(c).non_temporal_store);
        CHECK(!decoded(c).one_access);
    }
    const Case others[] = {
        {"cvtdq2pd (%rdi),%xmm0", {0xf3, 0x0f, 0xe6, 0x07}},
        {"movntdqa (%rdi),%xmm0", {0x66, 0x0f, 0x38, 0x2a, 0x07}},  // a load
        {"movaps %xmm0,(%rdi)", {0x0f, 0x29, 0x07}},
        {"vmovdqu %ymm0,(%rdi)", {0xc5, 0xfe, 0x7f, 0x07}},
    };
    for (const Case& c : others) {
        CAPTURE(c.text);
        CHECK(!decoded(c).non_temporal_store);
    }
}

TEST_CASE("AVX-512: by EVEX, and the mask instructions, which have VEX") {
    const Case cases[] = {
        {"vpxorq %zmm0,%zmm0,%zmm0", {0x62, 0xf1, 0xfd, 0x48, 0xef, 0xc0}},
        {"vmovupd (%rdi),%zmm0", {0x62, 0xf1, 0xfd, 0x48, 0x10, 0x07}},
        {"kmovw %eax,%k1", {0xc5, 0xf8, 0x92, 0xc8}},
        {"kandw %k1,%k2,%k3", {0xc5, 0xec, 0x41, 0xd9}},
        {"kortestw %k0,%k0", {0xc5, 0xf8, 0x98, 0xc0}},
        {"kmovq %k1,(%rdi)", {0xc4, 0xe1, 0xf8, 0x91, 0x0f}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(decoded(c).avx512);
    }
    // Opcodes of masks without VEX are cmov and set.
    CHECK(!decode(std::vector<std::uint8_t>{0x0f, 0x92, 0xc0}).avx512);  // setb %al
}

TEST_CASE("instructions that make no access for certain") {
    const Case cases[] = {
        {"mov %rdi,%rax", {0x48, 0x89, 0xf8}},
        {"lea (%rdi),%rax", {0x48, 0x8d, 0x07}},
        {"add %eax,%ecx", {0x01, 0xc1}},
        {"add $1,%rax", {0x48, 0x83, 0xc0, 0x01}},
        {"shl $4,%rax", {0x48, 0xc1, 0xe0, 0x04}},
        {"div %ecx", {0xf7, 0xf1}},
        {"test %eax,%eax", {0x85, 0xc0}},
        {"jne", {0x75, 0x10}},
        {"jmp", {0xeb, 0x10}},
        {"imul %rdi,%rax", {0x48, 0x0f, 0xaf, 0xc7}},
        {"cmove %rdi,%rax", {0x48, 0x0f, 0x44, 0xc7}},
        {"addsd %xmm1,%xmm0", {0xf2, 0x0f, 0x58, 0xc1}},
        {"mulpd %xmm1,%xmm0", {0x66, 0x0f, 0x59, 0xc1}},
        {"movq %xmm0,%rax", {0x66, 0x48, 0x0f, 0x7e, 0xc0}},
        {"pxor %xmm0,%xmm0", {0x66, 0x0f, 0xef, 0xc0}},
        {"pmulld %xmm1,%xmm0", {0x66, 0x0f, 0x38, 0x40, 0xc1}},
        {"roundsd $0,%xmm1,%xmm0", {0x66, 0x0f, 0x3a, 0x0b, 0xc1, 0x00}},
        {"vaddsd %xmm1,%xmm0,%xmm0", {0xc5, 0xfb, 0x58, 0xc1}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(decoded(c).no_access);
        CHECK(!decoded(c).one_access);
    }
}

TEST_CASE("instructions whose accesses are not in their operands are not taken to make none") {
    const Case cases[] = {
        {"maskmovdqu %xmm1,%xmm0", {0x66, 0x0f, 0xf7, 0xc1}},
        {"vmaskmovdqu %xmm1,%xmm0", {0xc5, 0xf9, 0xf7, 0xc1}},
        {"push %rbp", {0x55}},
        {"ret", {0xc3}},
        {"leave", {0xc9}},
        {"call *%rax", {0xff, 0xd0}},
        {"push %rax", {0xff, 0xf0}},
        {"movsb", {0xa4}},
        {"rep stosq", {0xf3, 0x48, 0xab}},
        {"xlat", {0xd7}},
        {"fxsave (%rdi)", {0x0f, 0xae, 0x07}},
        {"cmpxchg16b (%rdi)", {0x48, 0x0f, 0xc7, 0x0f}},
        {"vgatherdpd %ymm2,(%rdi,%xmm1,8),%ymm0", {0xc4, 0xe2, 0xed, 0x92, 0x04, 0xcf}},
        {"addpd (%rdi),%xmm0", {0x66, 0x0f, 0x58, 0x07}},
        {"pmulld (%rdi),%xmm0", {0x66, 0x0f, 0x38, 0x40, 0x07}},
        {"add %eax,(%rdi)", {0x01, 0x07}},
        {"mov 0x1122334455667788,%al", {0xa0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        CHECK(!decoded(c).no_access);
    }
}
