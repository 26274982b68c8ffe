#!/usr/bin/env bash
# Builds and runs the tests. Last line: `N passed, N failed, N skipped` (test cases).
#   tests/run.sh            everything that CI runs
#   tests/run.sh --quick    release build only, no sanitizers
#   tests/run.sh --long     what is slower: clang-tidy, far more simulation seeds and fuzz rounds, 50 repeats, ten minutes of
#                           chaos, half an hour of soak, the lab (tests/lab: kernel targets in a virtual machine)
#   tests/run.sh --filter R only test programs whose name matches the regular expression R
set -uo pipefail
cd "$(dirname "$0")/.."
mode=ci filter=.
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) mode=quick ;;
    --long) mode=long ;;
    --filter) filter=${2:?--filter needs a regular expression}; shift ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
  esac
  shift
done

deploy/packages.sh build test || exit 3
export CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-5G}
logs=build/test-logs
mkdir -p $logs
passed=0 failed=0 skipped=0
jobs=$(nproc)

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

# build PRESET [targets]
build() {
  local preset=$1; shift
  say "building $preset"
  if ! { cmake --preset "$preset" -DMUSTER_BUILD_TESTS=ON && cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"}; } >"$logs/build-$preset.log" 2>&1; then
    grep -E 'error|Error|FAILED' "$logs/build-$preset.log" | head -40
    tail -n 20 "$logs/build-$preset.log"
    say "FAILED to build $preset, log: $logs/build-$preset.log"
    failed=$((failed + 1))
    return 1
  fi
}

# Counts the test cases in a ctest log: Catch2 summaries, the closing lines of scripts, and programs that ended otherwise.
# Programs may have run at once: each line begins with the number of its program.
count() {
  awk '
    /^[0-9]+: / { id = $0; sub(/:.*/, "", id); sub(/^[0-9]+: /, "") }
    /^All tests passed \(/ { match($0, /in [0-9]+ test case/); p += substr($0, RSTART + 3, RLENGTH - 13); seen[id] = 1 }
    /^test cases:/ {
      n = split($0, parts, "|")
      for (i = 1; i <= n; i++) {
        if (parts[i] ~ /passed/) { split(parts[i], w, " "); p += w[1] }
        if (parts[i] ~ /failed/) { split(parts[i], w, " "); f += w[1]; f_in[id] = 1 }
      }
      seen[id] = 1
    }
    /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $1; f += $3; s += $5; if ($3 > 0) f_in[id] = 1; seen[id] = 1 }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+:/ {
      match($0, /#[0-9]+/); id = substr($0, RSTART + 1, RLENGTH - 1)
      if (/\*\*\*Skipped/) s += 1
      else if (/\*\*\*|Failed|Timeout|Exception/ && !f_in[id]) f += 1
      else if (/Passed/ && !seen[id]) p += 1
    }
    END { print p + 0, f + 0, s + 0 }' "$1"
}

# run NAME PRESET LABELS PARALLEL [environment]
run() {
  local name=$1 preset=$2 labels=$3 parallel=$4; shift 4
  say "running $name"
  local log=$logs/$name.log
  env "$@" ctest --test-dir "build/$preset" -L "$labels" -R "$filter" -V --timeout 600 --parallel "$parallel" >"$log" 2>&1
  local p f s
  read -r p f s < <(count "$log")
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  say "$name: $p passed, $f failed, $s skipped"
  if [ "$f" -gt 0 ]; then
    grep -nE '\*\*\*(Failed|Timeout|Exception)|FAILED|ERROR: |SUMMARY|runtime error|WARNING: ThreadSanitizer' "$log" | head -30
    grep -nE -B2 -A14 'FAILED:' "$log" | head -120
  fi
  grep -E '^[0-9]+: SKIP' "$log" | sed 's/^[0-9]*: //' | sort | uniq -c | head -20
}

format() {
  say "clang-format"
  local bad
  bad=$(git ls-files '*.cc' '*.h' | xargs clang-format --dry-run 2>&1 | grep -cE 'warning: code should be clang-formatted')
  if [ "$bad" -gt 0 ]; then
    git ls-files '*.cc' '*.h' | xargs clang-format --dry-run 2>&1 | grep warning: | cut -d: -f1 | sort | uniq -c | head -20
    failed=$((failed + 1)); say "clang-format: $bad places differ"
  else
    passed=$((passed + 1))
  fi
}

tidy() {
  say "clang-tidy"
  if git ls-files '*.cc' | grep -v '^tests/' | xargs -P "$jobs" -n 4 clang-tidy -p build/release --quiet >"$logs/tidy.log" 2>/dev/null; then
    passed=$((passed + 1))
  else
    grep -E 'warning:|error:' "$logs/tidy.log" | head -20
    failed=$((failed + 1)); say "clang-tidy: see $logs/tidy.log"
  fi
}

case "$mode" in
  quick)
    build release && { run release release '^(unit|conformance|sim|integration|fuzz|bench)$' 1; run e2e release '^e2e$' 3; }
    ;;
  ci)
    format
    build release && { run release release '^(unit|conformance|sim|integration|fuzz)$' 1; run e2e release '^e2e$' 3; }
    build asan tests_unit tests_sim tests_integration tests_fuzz && run asan asan '^(unit|sim|integration|fuzz)$' 1 ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
    build tsan tests_threads && run tsan tsan threads 1 TSAN_OPTIONS=halt_on_error=1
    ;;
  long)
    seeds="MUSTER_SIM_SEEDS=20000 MUSTER_FUZZ_ROUNDS=100000"
    build release && { tidy; run release release '^(unit|conformance|sim|integration|fuzz|bench)$' 1 $seeds; run e2e release '^e2e$' 3 MUSTER_CHAOS_SECONDS=600; run soak release '^soak$' 1; run lab release '^lab$' 1; }
    build asan && run asan asan '^(unit|sim|integration|fuzz|conformance)$' 1 MUSTER_SIM_SEEDS=3000 MUSTER_FUZZ_ROUNDS=30000 ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
    build tsan tests_threads && run tsan tsan threads 1 TSAN_OPTIONS=halt_on_error=1
    if [ -d build/release ]; then
      say "50 repeats of unit, sim and integration, several programs at once"
      ctest --test-dir build/release -L '^(unit|sim|integration)$' --parallel "$((2 * jobs))" --repeat until-fail:50 --timeout 600 >"$logs/repeat.log" 2>&1 &&
        passed=$((passed + 1)) || { failed=$((failed + 1)); grep -E '\*\*\*' "$logs/repeat.log" | head; }
    fi
    ;;
esac
say "done, logs in $logs"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
