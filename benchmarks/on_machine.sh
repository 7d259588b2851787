#!/bin/bash
# on_machine.sh ARCHIVES OUT RUN-ARGUMENTS..
# Arguments are those of `run.py run`, or `campaign NAME ..`.
# On the GPU machine, from the repository's root: unpack what `run.py pack` made, run, leave in OUT pieces.tar.xz (of
# this call and of all earlier ones on this machine) and logs.tar.xz (the ends of the servers' logs).
# BENCH_SCRATCH: where to unpack, to keep pieces and compiled kernels (default: below ~/.cache); reused if it is there.
# BENCH_LIMIT_S: seconds after which the run is ended and what it has is packed (default 580, for a limit of 600).
# Pieces of another machine in ARCHIVES/done are not measured again. A file cache.tar.xz among the archives (an
# earlier OUT's) spares the kernels' compilation.
set -u
archives=$1 out=$2
shift 2
scratch=${BENCH_SCRATCH:-$HOME/.cache/specctl-bench}
limit=${BENCH_LIMIT_S:-580}
mkdir -p "$scratch"/{home,pieces,logs} "$out"
export HOME=$scratch/home TORCHINDUCTOR_CACHE_DIR=$scratch/home/inductor PYTHONDONTWRITEBYTECODE= PYTHONUNBUFFERED=1

unpack() { # once per content
    local sum
    sum=$(cksum <"$1")
    [ "$(cat "$scratch/$(basename "$1").sum" 2>/dev/null)" = "$sum" ] && return
    tar -C "$2" -xJf "$1" && printf '%s' "$sum" >"$scratch/$(basename "$1").sum"
}
unpack "$archives/site.tar.xz" "$scratch" || exit 1
if [ -f "$archives/fa3.tar.xz" ]; then unpack "$archives/fa3.tar.xz" "$scratch" || exit 1; fi
sum=$(cksum <"$archives/sglang.tar.xz")
[ "$(cat "$scratch/sglang.tar.xz.sum" 2>/dev/null)" = "$sum" ] || rm -rf "$scratch"/site/sglang "$scratch"/site/sglang-*.dist-info
unpack "$archives/sglang.tar.xz" "$scratch" || exit 1
if [ -f "$archives/cache.tar.xz" ]; then unpack "$archives/cache.tar.xz" "$scratch"; fi

earlier=()
[ -d "$archives/done" ] && earlier=(--done "$archives/done")
verb=run
if [ "$1" = campaign ]; then verb=campaign && shift; fi
echo "unpacked after $SECONDS s"
timeout -k 5 "$((limit > SECONDS + 10 ? limit - SECONDS : 10))" python3 benchmarks/run.py $verb "$@" \
    --out "$scratch/pieces" --work "$scratch/work" --models "$scratch/models" \
    --tiny "$archives/tiny" --site "$scratch/site" ${earlier[@]+"${earlier[@]}"}
code=$?
tar -C "$scratch/pieces" --exclude='*.part' -cJf "$out/pieces.tar.xz" .
for log in "$scratch"/work/*.log; do
    [ -f "$log" ] && tail -c 1000000 "$log" >"$scratch/logs/$(basename "$log")"
done
tar -C "$scratch/logs" -cf - . | xz -T0 -2 >"$out/logs.tar.xz"
if [ "${BENCH_SAVE_CACHE:-}" ]; then tar -C "$scratch" -cf - home | xz -T0 -3 >"$out/cache.tar.xz"; fi
echo "ended with $code after $SECONDS s"
exit $code
