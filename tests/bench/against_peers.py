#!/usr/bin/env python3
"""Attention and a whole model on lavapipe: AICF, fused and unfused, against what else runs the same ONNX file on Vulkan.

    tests/bench/against_peers.py [--aicf build/aicf] [--driver mesa25|mesa22|none] [--rounds 5] [--cases full,causal,decode,minilm]
                             [--peers ort-webgpu,iree-vulkan,ort-ggml] [--cold 5] [--require] [--out tests/bench]

Makes the attention models and inputs, takes all-MiniLM-L6-v2 from tests/models (4 sentences of up to 20 tokens), starts every peer once, then runs all in interleaved rounds, so that what else the machine does
meets all alike; every result is checked against float64. Writes results.md and results.json. Ratios are medians of the
rounds' own ratios. CPU time (all threads of the process) hardly depends on other load and is given beside wall time:
every contender computes on the CPU here.

--require: exit status 1 unless AICF is right everywhere, nowhere slower than its unfused plan (by more than the spread of
the rounds), at least 2.5 times (`full`) or twice (`minilm`) as fast as the fastest correct peer, and its cold time at most 5 s
or 15 s.
numpy, onnx and the peers are installed with pip into a virtual environment under $AICF_TESTBED, else ~/.cache/aicf, once;
a peer that cannot be had or cannot run the model is a line of the table.
"""
import argparse
import datetime
import json
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(
    os.environ.get("AICF_TESTBED") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "aicf")
)
PEERS = {"ort-webgpu": "ONNX Runtime WebGPU", "iree-vulkan": "IREE Vulkan", "ort-ggml": "ONNX Runtime ggml"}
PIP = [["numpy"], ["onnx"], ["onnxruntime"], ["onnxruntime-ep-webgpu"], ["--no-deps", "onnxruntime-ggml"],
       ["iree-base-compiler[onnx]"], ["iree-base-runtime"]]  # fmt: skip
TOLERANCE = {"abs": 2e-5, "rel": 1e-4}  # of a right f32 result, as everywhere in the tests
AICF, UNFUSED = "AICF", "AICF --fusion off"
WANTED = {"full": (2.5, 5.0), "minilm": (2.0, 15.0)}  # times the fastest correct peer, seconds of a cold run

CASES = {  # heads, queries, keys, d
    "full": (8, 1024, 1024, 64, False),
    "causal": (8, 1024, 1024, 64, True),
    "decode": (8, 1, 4096, 64, False),
    "minilm": None,  # a folder of tests/models
}
MODELS = {"minilm": ("minilm-ts17", "all-MiniLM-L6-v2, 4 sentences of up to 20 tokens, f32")}


def environment_with_packages():
    """Runs this script again in a virtual environment that has numpy, onnx and the peers."""
    venv = CACHE / "bench-venv"
    python = venv / "bin" / "python"
    if not (venv / "complete").exists():
        print(f"installing the peers into {venv} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        for package in PIP:
            done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *package])
            if done.returncode:
                print(f"pip cannot install {package[-1]}: its lines of the table will say so", file=sys.stderr)
        (venv / "complete").touch()
    os.environ["AICF_BENCH_INSIDE"] = "1"
    os.execv(python, [python, str(HERE / "against_peers.py"), *sys.argv[1:]])


def write_case(name, folder):
    """model.onnx, inputs.npz and the float64 result."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    heads, queries, keys, d, causal = CASES[name]
    rng = np.random.default_rng(20250)
    shapes = {"q": [1, heads, queries, d], "k": [1, heads, keys, d], "v": [1, heads, keys, d]}
    inputs = {n: rng.standard_normal(s, dtype=np.float32) for n, s in shapes.items()}
    # The TorchScript exporter's form: the root of the scale, computed from q's shape, on either side of the product.
    ints = lambda n, *v: numpy_helper.from_array(np.array(v, np.int64), n)
    constants = [ints("last", -1), ints("end", np.iinfo(np.int64).max), numpy_helper.from_array(np.float32(1), "one")]
    nodes = [
        helper.make_node("Shape", ["q"], ["shape"]),
        helper.make_node("Slice", ["shape", "last", "end"], ["columns_of_q"]),
        helper.make_node("Cast", ["columns_of_q"], ["d"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["d"], ["root_of_d"]),
        helper.make_node("Div", ["one", "root_of_d"], ["scale"]),
        helper.make_node("Sqrt", ["scale"], ["root_of_scale"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("Mul", ["q", "root_of_scale"], ["scaled_q"]),
        helper.make_node("Mul", ["kt", "root_of_scale"], ["scaled_k"]),
        helper.make_node("MatMul", ["scaled_q", "scaled_k"], ["scaled"]),
    ]
    last = "scaled"
    if causal:  # as exporters write it: positions compared, -inf where a key lies ahead
        rows, columns = np.arange(queries, dtype=np.int64)[:, None], np.arange(keys, dtype=np.int64)[None, :]
        constants += [numpy_helper.from_array(a, n) for n, a in
                      (("rows", rows), ("columns", columns), ("nothing", np.float32(-np.inf)))]  # fmt: skip
        nodes += [
            helper.make_node("GreaterOrEqual", ["rows", "columns"], ["seen"]),
            helper.make_node("Where", ["seen", "scaled", "nothing"], ["masked"]),
        ]
        last = "masked"
    nodes += [
        helper.make_node("Softmax", [last], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    value = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
    graph = helper.make_graph(nodes, name, [value(n, s) for n, s in shapes.items()], [value("y", shapes["q"])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    q, k, v = (inputs[n].astype(np.float64)[0] for n in "qkv")
    expected = np.empty((1, heads, queries, d))
    for h in range(heads):
        s = q[h] @ k[h].T / np.sqrt(d)
        if causal:
            s[np.arange(queries)[:, None] < np.arange(keys)[None, :]] = -np.inf
        p = np.exp(s - s.max(axis=1, keepdims=True))
        expected[0, h] = p / p.sum(axis=1, keepdims=True) @ v[h]
    return expected


def take_case(name, folder):
    """The files of a model in tests/models; its first output's name and right value."""
    import numpy as np
    import onnx

    source = ROOT / "tests" / "models" / MODELS[name][0]
    if not (source / "model.safetensors").exists():
        sys.exit(f"no weights in {source}: tools/quickstart fetches them")
    folder.mkdir()
    for file in ("model.onnx", "inputs.npz", "model.safetensors"):
        shutil.copy(source / file, folder / file)
    output = onnx.load(source / "model.onnx", load_external_data=False).graph.output[0].name
    with np.load(source / "expected.npz") as z:
        return output, z[output]


def difference(got, expected):
    """(largest absolute difference, right within the tolerance)"""
    import numpy as np

    if got.shape != expected.shape:
        return float("inf"), False
    d = np.abs(got.astype(np.float64) - expected)
    right = bool(np.all(d <= TOLERANCE["abs"] + TOLERANCE["rel"] * np.abs(expected)))
    return float(d.max()), right


class Peer:
    """A worker process of peers.py; see there."""

    def __init__(self, name, model, inputs, folder, prefix, env, limit):
        self.name, self.limit = name, limit
        self.output = folder / f"{name}.npy"
        self.log = open(folder / f"{name}.log", "w+")
        start = time.perf_counter()
        self.process = subprocess.Popen(
            [*prefix, sys.executable, HERE / "peers.py", name, model, inputs, self.output],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=env,
        )  # fmt: skip
        self.said = self._answer()
        self.cold_s = time.perf_counter() - start
        self._let(signal.SIGSTOP)  # threads of some peers spin while they wait

    def _answer(self):
        import select

        if not select.select([self.process.stdout], [], [], self.limit)[0]:
            self.close()
            return {"ready": False, "why": f"no answer in {self.limit:.0f} s"}
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.log.seek(0)
        return {"ready": False, "why": "died: " + " ".join(self.log.read().split())[-200:]}

    def _let(self, sign):
        if self.process.poll() is None:
            self.process.send_signal(sign)

    def run(self, n):
        self._let(signal.SIGCONT)
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        said = self._answer()
        self._let(signal.SIGSTOP)
        return said

    def close(self):
        self._let(signal.SIGCONT)
        self.process.stdin.close() if not self.process.stdin.closed else None
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def aicf_json(command, env):
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise RuntimeError(" ".join((done.stderr or done.stdout).split())[:300] or f"exit status {done.returncode}")
    return json.loads(done.stdout)


class Case:
    """One model: results per contender as {"ms": [per round], "cpu": [...], "error", "right", "first_s", "note"}."""

    def __init__(self, name, o, prefix, env, work):
        self.name, self.o, self.prefix, self.env = name, o, prefix, env
        self.folder = work / name
        self.output, self.expected = take_case(name, self.folder) if name in MODELS else ("y", write_case(name, self.folder))
        self.model, self.inputs = self.folder / "model.onnx", self.folder / "inputs.npz"
        self.rows, self.cold = {}, []

    def aicf(self, verb, *more):
        return [*self.prefix, self.o.aicf, verb, self.model, "--inputs", self.inputs, "--device", self.o.device, *more]

    def check_aicf(self):
        import numpy as np

        for title, fusion in ((AICF, "on"), (UNFUSED, "off")):
            out = self.folder / f"aicf-{fusion}.npz"
            row = self.rows[title] = {"ms": [], "cpu": []}
            start = time.perf_counter()
            done = subprocess.run(self.aicf("run", "--fusion", fusion, "--cache", "off", "--outputs", out),
                                  capture_output=True, text=True, env=self.env)  # fmt: skip
            row["first_s"] = time.perf_counter() - start
            if done.returncode:
                row["note"] = " ".join((done.stderr or done.stdout).split())[:300]
                raise RuntimeError(f"{title} on {self.name}: {row['note']}")
            with np.load(out) as z:
                row["error"], row["right"] = difference(z[self.output], self.expected)

    def measure_cold(self):
        """Wall and CPU seconds of whole processes that find no cache."""
        for _ in range(self.o.cold):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.perf_counter()
            subprocess.run(self.aicf("run", "--cache", "off"), capture_output=True, check=True, env=self.env)
            wall = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.cold.append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))

    def start_peers(self):
        import numpy as np

        self.peers = []
        for name in self.o.peers:
            peer = Peer(name, self.model, self.inputs, self.folder, self.prefix, self.env, self.o.limit)
            row = self.rows[PEERS[name]] = {"ms": [], "cpu": [], "first_s": peer.cold_s}
            if not peer.said["ready"]:
                row["note"] = peer.said["why"]
                continue
            row["error"], row["right"] = difference(np.load(peer.output), self.expected)
            row["note"] = peer.said["notes"]
            self.peers.append(peer)

    def round(self):
        bench = aicf_json(self.aicf("bench", "--against", "unfused", "--reps", str(self.o.reps), "--json"), self.env)
        for plan in bench["devices"]:
            row = self.rows[UNFUSED if plan["plan"].endswith("unfused") else AICF]
            row["ms"].append(plan["median_ms"])
            row["cpu"].append(plan["cpu_ms"])
            row["launches"] = plan["launches"]
            row["arena"] = plan["arena"]
        for peer in self.peers:
            said = peer.run(self.o.peer_reps)
            if "ms" in said:
                self.rows[PEERS[peer.name]]["ms"].append(statistics.median(said["ms"]))
                self.rows[PEERS[peer.name]]["cpu"].append(statistics.median(said["cpu"]))

    def run(self):
        say = lambda text: print(f"{self.name}: {text}", file=sys.stderr, flush=True)
        say("results of AICF")
        self.check_aicf()
        say("peers")
        self.start_peers()
        for i in range(self.o.rounds):
            say(f"round {i + 1} of {self.o.rounds}")
            self.round()
        for peer in self.peers:
            peer.close()
        if self.o.cold:
            say("cold")
            self.measure_cold()
        return self.summary()

    def summary(self):
        base = self.rows[AICF]
        for title, row in self.rows.items():
            if not row["ms"]:
                continue
            row["median_ms"], row["median_cpu_ms"] = statistics.median(row["ms"]), statistics.median(row["cpu"])
            row["ratio"] = statistics.median(a / b for a, b in zip(row["ms"], base["ms"]))
            row["cpu_ratio"] = statistics.median(a / b for a, b in zip(row["cpu"], base["cpu"]))
        rivals = {t: r for t, r in self.rows.items() if t in PEERS.values() and r.get("right") and r["ms"]}
        best = min(rivals, key=lambda t: rivals[t]["ratio"], default=None)
        out = {"case": self.name, "shape": CASES[self.name], "contenders": self.rows, "fastest_correct_peer": best}
        if best:
            out["speedup"], out["cpu_speedup"] = rivals[best]["ratio"], rivals[best]["cpu_ratio"]
        if self.cold:
            out["cold_s"], out["cold_cpu_s"] = (statistics.median(c[i] for c in self.cold) for i in (0, 1))
            out["cold_all_s"] = [c[0] for c in self.cold]
        return out


def sentence(case):
    if case["case"] in MODELS:
        return MODELS[case["case"]][1]
    heads, queries, keys, d, causal = case["shape"]
    return f"{heads} heads, {queries} {'queries' if queries > 1 else 'query'}, {keys} keys, d={d}{', causal' if causal else ''}, f32"


def table(case):
    lines = [f"## {case['case']}: {sentence(case)}", "",
             "| | wall ms | (min–max) | × AICF | CPU ms | × AICF | first result, s | max error | |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for title, r in case["contenders"].items():
        note = "" if r.get("right", True) else "**wrong**; "
        if "launches" in r:
            note += f"{r['launches']} launch{'es' if r['launches'] > 1 else ''}, intermediates {r['arena'] / 2**20:.1f} MiB"
        else:
            note += r.get("note", "").replace("|", "/")[:160]
        error = f"{r['error']:.1e}" if "error" in r else "–"
        if not r["ms"]:
            lines.append(f"| {title} | – | | | | | {r['first_s']:.1f} | {error} | {note} |")
            continue
        lines.append(f"| {title} | {r['median_ms']:.1f} | ({min(r['ms']):.1f}–{max(r['ms']):.1f}) | {r['ratio']:.2f} | {r['median_cpu_ms']:.0f} "
                     f"| {r['cpu_ratio']:.2f} | {r['first_s']:.1f} | {error} | {note} |")  # fmt: skip
    lines.append("")
    if "speedup" in case:
        lines.append(f"Against {case['fastest_correct_peer']}, the fastest correct peer: {case['speedup']:.2f} times as fast "
                     f"({case['cpu_speedup']:.2f} by CPU time).")  # fmt: skip
    if "cold_s" in case:
        lines.append(f"Cold `aicf run`, no caches, median of {len(case['cold_all_s'])}: {case['cold_s']:.2f} s "
                     f"({case['cold_cpu_s']:.2f} s of CPU time; {', '.join(f'{s:.2f}' for s in case['cold_all_s'])}).")  # fmt: skip
    return lines + [""]


def failures(cases):
    out = []
    for case in cases:
        fused, unfused = case["contenders"][AICF], case["contenders"][UNFUSED]
        for title in (AICF, UNFUSED):
            if not case["contenders"][title]["right"]:
                out.append(f"{case['case']}: {title} is wrong")
        noise = (max(fused["cpu"]) - min(fused["cpu"])) / fused["median_cpu_ms"]
        if min(unfused["ratio"], unfused["cpu_ratio"]) < 1 - max(0.05, noise):
            out.append(f"{case['case']}: slower than --fusion off")
        enough, cold_most = WANTED.get(case["case"], (0, float("inf")))
        if case.get("speedup", 0) < enough:
            out.append(f"{case['case']}: {case.get('speedup', 0):.2f} times the fastest correct peer, {enough} wanted")
        if case.get("cold_s", 0) > cold_most:
            out.append(f"{case['case']}: {case['cold_s']:.2f} s cold, {cold_most} s wanted")
    return out


def machine():
    model = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown")
    return f"{model}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda text: [x for x in text.split(",") if x]
    parser.add_argument("--aicf", type=pathlib.Path, default=ROOT / "build" / "aicf")
    parser.add_argument("--driver", choices=["mesa25", "mesa22", "none"], default="mesa25", help="as for tools/testbed; none: the environment's")
    parser.add_argument("--device", default="vulkan:llvmpipe")
    parser.add_argument("--cases", type=listed, default=list(CASES))
    parser.add_argument("--peers", type=listed, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reps", type=int, default=5, help="runs of each plan of AICF in a round")
    parser.add_argument("--peer-reps", type=int, default=2, help="runs of each peer in a round")
    parser.add_argument("--cold", type=int, default=5, help="cold processes; 0: none")
    parser.add_argument("--limit", type=float, default=300, help="seconds a peer may take to answer")
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    parser.add_argument("--require", action="store_true")
    o = parser.parse_args()
    if "AICF_BENCH_INSIDE" not in os.environ:
        environment_with_packages()
    o.aicf = o.aicf.resolve()
    if not o.aicf.exists():
        parser.error(f"no {o.aicf}: build it (ninja -C build aicf) or name one with --aicf")
    prefix = [] if o.driver == "none" else [str(ROOT / "tools" / "testbed"), o.driver]
    env = dict(os.environ, MESA_SHADER_CACHE_DISABLE="true")
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        env.pop(name, None)
    devices = aicf_json([*prefix, o.aicf, "devices", "--json"], env)["devices"]
    used = next((d for d in devices if d["id"].startswith("vulkan") and "llvmpipe" in d["name"]), devices[0])
    load_before = os.getloadavg()[0]
    cases = []
    with tempfile.TemporaryDirectory() as work:
        for name in o.cases:  # written after every case: a run that is stopped leaves what it has
            cases.append(Case(name, o, prefix, env, pathlib.Path(work)).run())
            text, bad = write(o, cases, used, load_before)
    print(text)
    return 1 if o.require and bad else 0


def write(o, cases, used, load_before):
    """results.md and results.json; returns the text and what is not met."""
    report = {
        "date": datetime.date.today().isoformat(), "device": used["description"], "scheduled_as": used["model"], "machine": machine(),
        "load_average": [round(load_before, 1), round(os.getloadavg()[0], 1)], "rounds": o.rounds, "cases": cases,
    }  # fmt: skip
    bad = failures(cases)
    lines = [
        "# Attention and a whole model on lavapipe", "",
        f"Written by `tests/bench/against_peers.py`, {report['date']}; {report['device']}; {report['machine']}; "
        f"load average {report['load_average'][0]} before, {report['load_average'][1]} after; "
        f"{o.rounds} interleaved rounds, medians; peers given the same ONNX file. All contenders compute on the CPU: CPU time is the "
        "process's, all threads, and hardly depends on what else the machine does. First result: process start to result, no shader cache; "
        f"of a peer with its own compile. Right: within {TOLERANCE['abs']:g} + {TOLERANCE['rel']:g}·|x| of float64.", "",
    ]  # fmt: skip
    for case in cases:
        lines += table(case)
    wanted = []
    for case in cases:
        if case["case"] in WANTED:
            enough, cold_most = WANTED[case["case"]]
            wanted.append(f"`{case['case']}` at least {enough} times as fast as the fastest correct peer, cold within {cold_most:g} s")
    wanted += ["right", "never slower than `--fusion off`"]
    lines += ["Not met: " + "; ".join(bad) + "." if bad else "Met: " + ", ".join(wanted) + "."]
    text = "\n".join(lines) + "\n"
    o.out.mkdir(parents=True, exist_ok=True)
    (o.out / "results.md").write_text(text)
    (o.out / "results.json").write_text(json.dumps(report, indent=1) + "\n")
    return text, bad


if __name__ == "__main__":
    sys.exit(main())
