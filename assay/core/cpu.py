"""Which instructions this CPU has that decide about int8 and bfloat16, and what they mean.

Read from the system's own list on Linux and macOS; elsewhere nothing is known, and an empty answer says so.
"""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

X86 = {
    "avx2": {"avx2"},
    "avx512f": {"avx512f"},
    "avx512_vnni": {"avx512_vnni", "avx512vnni"},
    "avx_vnni": {"avx_vnni", "avxvnni"},
    "avx512_bf16": {"avx512_bf16", "avx512bf16"},
    "amx_int8": {"amx_int8"},
    "amx_bf16": {"amx_bf16"},
}
ARM = {
    "neon": {"asimd", "neon", "advsimd"},
    "dotprod": {"asimddp", "feat_dotprod"},
    "i8mm": {"i8mm", "feat_i8mm"},
    "bf16": {"bf16", "feat_bf16"},
}
EXACT_INT8 = ("avx512_vnni", "avx_vnni", "amx_int8", "dotprod", "i8mm")
FAST_BF16 = ("avx512_bf16", "amx_bf16", "bf16")


def cpu_name() -> str:
    """The maker's name for the CPU, or "unknown"."""
    match = re.search(r"^(?:model name|machdep\.cpu\.brand_string)\s*:\s*(.+)$", _system_list(), re.MULTILINE)
    return match[1].strip() if match else platform.processor() or "unknown"


def cpu_flags() -> dict[str, bool]:
    """Flag -> whether this CPU has it, for the flags of its architecture; empty where that cannot be found out."""
    return flags_in(_system_list(), platform.machine())


def flags_in(text: str, architecture: str) -> dict[str, bool]:
    """`cpu_flags` of the text of Linux's /proc/cpuinfo or macOS's sysctl; their spellings become those of Linux x86."""
    words = _words(text)
    spellings = ARM if architecture.lower().startswith(("arm", "aarch")) else X86
    return {flag: bool(names & words) for flag, names in spellings.items()} if words else {}


def int8_note(flags: dict[str, bool]) -> str:
    """What integer products do on a CPU with these flags: exact in 32 bits, or saturating in 16."""
    exact = [flag for flag in EXACT_INT8 if flags.get(flag)]
    if not flags:
        return "the CPU's features cannot be read here; quantize keeps 7-bit weights (reduce_range), exact on every CPU"
    if exact:
        return f"{', '.join(exact)}: u8 x s8 products add up exactly in 32 bits; full 8-bit weights are safe here"
    if flags.get("avx2"):
        return (
            "no VNNI: vpmaddubsw adds two u8 x s8 products in 16 bits and saturates silently at full range; "
            "keep 7-bit weights (quantize: reduce_range: true, the default), which are exact"
        )
    return "no integer dot product instructions: int8 makes the files smaller, but hardly faster to run"


def bf16_note(flags: dict[str, bool]) -> str:
    """Whether training in bfloat16 pays on a CPU with these flags."""
    fast = [flag for flag in FAST_BF16 if flags.get(flag)]
    if fast:
        return f"{', '.join(fast)}: training in bfloat16 is faster than in float32"
    return "no bfloat16 instructions: bfloat16 would be emulated, so training is faster in float32"


def _words(text: str) -> set[str]:
    """Names of features: those listed in a line of flags, and those that sysctl gives as `name: 1`."""
    words: set[str] = set()
    for key, value in re.findall(r"^([\w. ]+?)\s*:\s*(.*)$", text, re.MULTILINE):
        if re.search(r"flags|features", key, re.IGNORECASE):
            words |= set(value.lower().split())
        elif key.startswith("hw.optional.") and value.strip() == "1":
            words.add(key.rpartition(".")[2].lower())
    return words


def _system_list() -> str:
    if platform.system() == "Linux":
        return Path("/proc/cpuinfo").read_text(errors="replace")
    if platform.system() == "Darwin":
        return subprocess.run(["sysctl", "hw.optional", "machdep.cpu"], capture_output=True, text=True).stdout
    return ""
