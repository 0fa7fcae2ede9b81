"""Decodes the instructions of a trace's samples, for the model of a core's pipeline.

The architecture, x86-64, decides the kind of an operation and the registers that it reads and writes. The
machine decides how long each kind takes (`pagelens.machine.pipeline`). The kinds follow the tables of Fog
(Instruction tables, agner.org/optimize) and uops.info (Abel, Reineke, ASPLOS 2019), where most instructions
of a kind agree on all processors of the last ten years.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# The order is that of Operation in core/machine/pipeline.hpp.
(
    NONE, INTEGER, SELECT, SHIFT, MULTIPLY, DIVIDE, LONG_DIVIDE, BRANCH, FP_ADD, FP_MULTIPLY, FUSED,
    FP_DIVIDE, ROOT, FP_COMPARE, VECTOR, VECTOR_SHIFT, VECTOR_MULTIPLY, SHUFFLE, CROSS_LANE, CONVERT,
    CROSSING, SLOW,
) = range(22)  # fmt: skip
_NO_ACCESS, OF_INTEGER, OF_VECTOR = range(3)  # Access
_NOT, _CONDITIONAL, _INDIRECT, _OTHER = range(4)  # BranchKind

_GENERAL = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
_FLAGS, _STACK = 33, 8  # numbers of registers: rax..rsp 1..8, r8..r15 9..16, vectors 17..32
_X87 = 34  # and MMX: up to 41
_LOADED, _NOTHING_ELSE = 126, 127  # core/machine/pipeline.hpp's loaded and nothing
_COPY_NAMES = (
    "mov movabs movaps movups movapd movupd movdqa movdqu movq movd movss movsd lddqu "
    "movzx movsx movsxd movntps movntpd movntdq movnti movhps movhpd movlps movlpd movbe movdqa32"
)
_COPIES = frozenset(_COPY_NAMES.split())
_MERGING = frozenset(["movhps", "movhpd", "movlps", "movlpd"])
_NAMES: Mapping[int, str] = {
    SHIFT: "shl shr sar sal rol ror rcl rcr shlx shrx sarx rorx bt bts btr btc bextr bzhi",
    MULTIPLY: "imul mul mulx crc32 pdep pext bsf bsr tzcnt",
    DIVIDE: "div idiv",
    FP_ADD: "addss addsd addps addpd subss subsd subps subpd minss minsd minps minpd maxss maxsd maxps maxpd "
    "addsubps addsubpd cmpss cmpsd cmpps cmppd roundss roundsd roundps roundpd haddpd haddps "
    "fadd faddp fsub fsubp fsubr fsubrp fcom fcomi fcomip fucomi fucomip fchs fabs",
    FP_MULTIPLY: "mulss mulsd mulps mulpd fmul fmulp dpps dppd rcpss rcpps rsqrtss rsqrtps",
    FP_DIVIDE: "divss divsd divps divpd fdiv fdivp fdivr fdivrp",
    ROOT: "sqrtss sqrtsd sqrtps sqrtpd fsqrt",
    FP_COMPARE: "comiss comisd ucomiss ucomisd ptest testps testpd movmskps movmskpd pmovmskb",
    VECTOR_SHIFT: "psllw pslld psllq psrlw psrld psrlq psraw psrad psllvd psllvq psrlvd psrlvq psravd",
    VECTOR_MULTIPLY: "pmulld pmullw pmulhw pmulhuw pmulhrsw pmuludq pmuldq pmaddwd pmaddubsw psadbw "
    "aesenc aesenclast aesdec aesdeclast pclmulqdq",
    SHUFFLE: "pshufb pshufd pshufhw pshuflw shufps shufpd unpcklps unpcklpd unpckhps unpckhpd punpcklbw "
    "punpcklwd punpckldq punpcklqdq punpckhbw punpckhwd punpckhdq punpckhqdq packsswb packssdw packuswb "
    "packusdw palignr pslldq psrldq permilps permilpd movddup movshdup movsldup insertps",
    CROSS_LANE: "permq permpd permd permps perm2f128 perm2i128 extractf128 extracti128 insertf128 inserti128 "
    "broadcastss broadcastsd pbroadcastb pbroadcastw pbroadcastd pbroadcastq pmovzxbw pmovzxwd pmovzxdq "
    "pmovzxbd pmovsxbw pmovsxwd pmovsxdq",
    CONVERT: "cvtsi2sd cvtsi2ss cvttsd2si cvttss2si cvtsd2si cvtss2si cvtsd2ss cvtss2sd cvtdq2pd cvtdq2ps "
    "cvtpd2ps cvtps2pd cvttps2dq cvtps2dq cvttpd2dq fild fist fistp fisttp",
    CROSSING: "pextrb pextrw pextrd pextrq pinsrb pinsrw pinsrd pinsrq",
    SLOW: "cpuid rdtsc rdtscp syscall xgetbv mfence lfence sfence pause xsave xsavec xrstor fxsave fldcw fnstcw "  # noqa: E501
    "stmxcsr ldmxcsr fsin fcos fptan fpatan fprem f2xm1 fyl2x gatherdpd gatherqpd gatherdps gatherqps "
    "pgatherdd pgatherdq pgatherqd pgatherqq pcmpistri pcmpestri pcmpistrm",
}
_KIND = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_ZEROING = frozenset(["xor", "sub", "pxor", "xorps", "xorpd", "psubb", "psubw", "psubd", "psubq"])
_NOTHING = frozenset(["nop", "endbr64", "prefetcht0", "prefetcht1", "prefetcht2", "prefetchnta", "prefetchw", "fnop", "vzeroupper", "zeroupper", "emms"])  # fmt: skip  # noqa: E501
_FUSED = frozenset(["cmp", "test", "add", "sub", "and", "inc", "dec"])
COLUMNS = 18
LOADED_KIND = 2  # the column of the kind of data that an instruction loads
_DISPLACEMENT = 16  # a column
# _row() returns two more: whether a branch after it may fuse with it, and whether its displacement begins at
# the instruction.
_FUSES, _RELATIVE = 18, 19


class Decoder:
    """Decodes blocks of code. Each instruction is worked out once, wherever it occurs again."""

    def __init__(self) -> None:
        import capstone  # needed here only

        self._lengths = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._details = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._details.detail = True
        self._known: dict[bytes, list[int]] = {}  # what _row() returns, by the instruction's bytes

    def decode(self, code: bytes, address: int) -> list[list[int]]:
        """Return one row for each instruction, with the columns of `_core.Code`.

        Bytes that are no known instruction end the block.
        """
        rows = []
        for begin, size, _, _ in self._lengths.disasm_lite(code, 0):
            text = code[begin : begin + size]
            if (known := self._known.get(text)) is None:
                known = self._known[text] = _row(next(self._details.disasm(text, 0)))
            rows.append(row := known.copy())
            if row[_RELATIVE]:
                row[_DISPLACEMENT] += address + begin
        for first, second in itertools.pairwise(rows):
            if second[4] == _CONDITIONAL and first[1] == 1 and first[0] == INTEGER and first[_FUSES]:
                second[1] = 0  # one operation of both
        return [row[:COLUMNS] for row in rows]


def _row(instruction: Any) -> list[int]:
    """Return the columns of an instruction at address 0, and what _FUSES and _RELATIVE name."""
    from capstone import x86

    name = instruction.mnemonic.split()[-1]
    vector = name.startswith("v") and name not in ("verr", "verw")
    plain = name[1:] if vector else name
    operands = instruction.operands
    memory = next((operand for operand in operands if operand.type == x86.X86_OP_MEM), None)
    first_in_memory = memory is not None and operands[0].type == x86.X86_OP_MEM
    reads, writes = _registers(instruction)
    branch = _branch(instruction, name, operands)
    load = store = False
    origin = constant = 0
    base = index = displacement = scale = 0
    relative = False
    if memory is not None and plain not in _NOTHING and name != "lea":
        base, index = _number(instruction, memory.mem.base), _number(instruction, memory.mem.index)
        displacement, scale = memory.mem.disp, memory.mem.scale if index else 0
        if relative := instruction.reg_name(memory.mem.base) == "rip":
            displacement += instruction.size
        if plain in _COPIES or name.startswith("set"):
            load, store = not first_in_memory, first_in_memory
        elif first_in_memory:
            load = True
            store = name not in ("cmp", "test", "bt", "call", "jmp", "push", "mul", "imul", "div", "idiv")
            store = store and not name.startswith(("fld", "fild", "fadd", "fmul", "fsub", "fdiv", "fcom"))
            if name.startswith(("fst", "fist", "vextract", "pextr", "vpextr")):
                load = False
        else:
            load = True
    kind = _operation(plain, name, load or store, first_in_memory)
    if kind == DIVIDE and operands and operands[0].size == 8:
        kind = LONG_DIVIDE
    elif (
        kind == NONE and plain in ("movd", "movq") and not (load or store) and _crosses(instruction, operands)
    ):
        kind = CROSSING
    if name in ("push", "call"):
        store, load = True, load
        base, displacement, scale, index, relative = _STACK, -8, 0, 0, False
    elif name in ("pop", "ret", "leave"):
        load, base = True, _STACK if name != "leave" else 7
    if name in ("push", "pop", "call", "ret"):
        reads, writes = [r for r in reads if r != _STACK], [r for r in writes if r != _STACK]
    if memory is not None:
        reads = [r for r in reads if r not in (base, index) or r in _data_registers(instruction, operands)]
        if store and not load and plain in _COPIES:
            writes = []
    if branch in (_CONDITIONAL, _INDIRECT):
        kind = BRANCH
    elif branch == _OTHER:
        kind = NONE
    slots = 1
    if kind == SLOW:
        slots = 6
    elif kind in (DIVIDE, LONG_DIVIDE):
        slots = 2
    if name in ("xchg", "xadd", "cmpxchg") or instruction.prefix[0] == 0xF0:
        kind, slots = SLOW, 6
    if plain in _ZEROING and _same_operands(operands):
        reads, kind = [], NONE
    if plain in _ZEROING and _same_operands(operands):
        origin = _NOTHING_ELSE if name in ("xor", "sub") else 0
    elif name in _SUMS:
        origin, constant = _offset(instruction, name, operands, load, store)
    if kind == NONE and name == "lea":
        kind = INTEGER
    if instruction.prefix[0] in (0xF2, 0xF3) and name in _STRINGS:
        kind, slots = SLOW, 6
    fuses = int(name in _FUSED and not store)
    if load and "broadcast" in name:
        kind = NONE
    access = _access(reads, writes, branch)
    reads, writes = reads[:4], sorted(writes, key=lambda register: register == _FLAGS)[:3]
    return [
        kind, slots, access * load, access * store, branch, base, index, *reads, *[0] * (4 - len(reads)),
        *writes, *[0] * (3 - len(writes)), origin, constant, displacement, scale, fuses, int(relative),
    ]  # fmt: skip


_STRINGS = frozenset(f"{name}{size}" for name in ("movs", "stos", "lods", "scas", "cmps") for size in "bwdq")


def _access(reads: Sequence[int], writes: Sequence[int], branch: int) -> int:
    """Return the kind of data that a load or store of these registers moves."""
    if branch or not any(_FLAGS != register >= _STACK + 9 for register in (*reads, *writes)):
        return OF_INTEGER
    return OF_VECTOR


def _crosses(instruction: Any, operands: Any) -> bool:
    """Return whether the instruction moves data between a general register and one of another kind."""
    return len({_number(instruction, operand.reg) > 16 for operand in operands}) == 2


def _operation(plain: str, name: str, in_memory: bool, first_in_memory: bool) -> int:
    if plain in _NOTHING:
        return NONE
    if plain in _COPIES:
        widens = plain in ("movzx", "movsx", "movsxd") and not in_memory
        return INTEGER if widens else VECTOR if plain in _MERGING else NONE
    if name in ("push", "pop", "call", "ret"):
        return NONE
    if plain in _KIND:
        return _KIND[plain]
    if plain.startswith(("fmadd", "fmsub", "fnmadd", "fnmsub")):
        return FUSED
    if plain.startswith(("cmov", "set")):
        return SELECT
    if plain.startswith(("fld", "fst", "fxch")):
        return NONE if in_memory else VECTOR
    if plain.startswith(("rep", "xsave", "f2", "fs", "fp")) and not plain.startswith("pack"):
        return SLOW
    if (plain[0] == "p" and plain not in ("popcnt", "push", "pop", "pushfq", "popfq")) or name[0] == "v":
        return VECTOR
    if plain.endswith(("ps", "pd", "ss", "sd")) and plain[:3] in (
        "and",
        "orp",
        "xor",
        "shu",
        "unp",
        "ble",
        "mov",
    ):
        return VECTOR
    return INTEGER


def _branch(instruction: Any, name: str, operands: Any) -> int:
    from capstone import x86

    if name == "ret":
        return _OTHER  # foreseen from the calls
    if name in ("jmp", "call"):
        return _OTHER if operands and operands[0].type == x86.X86_OP_IMM else _INDIRECT
    return _CONDITIONAL if name[0] == "j" or name.startswith("loop") else _NOT


def _registers(instruction: Any) -> tuple[list[int], list[int]]:
    """Return the numbers of the registers that an instruction reads, and of those that it writes.

    If it writes only a part of a register, it also reads the register.
    """
    try:
        read, written = instruction.regs_access()
    except Exception:  # of instructions that capstone knows by name alone
        return [], []
    reads = [number for register in read if (number := _number(instruction, register))]
    writes = []
    for register in written:
        if not (number := _number(instruction, register)):
            continue
        writes.append(number)
        if number <= 16 and instruction.reg_name(register)[-1] in "lhxwip":
            name = instruction.reg_name(register)
            if name[0] not in "re" or name.endswith(("b", "w")):
                reads.append(number)
    return list(dict.fromkeys(reads)), list(dict.fromkeys(writes))


def _number(instruction: Any, register: int) -> int:
    """Return the number of the whole register, or 0 for no register and for one that nothing waits for."""
    if register == 0:
        return 0
    if register not in _numbers:
        _numbers[register] = _numbered(instruction.reg_name(register))
    return _numbers[register]


_numbers: dict[int, int] = {}


def _numbered(name: str) -> int:
    if name in ("eflags", "rflags", "flags"):
        return _FLAGS
    if name[1:3] == "mm" and name[0] in "xyz":
        return 17 + int(name[3:]) % 16
    if name.startswith(("st", "mm")):
        digits = "".join(filter(str.isdigit, name))
        return _X87 + int(digits or 0) % 8
    stem = name.strip("re") if name[0] in "re" and not name[1:2].isdigit() else name
    if name[0] == "r" and name[1:2].isdigit():
        return 1 + int("".join(filter(str.isdigit, name)))
    for number, general in enumerate(_GENERAL, start=1):
        if stem in (general, f"{general}l", f"{general[0]}l", f"{general[0]}h") or name == f"r{general}":
            return number
    return 0


def _data_registers(instruction: Any, operands: Any) -> set[int]:
    """Return the registers that are operands themselves, not only parts of an address."""
    from capstone import x86

    return {_number(instruction, o.reg) for o in operands if o.type == x86.X86_OP_REG}


def _same_operands(operands: Any) -> bool:
    from capstone import x86

    sources = [operand.reg for operand in operands[-2:] if operand.type == x86.X86_OP_REG]
    return len(sources) == 2 and sources[0] == sources[1]


_SUMS = frozenset(["add", "sub", "inc", "dec", "mov", "lea", "movsxd"])


def _offset(instruction: Any, name: str, operands: Any, load: bool, store: bool) -> tuple[int, int]:
    """Return the register (or _LOADED) and the constant whose sum an instruction computes or stores.

    Return 0, 0 if it computes no such sum. Numbers of 32 bits are assumed to be small, as indices are.
    """
    from capstone import x86

    target = operands[0]
    if target.size < 4 or (target.type != x86.X86_OP_REG and name != "mov"):
        return 0, 0
    if name in ("inc", "dec"):
        return _number(instruction, target.reg), 1 if name == "inc" else -1
    source = operands[1]
    if name in ("mov", "movsxd"):
        if source.type == x86.X86_OP_IMM:
            return _NOTHING_ELSE, source.imm
        return (_LOADED, 0) if load else (_number(instruction, source.reg), 0)
    if load or store:
        return 0, 0
    if name == "lea":
        if source.mem.index != 0 or instruction.reg_name(source.mem.base) == "rip":
            return 0, 0
        return _number(instruction, source.mem.base), source.mem.disp
    if source.type == x86.X86_OP_IMM:
        return _number(instruction, target.reg), source.imm if name == "add" else -source.imm
    return 0, 0


def address_of(code: bytes, address: int, instruction: int) -> int:
    """Return the address of an instruction of a block, which are counted from 0."""
    import capstone

    block = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64).disasm_lite(code, address)
    begins = [begin for begin, _, _, _ in itertools.islice(block, instruction + 1)]
    return begins[-1] if begins else address


def names(code: bytes, address: int) -> Iterator[str]:
    """Yield each instruction as assembly, for a person who looks at a block."""
    import capstone

    for one in capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64).disasm(code, address):
        yield f"{one.mnemonic} {one.op_str}".strip()
