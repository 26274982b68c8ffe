// Makes and checks the golden histograms with hdr-histogram-js, an implementation that is not ours.
//
// The package is not needed to build or test; only to make the files anew:
//   mkdir /tmp/hdr && cd /tmp/hdr && npm init -y && npm install hdr-histogram-js@3.0.1
//   export NODE_PATH=/tmp/hdr/node_modules
//   node tests/golden/make_golden.mjs                      writes histograms.txt and reference.hlog beside this file
//   MUSTER_WRITE_HLOG=tests/golden/ours.hlog .../stats_test "[golden-write]"     our writer's output
//   node tests/golden/make_golden.mjs --check tests/golden/ours.hlog > tests/golden/ours.hlog.read
//
// --check FILE reads a log with the package's own HistogramLogReader and prints what it saw, one line an interval:
//   tag start length count percentiles... max     (values in ns, percentiles those of PERCENTILES)
//
// histograms.txt is made of cases, each of these lines:
//   case NAME
//   values V:TIMES ...       what was recorded, in ascending order of V
//   counters INDEX:COUNT ... every non-zero counter
//   percentiles P:VALUE ...  highest equivalent value at P percent (HdrHistogram does not clamp it to the maximum)
//   count N
//   base64 TEXT              V2 compressed form
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const hdr = require("hdr-histogram-js");

const HIGHEST = 2 ** 42 - 1;
const PERCENTILES = [0.1, 1, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100];
const here = dirname(fileURLToPath(import.meta.url));

function make(values) {
  const histogram = hdr.build({
    bitBucketSize: 64,
    autoResize: false,
    lowestDiscernibleValue: 1,
    highestTrackableValue: HIGHEST,
    numberOfSignificantValueDigits: 3,
    useWebAssembly: false,
  });
  for (const [value, times] of values) histogram.recordValueWithCount(value, times);
  return histogram;
}

// A 32-bit linear congruential generator (Numerical Recipes): the same numbers on every engine.
function generator(seed) {
  let state = seed >>> 0;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

// The lowest value of the counter that `value` falls into, so that a list of values stays short.
function counted(histogram, value) {
  return histogram.lowestEquivalentValue(value);
}

function cases() {
  const list = [];
  list.push(["empty", []]);
  list.push(["zero", [[0, 1]]]);
  list.push(["one_value", [[123456, 1]]]);
  list.push(["one_value_often", [[87654321, 1000000]]]);
  list.push(["max_value", [[1, 1], [HIGHEST, 3]]]);
  list.push(["dense", Array.from({ length: 600 }, (_, i) => [1800 + i, (i % 7) + 1])]);
  // Each power of two with its neighbours: every octave and every edge between two.
  const wide = new Set();
  for (let bit = 0; bit < 42; ++bit) {
    for (const value of [2 ** bit - 1, 2 ** bit, 2 ** bit + 1, 1.5 * 2 ** bit]) {
      if (value >= 0 && value <= HIGHEST && Number.isInteger(value)) wide.add(value);
    }
  }
  wide.add(HIGHEST);
  list.push(["wide", [...wide].sort((a, b) => a - b).map((value, i) => [value, i + 1])]);
  // Gaps of 1, 2, 3, ... zeros and across the lengths where the run's word grows by a byte.
  const runs = [];
  let index = 5;
  for (const gap of [0, 1, 2, 3, 62, 63, 64, 65, 127, 128, 1023]) {
    runs.push([index, 1]);
    index += gap + 1;
  }
  runs.push([index, 2], [index * 1024, 1], [HIGHEST, 1]);
  list.push(["zero_runs", runs]);
  // Counts at the edges of one to eight bytes a word; doubles hold them exactly.
  const counts = [];
  for (let bits = 6, value = 1; bits <= 48; bits += 7) {
    for (const times of [2 ** bits - 1, 2 ** bits, 2 ** bits + 1]) counts.push([(value += 3), times]);
  }
  list.push(["large_counts", counts]);
  // 4,000 latencies around 100 us, log-normal (Box-Muller), as a device gives them.
  const next = generator(20240501);
  const scratch = make([]);
  const sampled = new Map();
  for (let i = 0; i < 4000; ++i) {
    const normal = Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    const value = counted(scratch, Math.min(HIGHEST, Math.floor(100000 * Math.exp(0.8 * normal))));
    sampled.set(value, (sampled.get(value) ?? 0) + 1);
  }
  list.push(["lognormal", [...sampled.entries()].sort((a, b) => a[0] - b[0])]);
  return list;
}

function golden() {
  let out = "# Made by make_golden.mjs with hdr-histogram-js 3.0.1; the format is described there.\n";
  for (const [name, values] of cases()) {
    const histogram = make(values);
    out += `case ${name}\n`;
    out += `values${values.map(([value, times]) => ` ${value}:${times}`).join("")}\n`;
    out += "counters";
    for (let i = 0; i < histogram.countsArrayLength; ++i) {
      const count = histogram.getCountAtIndex(i);
      if (count > 0) out += ` ${i}:${count}`;
    }
    out += `\npercentiles${PERCENTILES.map((p) => ` ${p}:${histogram.getValueAtPercentile(p)}`).join("")}\n`;
    out += `count ${histogram.totalCount}\n`;
    out += `base64 ${hdr.encodeIntoCompressedBase64(histogram)}\n`;
  }
  writeFileSync(join(here, "histograms.txt"), out);

  let log = "";
  const writer = new hdr.HistogramLogWriter((text) => (log += text));
  writer.outputLogFormatVersion();
  writer.outputLegend();
  let start = 0;
  for (const [name, values] of cases()) {
    const histogram = make(values);
    if (name !== "zero") histogram.tag = name;
    writer.outputIntervalHistogram(histogram, start, start + 1.5, 1e6);
    start += 1.5;
  }
  writeFileSync(join(here, "reference.hlog"), log);
}

function check(file) {
  const reader = new hdr.HistogramLogReader(readFileSync(file, "utf8"), 64, false);
  for (let histogram; (histogram = reader.nextIntervalHistogram()) !== null; ) {
    const start = ((histogram.startTimeStampMsec - reader.startTimeSec * 1000) / 1000).toFixed(3);
    const length = ((histogram.endTimeStampMsec - histogram.startTimeStampMsec) / 1000).toFixed(3);
    const values = PERCENTILES.map((p) => histogram.getValueAtPercentile(p)).join(" ");
    const tag = histogram.tag === "NO TAG" ? "-" : histogram.tag;
    console.log(`${tag} ${start} ${length} ${histogram.totalCount} ${values} ${histogram.maxValue}`);
  }
}

if (process.argv[2] === "--check") {
  check(process.argv[3]);
} else {
  golden();
}
