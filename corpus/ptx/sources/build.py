"""Writes ../*.ptx from the kernels here with nvcc; BAD selects the wrong half of a pair."""

import re
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
NVCC = ["nvcc", "-arch=sm_90a", "-ptx", "-o", "-"]


def header(source: Path, bad: bool) -> str:
    comment = re.search(r"((?:^// .*\n)+)", source.read_text(), re.M)
    assert comment is not None
    lines = comment[1].splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("// BAD"))
    if bad:
        lines[at] = lines[at].replace("// BAD: ", "// Wrong: ")
    return "\n".join(lines if bad else lines[:at]) + "\n"


def main() -> None:
    release = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"V(\d+\.\d+\.\d+)", release)
    assert version is not None
    for source in sorted(HERE.glob("*.cu")):
        for kind, flags in (("good", []), ("bad", ["-DBAD"])):
            text = subprocess.run(
                [*NVCC, *flags, source.name], cwd=HERE, capture_output=True, text=True, check=True
            ).stdout
            target = HERE.parent / f"{source.stem}.{kind}.ptx"
            body = text[text.index(".version") :]
            old = target.read_text() if target.exists() else ""
            expect = re.search(r"^// expect: .*\n", old, re.M)
            made = f"// generator: nvcc {version[1]}, sources/{' '.join([source.name, *flags])}\n"
            target.write_text(header(source, bool(flags)) + made + (expect[0] if expect else "") + body)


if __name__ == "__main__":
    main()
