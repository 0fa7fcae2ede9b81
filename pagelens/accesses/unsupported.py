"""An instruction that the emulator does not execute, named for the user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pagelens import _core


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An AVX-512 instruction at `address` of the program whose trace is, or will be, `trace`."""

    address: int
    code: bytes  # the instruction from its first byte on, at most 15 bytes
    trace: Path | None

    @classmethod
    def parse(cls, details: str, trace: Path | None) -> Unsupported:
        """Parse what the plugin reports: ADDRESS BYTES, in hexadecimal."""
        address, _, code = details.partition(" ")
        return cls(int(address, 16), bytes.fromhex(code), trace)

    def __str__(self) -> str:
        """Return text such as `the AVX-512 instruction 'vpxorq zmm0, zmm0, zmm0' in main (app.c:3)`."""
        return f"the AVX-512 instruction '{self.text}' in {self.place}"

    @property
    def text(self) -> str:
        """The instruction as a disassembler writes it, or its bytes if the disassembler does not know it."""
        import capstone  # needed here only

        disassembler = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        for _, _, mnemonic, operands in disassembler.disasm_lite(self.code, self.address, 1):
            return f"{mnemonic} {operands}".strip()
        return f"{self.code.hex(' ')} ..."

    @property
    def place(self) -> str:
        """The function and the source line, as far as the program's files tell."""
        from pagelens.accesses.symbols import LoadedModule, Symbolizer  # half a second of imports

        try:
            loaded = _core.Trace(self.trace).modules if self.trace is not None else []
        except _core.TraceError:
            loaded = []
        modules = [LoadedModule(m.path, m.build_id, m.base, m.start, m.size) for m in loaded]
        with Symbolizer(modules) as symbols:
            return str(symbols.locate(self.address + 1)[0])
