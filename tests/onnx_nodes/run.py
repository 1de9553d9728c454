#!/usr/bin/env python3
"""ONNX's own tests of single operators, each as a file through the built command.

    run.py AICF [--device vulkan:llvmpipe] [--only PART-OF-NAME]...   prints each test that is not passed, and the counts
    run.py AICF --write     … and writes them to results.md
    run.py AICF --check     … and fails where a test is wrong, or one that results.md does not list is not passed

Needs a Python with onnx 1.23: this one, $AICF_ONNX_PYTHON, or the environment that tests/bench makes. Without one the
run is skipped (exit status 77). Tolerances are the tests' own; bfloat16 counts as onnx's runner counts it.
"""
import argparse, collections, concurrent.futures, json, os, pathlib, re, subprocess, sys, tempfile, warnings

RESULTS = pathlib.Path(__file__).parent / "results.md"
CACHE = pathlib.Path(os.environ.get("AICF_CACHE_DIR") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "aicf")

try:
    import numpy as np, onnx
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases
except ImportError as missing:
    other = os.environ.get("AICF_ONNX_PYTHON") or str(CACHE / "bench-venv" / "bin" / "python")
    if os.environ.get("AICF_ONNX_TRIED") or not os.path.exists(other):
        print(f"skipped: {missing}, and no other Python at {other} (set AICF_ONNX_PYTHON)")
        sys.exit(77)
    os.execve(other, [other, *sys.argv], {**os.environ, "AICF_ONNX_TRIED": "1"})


# Expected values that are the rounding error of a transform whose true value is 0: tolerance in place of the test's own.
NOISE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}


def operator_of(case, by_name):
    """The operator a test is about; the test of its function body (…_expanded…) counts there too."""
    return by_name.get(case.name) or by_name.get(re.sub(r"_expanded.*$", "", case.name)) or case.model.graph.node[-1].op_type


def tensor_kind(values):
    """Why these values are no tensors, or nothing."""
    for v in values:
        if v is None: continue
        if not isinstance(v, (np.ndarray, np.generic)): return "not a tensor"
        if np.asarray(v).dtype.kind in "OUS": return "strings"
    return ""


def widened(a):
    """As float64 (complex128): exact for every type; bfloat16 stands in npz files as two bytes without a name."""
    if a.dtype.kind == "V": a = (a.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return a if a.dtype.kind == "c" else a.astype(np.float64)


def difference(got, want, rtol, atol):
    if got.shape != want.shape: return f"shape {got.shape}, not {want.shape}"
    if got.dtype != want.dtype and not (got.dtype.kind == "V" and want.dtype.name == "bfloat16"):
        return f"type {got.dtype}, not {want.dtype}"
    if want.dtype.name == "bfloat16": rtol = max(rtol, 2.0**-6)
    a, b = widened(got), widened(want)
    bad = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    return f"{int(bad.sum())} of {bad.size} elements: {a[bad][:3]}, not {b[bad][:3]}" if bad.any() else ""


def run(case, options):
    """(verdict, reason): passed, refused (exit status 3), not a tensor, strings, wrong, failed (any other end)."""
    for inputs, outputs in case.data_sets:
        if kind := tensor_kind([*inputs, *outputs]): return kind, ""
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(case.model, f"{folder}/model.onnx")
            command = [options.aicf, "run", f"{folder}/model.onnx", "--device", options.device, "--quiet", "--outputs", f"{folder}/got.npz"]
            for k, (info, value) in enumerate(zip(case.model.graph.input, inputs)):
                if value is None: continue
                with open(f"{folder}/{k}.pb", "wb") as f: f.write(numpy_helper.from_array(np.asarray(value), info.name).SerializeToString())
                command += ["--inputs", f"{folder}/{k}.pb"]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
            except subprocess.TimeoutExpired:
                return "failed", "more than 120 seconds"
            message = ended.stderr.strip().replace("\n", " ").replace(f"{folder}/model.onnx: ", "")
            if ended.returncode == 3: return "refused", message.removeprefix("aicf: ")
            if ended.returncode: return "failed", f"exit status {ended.returncode}: {message[-300:]}"
            got = np.load(f"{folder}/got.npz")
            for info, value in zip(case.model.graph.output, outputs):
                if info.name not in got.files: return "wrong", f"no output {info.name}"
                if text := difference(got[info.name], np.asarray(value), case.rtol, NOISE.get(case.name, case.atol)): return "wrong", f"{info.name}: {text}"
    return "passed", ""


def short(reason):
    """The reason without what differs from test to test."""
    reason = re.sub(r"^node '[^']*' ", "", reason)
    reason = re.sub(r"of ai\.onnx opset \d+ is not supported", "is not there", reason)
    reason = re.sub(r"of the unknown domain", "of", reason)
    return re.sub(r"\s+", " ", reason.replace("|", "/"))


def table(cases, verdicts, operators, floats):
    kinds = ["passed", "refused", "not a tensor", "strings", "wrong", "failed"]
    count = collections.Counter(v for v, _ in verdicts.values())
    passed_floats = sum(verdicts[n][0] == "passed" for n in floats)
    lines = ["# ONNX's operator tests", "",
             f"Written by `run.py --write`; onnx {onnx.__version__}, {len(cases)} tests, each through `aicf run` on lavapipe, fused.", "",
             f"{count['passed']} passed; of the {len(floats)} with float outputs {passed_floats}. "
             + ", ".join(f"{count[k]} {k}" for k in kinds[1:]) + ".", "",
             "Absolute tolerance widened, for the expected values are rounding errors about 0: " + ", ".join(f"{n} ({a})" for n, a in NOISE.items()) + ".", "",
             "Refused: exit status 3, the operator or the case named. Not a tensor: sequences, optionals, sparse tensors.", "",
             "| operator | tests | " + " | ".join(kinds) + " |", "|---|---|" + "---|" * len(kinds)]
    per = collections.defaultdict(collections.Counter)
    for name, (verdict, _) in verdicts.items(): per[operators[name]][verdict] += 1
    for op in sorted(per): lines.append(f"| {op} | {sum(per[op].values())} | " + " | ".join(str(per[op][k] or "") for k in kinds) + " |")
    lines += ["", "## Not passed", "", "| verdict | reason | tests |", "|---|---|---|"]
    groups = collections.defaultdict(list)
    for name, (verdict, reason) in verdicts.items():
        if verdict != "passed": groups[verdict, short(reason)].append(name)
    for (verdict, reason), names in sorted(groups.items()): lines.append(f"| {verdict} | {reason} | {' '.join(sorted(names))} |")
    return "\n".join(lines) + "\n"


def listed():
    """Tests that results.md says are not passed."""
    rows = RESULTS.read_text().partition("## Not passed")[2].splitlines()
    return {name for row in rows if row.startswith("| ") for name in row.rsplit("|", 2)[1].split() if name.startswith("test_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aicf")
    parser.add_argument("--device", default="vulkan:llvmpipe")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", help="file for the verdicts by test")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    cases = {c.name: c for c in collect_testcases(None)}
    by_name = {name: node.op_type for name, node in sys.modules["onnx.backend.test.case.node"]._existing_names.items()}
    cases = {n: c for n, c in cases.items() if not options.only or any(part in n for part in options.only)}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = dict(zip(cases, pool.map(lambda c: run(c, options), cases.values())))
    operators = {n: operator_of(c, by_name) for n, c in cases.items()}
    floats = [n for n, c in cases.items()
              if any(isinstance(v, (np.ndarray, np.generic)) and (np.asarray(v).dtype.kind == "f" or np.asarray(v).dtype.name == "bfloat16") for v in c.data_sets[0][1])]
    if options.json: pathlib.Path(options.json).write_text(json.dumps({n: [operators[n], *v] for n, v in verdicts.items()}, indent=0))
    known = listed() if options.check else set()
    bad = {n: v for n, v in verdicts.items() if v[0] in ("wrong", "failed") or (v[0] != "passed" and n not in known)}
    for name, (verdict, reason) in (bad if options.check else verdicts).items():
        if verdict != "passed": print(f"{verdict:8} {name}: {reason}")
    print(", ".join(f"{n} {k}" for k, n in collections.Counter(v for v, _ in verdicts.values()).most_common()))
    if options.write: RESULTS.write_text(table(cases, verdicts, operators, floats))
    return 1 if options.check and bad else 0


if __name__ == "__main__":
    sys.exit(main())
