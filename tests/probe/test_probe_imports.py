import subprocess
import sys


def test_probes_are_found_without_loading_torch_or_scikit_learn() -> None:
    code = (
        "import sys; from assay.core.plugins import PROBES; [PROBES.get(name) for name in PROBES.names()];"
        "print(sorted({'torch', 'transformers', 'sklearn', 'scipy', 'onnxruntime'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
