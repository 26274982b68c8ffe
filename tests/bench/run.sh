#!/usr/bin/env bash
# Prints ratios of muster to fio and to bare loops: interleaved runs, paired medians, whole-process CPU.
#   tests/bench/run.sh [--pairs N] [--seconds S] [--only REGEX]
# Then what 24 agents cost their controller (tests/bench/fleet/fleet.py), unless --only chooses.
# Absolute figures are printed with the machine and are never the criterion: machines are shared and noisy.
set -euo pipefail
cd "$(dirname "$0")/../.."
deploy/packages.sh build test bench
mkdir -p build
cmake --preset release -DMUSTER_BUILD_TESTS=ON >build/bench-build.log 2>&1 &&
  cmake --build build/release --parallel "$(nproc)" >>build/bench-build.log 2>&1 || { tail -n 30 build/bench-build.log >&2; exit 3; }
python3 -B tests/bench/compare.py --bin build/release/bin "$@"
# What a fleet costs its controller; `--only` chooses among the comparisons.
case " $* " in *" --only"*) ;; *) python3 -B tests/bench/fleet/fleet.py --bin build/release/bin ;; esac
