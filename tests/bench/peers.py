"""One peer in a process of its own: makes the model ready, then runs it whenever told, so that rounds can interleave.

    python peers.py NAME MODEL.onnx INPUTS.npz OUTPUT.npy

Reads lines "N" from stdin: N timed runs. Answers each with one JSON line. The first line it writes of its own accord:
{"ready": true, "compile_s", "first_s", "notes"} or {"ready": false, "why"}; after it OUTPUT.npy holds the first output.
Times are wall milliseconds a user of the peer's own API waits; "cpu" is the process's CPU time meanwhile (all threads).
"""
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import time


class OnnxRuntime:
    """A session with every node on the given provider; inputs are uploaded with each run."""

    def __init__(self, flavour, model, inputs):
        import onnxruntime

        start = time.perf_counter()
        options = onnxruntime.SessionOptions()
        if flavour == "webgpu":
            os.environ.setdefault("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1")
            import onnxruntime_ep_webgpu as plugin

            onnxruntime.register_execution_provider_library("webgpu", plugin.get_library_path())
            devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == plugin.get_ep_name()]
            if not devices:
                raise RuntimeError("the WebGPU provider finds no Vulkan device")
            options.add_provider_for_devices(devices[:1], {})
        else:
            os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
            import onnxruntime_ggml

            options = onnxruntime_ggml.session_options({"device": "gpu"})
            # It claims no node of a model with one that it lacks: all would run on ONNX Runtime's CPU provider.
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.enable_profiling = False
        self.session = onnxruntime.InferenceSession(model, options)
        self.feed = {i.name: inputs[i.name] for i in self.session.get_inputs()}
        self.compile_s = time.perf_counter() - start
        self.notes = f"onnxruntime {onnxruntime.__version__}"

    def run(self):
        return self.session.run(None, self.feed)[0]


class Iree:
    """Compiled ahead of time; inputs stay on the device, the output is read back (that is what waits for the result)."""

    def __init__(self, model, inputs):
        import iree.runtime as rt

        start = time.perf_counter()
        folder = pathlib.Path(tempfile.mkdtemp())
        mlir, module = folder / "model.mlir", folder / "model.vmfb"
        self._tool("iree-import-onnx", model, "-o", mlir)
        self._tool("iree-compile", mlir, "--iree-hal-target-device=vulkan", "--iree-opt-level=O3", "-o", module)
        self.compile_s = time.perf_counter() - start
        context = rt.SystemContext(config=rt.Config("vulkan"))
        context.add_vm_module(rt.VmModule.copy_buffer(context.instance, module.read_bytes()))
        loaded = [context.modules[name] for name in context.modules.keys() if name != "hal"]
        names = [f for f in loaded[-1].vm_module.function_names if not f.startswith("__") and not f.endswith("$async")]
        self.function = loaded[-1][names[0]]
        self.device, self.staging = context.config.device, None
        self.arguments = [rt.asdevicearray(self.device, x) for x in inputs.values()]
        from importlib.metadata import version

        self.notes = f"iree-base-compiler {version('iree-base-compiler')}"

    @staticmethod
    def _tool(name, *arguments):
        path = pathlib.Path(sysconfig.get_path("scripts")) / name
        done = subprocess.run([path, *arguments], capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise RuntimeError(f"{name}: {(errors or ['failed'])[0][:200]}")

    def run(self):
        """The output in host memory. DeviceArray.to_host() cannot be used: it imports memory that is not page-aligned."""
        import iree.runtime as rt

        result = self.function(*self.arguments)
        source = result._buffer_view.get_buffer()
        if self.staging is None:
            self.staging = self.device.allocator.allocate_buffer(
                memory_type=int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
                allowed_usage=int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
                allocation_size=source.byte_length(),
            )
        done = self.device.create_semaphore(0)
        self.device.queue_copy(
            source,
            self.staging,
            wait_semaphores=rt.HalFence.create_at(done, 0),
            signal_semaphores=rt.HalFence.create_at(done, 1),
        )
        rt.HalFence.create_at(done, 1).wait()
        return self.staging.map().asarray(result.shape, result.dtype)


def make(name, model, inputs):
    if name.startswith("ort-"):
        return OnnxRuntime(name[4:], model, inputs)
    return Iree(model, inputs)


def main():
    name, model, inputs_path, output_path = sys.argv[1:]
    # Drivers and libraries chatter on stdout: answers go to a copy of it, the rest to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**fields):
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        import numpy

        with numpy.load(inputs_path) as z:
            inputs = {n: z[n] for n in z.files}
        peer = make(name, model, inputs)
        start = time.perf_counter()
        numpy.save(output_path, numpy.asarray(peer.run()))
        answer(ready=True, compile_s=peer.compile_s, first_s=time.perf_counter() - start, notes=peer.notes)
    except Exception as e:  # a peer that cannot is a line of the table
        answer(ready=False, why=" ".join(f"{type(e).__name__}: {e}".split())[:300])
        return
    for line in sys.stdin:
        ms, cpu = [], []
        for _ in range(int(line)):
            start, busy = time.perf_counter(), time.process_time()
            peer.run()
            ms.append((time.perf_counter() - start) * 1e3)
            cpu.append((time.process_time() - busy) * 1e3)
        answer(ms=ms, cpu=cpu)


main()
