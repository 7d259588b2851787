#!/bin/bash
# on_machine.sh ARCHIVES OUT RUN-ARGUMENTS..
# Arguments are those of `run.py run`, or `campaign NAME ..`.
# On the GPU machine, from the repository's root: unpack what `run.py pack` made, run, leave pieces and logs in OUT.
# BENCH_SCRATCH: where to unpack and keep compiled kernels (default: a folder below ~/.cache); reused if it is there.
# A file cache.tar.xz among the archives (an earlier OUT's) spares the kernels' compilation.
set -u
archives=$1 out=$2
shift 2
scratch=${BENCH_SCRATCH:-$HOME/.cache/specctl-bench}
mkdir -p "$scratch/home" "$out"
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

pieces=()
[ -d "$archives/done" ] && pieces=(--done "$archives/done")
verb=run
if [ "$1" = campaign ]; then verb=campaign && shift; fi
python3 benchmarks/run.py $verb "$@" --out "$out" --work "$scratch/work" --models "$scratch/models" \
    --tiny "$archives/tiny" --site "$scratch/site" ${pieces[@]+"${pieces[@]}"}
code=$?
tar -C "$scratch/work" -cJf "$out/logs.tar.xz" . 2>/dev/null
if [ "${BENCH_SAVE_CACHE:-}" ]; then tar -C "$scratch" -cf - home | xz -T0 -3 >"$out/cache.tar.xz"; fi
exit $code
