#!/bin/sh
# Each peer in a virtual environment of its own, under .peers/. What cannot be installed is left
# out with a note; the benchmark then runs without it.
set -u
cd "$(dirname "$0")/../.." || exit 1
python=${PYTHON:-python3}
mkdir -p .peers

peer() {
    name=$1
    shift
    test -f ".peers/$name/ready" && return
    "$python" -m venv ".peers/$name" &&
        ".peers/$name/bin/pip" install -q "$@" &&
        touch ".peers/$name/ready" ||
        echo "note: $name could not be installed, it will be left out"
}

peer flower "torch==2.13.0" "flwr[simulation]==1.41.0"
peer pfl "torch==2.13.0" "pfl==0.6.0"
peer fedjax "jax==0.5.3" "fedjax==0.0.17"
