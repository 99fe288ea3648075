#!/usr/bin/env bash
# Runs SluiceDB's db_bench and another one on the same flags, in turn (A B B A), and prints medians and ratios.
#
#   cargo build --release -p sluicedb-tools --bin db_bench
#   apt-get install rocksdb-tools
#   benches/peers/db_bench.sh target/release/db_bench /usr/bin/db_bench
#
# Environment: ROUNDS (5), NUM (3000000 keys of 16 + 100 bytes), READS (500000), S1_NUM (6000000 of 16 + 1000), SYNCS (5000),
# WORKLOADS (all), DIR (a temporary directory), RECORDS (a file that keeps a line of every run; given again, they add up).
# Deviation (cv), CPU seconds and memory are those of the whole run, the loading before reads included.
# Debian's db_bench has assertions on and no hardware CRC-32: ratios against it flatter us.
set -euo pipefail
ours=${1:?the path of our db_bench}
theirs=${2:?the path of the other db_bench}
ROUNDS=${ROUNDS:-5} NUM=${NUM:-3000000} READS=${READS:-500000} S1_NUM=${S1_NUM:-6000000} SYNCS=${SYNCS:-5000}
WORKLOADS=${WORKLOADS:-fillseq fillrandom fillrandom4 s1 fillsync fillsync8 readrandom readrandom4 seekrandom readwhilewriting}
dir=$(mktemp -d "${DIR:-${TMPDIR:-/tmp}}/db_bench-XXXXXX")
records=${RECORDS:-$dir/records}
trap 'rm -rf "$dir"' EXIT
touch "$records"

common=(--key_size=16 --bloom_bits=10 --max_background_flushes=1 --max_background_compactions=2
    --delayed_write_rate=536870912 --max_write_buffer_number=4 --histogram=1)
small=("${common[@]}" --num="$NUM" --value_size=100 --compression_type=lz4 --compression_ratio=0.5 --cache_size=33554432
    --write_buffer_size=67108864 --db_write_buffer_size=268435456)
loaded=("${small[@]}" --reads="$READS")

# Sets `flags` and `measured`, the benchmark whose line counts, for a workload.
choose() {
    measured=$1
    case $1 in
        fillseq) flags=("${small[@]}" --benchmarks=fillseq) ;;
        fillrandom) flags=("${small[@]}" --benchmarks=fillrandom) ;;
        fillrandom4) measured=fillrandom flags=("${small[@]}" --benchmarks=fillrandom --threads=4 --writes=$((NUM / 4))) ;;
        s1) measured=fillrandom flags=("${common[@]}" --benchmarks=fillrandom --num="$S1_NUM" --value_size=1000
            --num_column_families=6 --disable_wal=1 --compression_type=none --cache_size=8388608
            --write_buffer_size=16777216 --db_write_buffer_size=134217728) ;;
        fillsync) measured=fillrandom flags=("${small[@]}" --benchmarks=fillrandom --sync=1 --writes="$SYNCS") ;;
        fillsync8) measured=fillrandom flags=("${small[@]}" --benchmarks=fillrandom --sync=1 --writes="$SYNCS" --threads=8) ;;
        readrandom) flags=("${loaded[@]}" --benchmarks=fillrandom,readrandom) ;;
        readrandom4) measured=readrandom flags=("${loaded[@]}" --benchmarks=fillrandom,readrandom --threads=4
            --writes=$((NUM / 4)) --reads=$((READS / 4))) ;;
        seekrandom) flags=("${small[@]}" --benchmarks=fillrandom,seekrandom --seek_nexts=10 --reads=$((READS / 5))) ;;
        readwhilewriting) flags=("${loaded[@]}" --benchmarks=fillrandom,readwhilewriting
            --benchmark_write_rate_limit=1160000) ;;
        *) echo "there is no workload $1" >&2; exit 2 ;;
    esac
}

# Runs one side of one workload and appends: workload side ops/s P99.99 cv CPU-seconds peak-anonymous-KiB.
run() {
    local side=$1 binary=$2 workload=$3 peak=0 now cpu last_cpu=0 pid
    choose "$workload"
    rm -rf "$dir/db" "$dir/report.csv"
    sync
    sleep 1
    "$binary" "${flags[@]}" --db="$dir/db" --report_file="$dir/report.csv" --report_interval_seconds=1 \
        >"$dir/out" 2>"$dir/err" &
    pid=$!
    # A process that has ended has no memory left to tell of; its CPU time is that of the last look.
    while kill -0 "$pid" 2>/dev/null; do
        now=$(awk '/^RssAnon:/ { print $2 }' "/proc/$pid/status" 2>/dev/null || true)
        [ "${now:-0}" -gt "$peak" ] && peak=$now
        cpu=$(awk '{ print ($14 + $15) / 100 }' "/proc/$pid/stat" 2>/dev/null || true)
        [ -n "$cpu" ] && last_cpu=$cpu
        sleep 0.05
    done
    wait "$pid" || { echo "$binary failed:" >&2; tail -5 "$dir/err" "$dir/out" >&2; exit 1; }
    awk -v measured="$measured" -v workload="$workload" -v side="$side" -v peak="$peak" -v cpu="$last_cpu" '
        FILENAME ~ /report.csv$/ {
            if (split($0, cell, ",") == 2 && cell[1] ~ /^[0-9]/) { n++; sum += cell[2]; squares += cell[2] ^ 2 }
            next
        }
        $1 == measured && / ops\/sec/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^ops\/sec/) rate = $i }
        rate && /^Percentiles:/ { p = $NF }
        END {
            if (!rate) exit 1
            cv = n >= 5 ? sqrt(squares / n - (sum / n) ^ 2) / (sum / n) : "-"
            print workload, side, rate, p, cv, cpu, peak
        }' "$dir/report.csv" "$dir/out" >>"$records" || { echo "$binary printed no figure for $measured" >&2; exit 1; }
    tail -1 "$records"
}

for ((round = 0; round < ROUNDS; round++)); do
    for workload in $WORKLOADS; do
        if ((round % 2 == 0)); then
            run ours "$ours" "$workload"; run theirs "$theirs" "$workload"
        else
            run theirs "$theirs" "$workload"; run ours "$ours" "$workload"
        fi
    done
done

# The middle of column $3 of the records of a workload and a side.
median() { awk -v w="$1" -v s="$2" -v c="$3" '$1 == w && $2 == s { print $c }' "$records" | sort -g | awk '{ v[NR] = $1 } END { print v[int(NR / 2) + 1] }'; }

echo
echo "| workload | runs | ours, ops/s | theirs | ours / theirs | cv ours / theirs | P99.99, us | CPU s | peak anonymous, MiB |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
for workload in $WORKLOADS; do
    runs=$(awk -v w="$workload" '$1 == w && $2 == "ours"' "$records" | wc -l)
    o=() t=()
    for column in 3 4 5 6 7; do
        o+=("$(median "$workload" ours $column)") t+=("$(median "$workload" theirs $column)")
    done
    awk -v w="$workload" -v runs="$runs" -v o="${o[*]}" -v t="${t[*]}" 'BEGIN {
        split(o, a, " "); split(t, b, " ")
        cv = a[3] == "-" ? "- / -" : sprintf("%.2f / %.2f", a[3], b[3])
        printf "| %s | %d | %d | %d | %.2f | %s | %.0f / %.0f | %.1f / %.1f | %.0f / %.0f |\n",
            w, runs, a[1], b[1], a[1] / b[1], cv, a[2], b[2], a[4], b[4], a[5] / 1024, b[5] / 1024
    }'
done
